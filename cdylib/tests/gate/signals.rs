//! Applications that use SIGPROF: results and their own signals are correct, and ticks recorded.

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, plain, profiled, run};

/// Runs a case of `programs/signals.c` with the library preloaded and profiling on. At 1 Hz the
/// timer does not expire during the run.
fn run_preloaded(scratch: &Scratch, case: &str, frequency: &str) -> Finished {
    let program = scratch.compile("signals.c", Linkage::None, &[]);
    run(profiled(program, &scratch.path("prof")).env("CPUPROFILE_FREQUENCY", frequency).arg(case))
}

/// Runs a case that calls the C interface itself.
fn run_linked(scratch: &Scratch, case: &str) -> Finished {
    let program = scratch.compile("signals.c", Linkage::Shared, &[]);
    run(plain(program).env("CPUPROFILE_FREQUENCY", "1").arg(case).arg(scratch.path("prof")))
}

#[track_caller]
fn expect_done(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(finished.text(), "done\n");
}

#[track_caller]
fn samples(scratch: &Scratch) -> usize {
    Profile::read(&scratch.path("prof")).samples()
}

/// The application calls `sigaction` and `signal`: they return its own settings, flags and mask.
#[test]
fn sigaction_returns_the_settings_of_the_application() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "told-the-truth", "250"));
    assert!(samples(&scratch) >= 5);
}

/// The application calls `sigaction` for other and for invalid signals: results are as before.
#[test]
fn other_signals_work_as_before() {
    expect_done(&run_preloaded(&Scratch::new(), "bad-calls", "1"));
}

/// The application handles SIGPROF: it gets sent signals, with their information and under its
/// mask, and none is a tick.
#[test]
fn the_handler_of_the_application_gets_sent_signals() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "serves-the-app", "1"));
    assert_eq!(samples(&scratch), 0);
}

/// The application handles SIGPROF: ticks are recorded and never call its handler.
#[test]
fn ticks_do_not_reach_the_handler_of_the_application() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "ticks-stay-ours", "250"));
    assert!(samples(&scratch) >= 40);
}

/// The application ignores SIGPROF: sent signals have no effect, and ticks are recorded.
#[test]
fn an_application_can_ignore_the_signal() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "ignored", "250"));
    assert!(samples(&scratch) >= 20);
}

/// The application's handler has `SA_RESETHAND`: it runs for one sent signal; the next one kills.
#[test]
fn a_one_shot_handler_runs_once() {
    let scratch = Scratch::new();
    let finished = run_preloaded(&scratch, "once-only", "250");
    assert_eq!(finished.text(), "served once\n", "{}", finished.stderr);
    assert_eq!(exit_code(finished.status), 128 + 27);
}

/// The application's handler leaves by a jump: ticks are still recorded.
#[test]
fn ticks_continue_after_a_handler_jumps_out() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "jumps-out", "250"));
    assert!(samples(&scratch) >= 40);
}

/// The application has no handler and gets a sent SIGPROF: it counts as a tick.
#[test]
fn a_sent_signal_without_a_handler_is_a_tick() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "foreign-ticks", "1"));
    assert_eq!(samples(&scratch), 2);
}

/// The application blocks SIGPROF: the signal stays pending.
#[test]
fn a_blocked_signal_stays_pending() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "blocked", "1"));
    assert_eq!(samples(&scratch), 1);
}

/// The application gets SIGPROF after `ProfilerStop`: the library's handler ignores it.
#[test]
fn a_late_signal_after_a_stop_is_harmless() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "late-signal"));
    assert_eq!(samples(&scratch), 1);
}

/// The application starts and stops the profiler many times: the handler stays installed.
#[test]
fn starts_and_stops_in_a_row_keep_the_handler() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "start-stop-storm"));
    assert_eq!(samples(&scratch), 1);
}
