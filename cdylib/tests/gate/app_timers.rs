//! Applications with timers that send the profiler's signals keep them, and are profiled.

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, plain, profiled, run};

/// Runs a case of `programs/app_timers.c` with the library preloaded and profiling on at 1000 Hz.
fn run_preloaded(scratch: &Scratch, case: &str, realtime: bool) -> Finished {
    run_preloaded_at("1000", scratch, case, realtime)
}

/// Runs a case at `frequency`.
fn run_preloaded_at(frequency: &str, scratch: &Scratch, case: &str, realtime: bool) -> Finished {
    let program = scratch.compile("app_timers.c", Linkage::None, &[]);
    let mut command = profiled(program, &scratch.path("prof"));
    if realtime {
        command.env("CPUPROFILE_REALTIME", "1");
    }
    run(command.env("CPUPROFILE_FREQUENCY", frequency).arg(case))
}

fn run_alone(scratch: &Scratch, case: &str) -> Finished {
    run(plain(scratch.compile("app_timers.c", Linkage::None, &[])).arg(case))
}

/// Runs a case that starts the profiler itself.
fn run_linked(scratch: &Scratch, case: &str) -> Finished {
    let program = scratch.compile("app_timers.c", Linkage::Shared, &[]);
    run(plain(program).env("CPUPROFILE_FREQUENCY", "1000").arg(case).arg(scratch.path("prof")))
}

#[track_caller]
fn expect_done(finished: &Finished, lost: &str) {
    let status = exit_code(finished.status);
    let text = finished.text();
    assert!(status == 0 && text == "done\n", "{lost}: status {status}\n{text}\n{}", finished.stderr);
    assert_eq!(finished.complaints(), <[&str; 0]>::default(), "{lost}");
}

#[track_caller]
fn samples(scratch: &Scratch) -> usize {
    Profile::read(&scratch.path("prof")).samples()
}

/// The application arms `ITIMER_PROF`: it reads it back, and its handler runs for expiries only.
#[test]
fn the_application_keeps_its_itimer_prof() {
    let scratch = Scratch::new();
    let finished = run_preloaded(&scratch, "keeps-its-timer", false);
    expect_done(&finished, "the application's ITIMER_PROF is not its own");
    assert!(samples(&scratch) >= 55);
}

/// The application arms `ITIMER_PROF` once: its handler runs once.
#[test]
fn a_one_shot_timer_expires_once() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "fires-once", false), "the application's timer did not fire once");
    assert!(samples(&scratch) >= 40);
}

/// The application arms `ITIMER_PROF` and disarms it before it expires: its handler never runs.
#[test]
fn a_timer_disarmed_before_expiry_sends_nothing() {
    let scratch = Scratch::new();
    expect_done(
        &run_preloaded(&scratch, "waits-long", false),
        "a tick was taken for the application's timer",
    );
    assert!(samples(&scratch) >= 50);
}

/// The application arms `ITIMER_PROF` without a handler: it is killed, as without the library.
#[test]
fn a_timer_without_a_handler_kills_the_application() {
    let scratch = Scratch::new();
    let expected = run_alone(&scratch, "dies");
    let finished = run_preloaded(&scratch, "dies", false);
    assert_eq!(
        (exit_code(finished.status), finished.text()),
        (128 + 27, "armed\n".to_owned()),
        "{}",
        finished.stderr
    );
    assert_eq!((exit_code(expected.status), expected.text()), (128 + 27, "armed\n".to_owned()));
}

/// The application arms `ITIMER_PROF` and ignores its signal: it continues, and ticks come.
#[test]
fn a_timer_with_an_ignored_signal_does_nothing() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "ignores", false), "an ignored timer did harm");
    assert!(samples(&scratch) >= 40);
}

/// The timer expires while the signal is blocked and a tick is pending: the handler runs later.
#[test]
fn an_expiry_while_the_signal_is_blocked_is_not_lost() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "blocks", false), "the application's timer has no signal");
    assert!(samples(&scratch) > 0);
}

/// A thread arms `ITIMER_PROF` while a sent signal is pending: the signal stays pending.
#[test]
fn a_signal_that_is_pending_when_the_timer_is_armed_stays_pending() {
    // The kernel drops the application's signal if a tick is pending: none comes for a second.
    let finished = run_preloaded_at("1", &Scratch::new(), "pending-stays-pending", false);
    let outcome = (exit_code(finished.status), finished.text());
    assert_eq!(
        outcome,
        (0, "done\n".to_owned()),
        "a signal of the application's is gone: {}",
        finished.stderr
    );
}

/// The application waits for its timer by `sigwaitinfo`: it gets all expiries and no tick; ticks
/// stop, and a diagnostic reports it.
#[test]
fn sigwaitinfo_distinguishes_the_timer_from_ticks() {
    let finished = run_preloaded(&Scratch::new(), "takes-ticks", false);
    let lost = format!("the application waited for its timer and got something else: {}", finished.stderr);
    assert_eq!((exit_code(finished.status), finished.text()), (0, "done\n".to_owned()), "{lost}");
    let line = "sigprof: profiling stopped: cannot send ticks to a program that uses their signal itself: Device or resource busy";
    assert_eq!(
        finished.complaints(),
        [line],
        "ticks that no thread takes continue, and delay the application's timer"
    );
}

