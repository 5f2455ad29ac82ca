//! Applications with timers of their own: these fire at their rate, and the counts of ticks add up to the time used.

use crate::support::{Finished, Linkage, Scratch, exit_code, profiled, run};

/// Runs a case of `programs/app_timers.c` with the library preloaded and profiling on at 1000 ticks a second.
#[track_caller]
fn expect_done(case: &str) -> Finished {
    let scratch = Scratch::new();
    let program = scratch.compile("app_timers.c", Linkage::None, &[]);
    let mut command = profiled(program, &scratch.path("prof"));
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "1000").arg(case));
    let outcome = (exit_code(finished.status), finished.text());
    assert_eq!(outcome, (0, "done\n".to_owned()), "{case}: {}", finished.stderr);
    finished
}

#[test]
fn a_app_s_timer_keeps_its_rate() {
    expect_done("keeps-its-rate");
}

/// An application that takes its timer's signals by `sigwaitinfo` gets them at its rate while ticks still come; and ticks end.
#[test]
fn a_timer_that_is_waited_for_keeps_its_rate() {
    let finished = expect_done("waits-for-it");
    let line = "sigprof: profiling stopped: cannot send ticks to a program that uses their signal itself: ";
    assert!(finished.complaints().iter().any(|complaint| complaint.starts_with(line)), "{}", finished.stderr);
}

/// An application that arms and disarms its timer again and again: the counts represent the time that it used, no more and no less.
#[test]
fn the_counts_add_up_whoever_has_which_timer() {
    expect_done("adds-up");
}
