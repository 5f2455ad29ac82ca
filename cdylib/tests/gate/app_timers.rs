//! Applications with timers of their own that send our signals: they keep them, and their ticks; and ours come all the same.

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, plain, profiled, run};

/// Runs a case of `programs/app_timers.c` with the library preloaded and profiling on at 1000 ticks a second.
fn run_preloaded(scratch: &Scratch, case: &str, realtime: bool) -> Finished {
    run_preloaded_at("1000", scratch, case, realtime)
}

/// The same at `frequency`.
fn run_preloaded_at(frequency: &str, scratch: &Scratch, case: &str, realtime: bool) -> Finished {
    let program = scratch.compile("app_timers.c", Linkage::None, &[]);
    let mut command = profiled(program, &scratch.path("prof"));
    if realtime {
        command.env("CPUPROFILE_REALTIME", "1");
    }
    run(command.env("CPUPROFILE_FREQUENCY", frequency).arg(case))
}

/// Runs a case without the library.
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

/// An application that arms ITIMER_PROF reads back what it has set, is called each time, and never for our ticks.
#[test]
fn a_app_keeps_its_timer_of_cpu_time() {
    let scratch = Scratch::new();
    let finished = run_preloaded(&scratch, "keeps-its-timer", false);
    expect_done(&finished, "the application's ITIMER_PROF is not its own");
    assert!(samples(&scratch) >= 55);
}

/// An application that arms it for one signal gets one.
#[test]
fn a_timer_that_fires_once_fires_once() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "fires-once", false), "the application's timer did not fire once");
    assert!(samples(&scratch) >= 40);
}

/// An application that arms it for later, and disarms it before, is never called.
#[test]
fn a_timer_that_has_not_run_out_sends_nothing() {
    let scratch = Scratch::new();
    expect_done(
        &run_preloaded(&scratch, "waits-long", false),
        "a tick was taken for the application's timer",
    );
    assert!(samples(&scratch) >= 50);
}

/// An application that arms it and has no handler is ended by it, as without the library.
#[test]
fn a_timer_without_a_handler_ends_the_app() {
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

/// An application that arms it and ignores its signal continues, and is ticked.
#[test]
fn a_timer_whose_signal_is_ignored_does_nothing() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "ignores", false), "an ignored timer did harm");
    assert!(samples(&scratch) >= 40);
}

/// An application that blocks the signal while its timer runs out gets it afterwards, though a tick was pending at the time.
#[test]
fn a_timer_that_runs_out_while_the_signal_is_blocked_is_not_lost() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "blocks", false), "the application's timer has no signal");
    assert!(samples(&scratch) > 0);
}

/// A thread of an application arms the timer while a signal that somebody has sent is pending for the process: it stays pending.
#[test]
fn a_signal_that_is_pending_when_the_timer_is_armed_stays_pending() {
    // The kernel drops the application's signal if a tick is pending: none comes within the first second.
    let finished = run_preloaded_at("1", &Scratch::new(), "pending-stays-pending", false);
    let told = (exit_code(finished.status), finished.text());
    assert_eq!(told, (0, "done\n".to_owned()), "a signal of the application's is gone: {}", finished.stderr);
}

/// An application that takes its timer's signals by `sigwaitinfo` gets all of them and no tick; ticks, which nobody else takes, end with
/// one line.
#[test]
fn a_timer_that_is_waited_for_is_told_from_ticks() {
    let finished = run_preloaded(&Scratch::new(), "takes-ticks", false);
    let lost = format!("the application waited for its timer and got something else: {}", finished.stderr);
    assert_eq!((exit_code(finished.status), finished.text()), (0, "done\n".to_owned()), "{lost}");
    let line = "sigprof: profiling stopped: cannot send ticks to a program that uses their signal itself: Device or resource busy";
    assert_eq!(
        finished.complaints(),
        [line],
        "ticks that come to nothing go on, and get into the way of the application's timer"
    );
}

/// Arguments that make no sense get the system's answers.
#[test]
fn arguments_without_sense_are_refused_as_ever() {
    let scratch = Scratch::new();
    let expected = run_alone(&scratch, "bad-arguments");
    let finished = run_preloaded(&scratch, "bad-arguments", false);
    assert!(expected.text().lines().count() > 10);
    assert_eq!(finished.text(), expected.text(), "the application is told something else");
}

