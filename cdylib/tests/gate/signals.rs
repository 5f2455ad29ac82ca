//! Applications that have business of their own with SIGPROF: they are told the truth and served, and our ticks stay ours.

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, plain, profiled, run};

/// Runs a case of `programs/signals.c` with the library preloaded and profiling on. At a frequency of 1 the timer is
/// silent for the whole run.
fn run_preloaded(scratch: &Scratch, case: &str, frequency: &str) -> Finished {
    let program = scratch.compile("signals.c", Linkage::None, &[]);
    run(profiled(program, &scratch.path("prof")).env("CPUPROFILE_FREQUENCY", frequency).arg(case))
}

/// Runs a case that calls the interface itself.
fn run_linked(scratch: &Scratch, case: &str) -> Finished {
    let program = scratch.compile("signals.c", Linkage::Shared, &[]);
    run(plain(program).env("CPUPROFILE_FREQUENCY", "1").arg(case).arg(scratch.path("prof")))
}

#[track_caller]
fn expect_done(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(finished.text(), "done\n");
}

/// The number of samples in the profile that the program left.
#[track_caller]
fn samples(scratch: &Scratch) -> usize {
    Profile::read(&scratch.path("prof")).samples()
}

/// `sigaction` and `signal` report what the application set itself, with its flags and mask, and never our handler.
#[test]
fn a_app_is_told_its_own_setting() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "told-the-truth", "250"));
    assert!(samples(&scratch) >= 5);
}

/// Other signals and impossible ones are handled as before.
#[test]
fn other_signals_are_none_of_our_business() {
    expect_done(&run_preloaded(&Scratch::new(), "bad-calls", "1"));
}

/// The application's handler gets the signals that others send, with their information and under its own mask, and these
/// are no ticks.
#[test]
fn a_apps_handler_serves_foreign_signals() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "serves-the-app", "1"));
    assert_eq!(samples(&scratch), 0);
}

/// The timer's ticks are recorded and never reach the application's handler.
#[test]
fn ticks_stay_ours_beside_a_apps_handler() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "ticks-stay-ours", "250"));
    assert!(samples(&scratch) >= 40);
}

/// An application that ignores the signal: foreign ones vanish, our ticks are recorded.
#[test]
fn a_app_may_ignore_the_signal() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "ignored", "250"));
    assert!(samples(&scratch) >= 20);
}

/// SA_RESETHAND: one foreign signal is served, not one of our ticks; the next has the default action.
#[test]
fn a_handler_for_one_signal_serves_one() {
    let scratch = Scratch::new();
    let finished = run_preloaded(&scratch, "once-only", "250");
    assert_eq!(finished.text(), "served once\n", "{}", finished.stderr);
    assert_eq!(exit_code(finished.status), 128 + 27);
}

/// An application's handler that jumps away instead of returning takes nothing of ours with it.
#[test]
fn a_handler_that_jumps_away_costs_nothing() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "jumps-out", "250"));
    assert!(samples(&scratch) >= 40);
}

/// A foreign SIGPROF is a tick while the application has no handler for it.
#[test]
fn a_foreign_signal_without_a_apps_handler_is_a_tick() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "foreign-ticks", "1"));
    assert_eq!(samples(&scratch), 2);
}

/// An application may block the signal.
#[test]
fn a_blocked_signal_waits() {
    let scratch = Scratch::new();
    expect_done(&run_preloaded(&scratch, "blocked", "1"));
    assert_eq!(samples(&scratch), 1);
}

/// After ProfilerStop our handler stays in place and does nothing.
#[test]
fn a_late_signal_after_a_stop_is_harmless() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "late-signal"));
    assert_eq!(samples(&scratch), 1);
}

/// The same through many starts and stops.
#[test]
fn starts_and_stops_in_a_row_keep_the_handler() {
    let scratch = Scratch::new();
    expect_done(&run_linked(&scratch, "start-stop-storm"));
    assert_eq!(samples(&scratch), 1);
}