/// The application passes invalid arguments: the results are the system's.
#[test]
fn invalid_arguments_return_the_errors_of_the_system() {
    let scratch = Scratch::new();
    let expected = run_alone(&scratch, "bad-arguments");
    let finished = run_preloaded(&scratch, "bad-arguments", false);
    assert!(expected.text().lines().count() > 10);
    assert_eq!(finished.text(), expected.text(), "the application is told something else");
}

/// A linked application arms `ITIMER_PROF` before a start: it keeps the timer until after the stop.
#[test]
fn a_timer_from_before_a_start_is_kept() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "armed-before-a-start"), "the start took the application's timer");
    assert!(samples(&scratch) >= 20);
}

/// A linked application starts and stops the profiler while its timer runs: it keeps the timer.
#[test]
fn a_timer_is_kept_across_stop_and_start() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "across-stop-and-start"), "the application's timer did not last");
    assert!(samples(&scratch) >= 10);
}

/// A tick is pending at a stop: the application's handler (GNU sort's exits) is not called.
#[test]
fn a_tick_pending_at_a_stop_does_not_reach_the_application() {
    let scratch = Scratch::new();
    let finished = run_linked(&scratch, "pending-tick-after-a-stop");
    expect_done(&finished, "the application got a tick of the profiler");
}

/// A linked application arms `ITIMER_PROF` after a stop, without a handler: it is killed.
#[test]
fn a_timer_without_a_handler_kills_the_application_after_a_stop() {
    let scratch = Scratch::new();
    let finished = run_linked(&scratch, "dies-after-a-stop");
    assert_eq!(
        (exit_code(finished.status), finished.text()),
        (128 + 27, "armed\n".to_owned()),
        "{}",
        finished.stderr
    );
}

/// The application forks with an armed timer: the child has none, and can arm one.
#[test]
fn a_forked_child_has_no_timer_and_can_arm_one() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "child-has-none", false), "parent or child lost its timer");
    assert_eq!(scratch.names("prof_").len(), 1, "the child's profile");
}

/// The application replaces itself while its timer is armed: the next program inherits it.
#[test]
fn the_next_program_inherits_the_timer_of_the_application() {
    let finished = run_preloaded(&Scratch::new(), "next-program-of-armed", false);
    let text = "interval 20, value near 10\ndone\n";
    assert_eq!(finished.text(), text, "the next program lacks its timer: {}", finished.stderr);
    assert_eq!(exit_code(finished.status), 0);
}

/// An application without a timer replaces itself: the next program has no timer either.
#[test]
fn the_next_program_does_not_inherit_the_timer_of_the_profiler() {
    let finished = run_preloaded(&Scratch::new(), "next-program-of-unarmed", false);
    assert_eq!(finished.text(), "interval 0, value none\ndone\n", "{}", finished.stderr);
    assert_eq!(exit_code(finished.status), 0);
}

/// Only the application's timer can be created: ticks stop, and a diagnostic reports it.
#[test]
fn the_only_timer_belongs_to_the_application() {
    let scratch = Scratch::new();
    let finished = run_preloaded(&scratch, "without-a-second-timer", false);
    assert_eq!(
        (exit_code(finished.status), finished.text()),
        (0, "done\n".to_owned()),
        "{}",
        finished.stderr
    );
    let line =
        "sigprof: profiling stopped: cannot create a timer beside the program's own ITIMER_PROF: Try again";
    assert_eq!(finished.complaints(), [line]);
    assert!(samples(&scratch) >= 5);
}

/// The application creates timers by `timer_create`: its handlers get their signals and values.
#[test]
fn the_application_keeps_its_posix_timers() {
    let scratch = Scratch::new();
    expect_done(
        &run_preloaded(&scratch, "posix-timers", false),
        "a timer of the application's was not served",
    );
    assert!(samples(&scratch) >= 30);
}

/// The application uses `alarm`, `ualarm`, `ITIMER_REAL` with each clock: it gets their signals.
#[test]
fn the_application_keeps_its_alarms() {
    for realtime in [false, true] {
        let scratch = Scratch::new();
        let lost = format!("an alarm was not the application's, realtime {realtime}");
        expect_done(&run_preloaded(&scratch, "alarms", realtime), &lost);
        assert!(samples(&scratch) >= 60);
    }
}

/// The application sets an alarm without a handler, with each clock: the alarm kills it.
#[test]
fn an_alarm_without_a_handler_kills_the_application() {
    for realtime in [false, true] {
        let finished = run_preloaded(&Scratch::new(), "dies-of-an-alarm", realtime);
        let outcome = (exit_code(finished.status), finished.text());
        assert_eq!(outcome, (128 + 14, "armed\n".to_owned()), "{}", finished.stderr);
    }
}

/// The application disarms the timer by a direct system call: a diagnostic reports missing time.
#[test]
fn reports_a_timer_disarmed_by_a_system_call() {
    let scratch = Scratch::new();
    let finished = run_preloaded(&scratch, "by-system-call", false);
    assert_eq!(
        (exit_code(finished.status), finished.text()),
        (0, "done\n".to_owned()),
        "{}",
        finished.stderr
    );
    let line = "sigprof: the program armed ITIMER_PROF by a direct system call; CPU time may be missing in the profile at ";
    assert_eq!(finished.complaints(), [format!("{line}{}", scratch.path("prof").display())]);
}