/// A linked application that has armed it before it starts the profiler keeps it through start and stop.
#[test]
fn a_timer_from_before_a_start_is_kept() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "armed-before-a-start"), "the start took the application's timer");
    assert!(samples(&scratch) >= 20);
}

/// A linked application that starts and stops the profiler while its timer runs keeps it throughout.
#[test]
fn a_timer_is_kept_across_stop_and_start() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "across-stop-and-start"), "the application's timer did not last");
    assert!(samples(&scratch) >= 10);
}

/// The application's handler is not called for a tick that was pending when the profiler stopped: GNU sort's ends sort.
#[test]
fn a_tick_that_is_pending_at_a_stop_is_not_the_applications() {
    let scratch = Scratch::new();
    let finished = run_linked(&scratch, "pending-tick-after-a-stop");
    expect_done(&finished, "the application got a tick of the profiler");
}

/// A linked application without a handler that arms it after the profiler has stopped is ended by it.
#[test]
fn a_timer_without_a_handler_ends_the_app_after_a_stop() {
    let scratch = Scratch::new();
    let finished = run_linked(&scratch, "dies-after-a-stop");
    assert_eq!(
        (exit_code(finished.status), finished.text()),
        (128 + 27, "armed\n".to_owned()),
        "{}",
        finished.stderr
    );
}

/// An application with its timer armed forks: the child has none, is ticked, and may arm one of its own.
#[test]
fn a_forked_child_has_no_timer_and_may_have_one() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "child-has-none", false), "parent or child lost its timer");
    assert_eq!(scratch.names("prof_").len(), 1, "the child's profile");
}

/// An application with its timer armed replaces its program, which inherits the timer.
#[test]
fn the_next_program_inherits_the_apps_timer() {
    let finished = run_preloaded(&Scratch::new(), "next-program-of-armed", false);
    let text = "interval 20, value near 10\ndone\n";
    assert_eq!(finished.text(), text, "the next program lacks its timer: {}", finished.stderr);
    assert_eq!(exit_code(finished.status), 0);
}

/// An application without a timer replaces its program, which has none either.
#[test]
fn the_next_program_does_not_inherit_ours() {
    let finished = run_preloaded(&Scratch::new(), "next-program-of-unarmed", false);
    assert_eq!(finished.text(), "interval 0, value none\ndone\n", "{}", finished.stderr);
    assert_eq!(exit_code(finished.status), 0);
}

/// An application arms its timer where no other can be created: it has it, ticks end, and one line says so.
#[test]
fn where_there_is_one_timer_it_is_the_apps() {
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

/// An application with timers of `timer_create` gets their signals in its handlers, with the information that it gave.
#[test]
fn a_app_keeps_its_posix_timers() {
    let scratch = Scratch::new();
    expect_done(
        &run_preloaded(&scratch, "posix-timers", false),
        "a timer of the application's was not served",
    );
    assert!(samples(&scratch) >= 30);
}

/// An application that uses `alarm`, `ualarm` and ITIMER_REAL gets their signals, whatever clock it is profiled by.
#[test]
fn a_app_keeps_its_alarms() {
    for realtime in [false, true] {
        let scratch = Scratch::new();
        let lost = format!("an alarm was not the application's, realtime {realtime}");
        expect_done(&run_preloaded(&scratch, "alarms", realtime), &lost);
        assert!(samples(&scratch) >= 60);
    }
}

/// An application that an alarm is to end is ended by it, whatever clock it is profiled by.
#[test]
fn an_alarm_without_a_handler_ends_the_app() {
    for realtime in [false, true] {
        let finished = run_preloaded(&Scratch::new(), "dies-of-an-alarm", realtime);
        let told = (exit_code(finished.status), finished.text());
        assert_eq!(told, (128 + 14, "armed\n".to_owned()), "{}", finished.stderr);
    }
}

/// An application that disarms the timer by a system call of its own is left alone, and one line says what that means.
#[test]
fn a_timer_taken_by_a_system_call_is_told() {
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
