//! Applications' timers expire at their rate, and counts of ticks add up to the time used.

use crate::support::{Finished, Linkage, Scratch, exit_code, profiled, run};

/// Runs a case of `programs/app_timers.c` with the library preloaded and profiling on at 1000 Hz.
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
fn the_timer_of_the_application_keeps_its_rate() {
    expect_done("keeps-its-rate");
}

/// The application waits for its timer by `sigwaitinfo`: the timer keeps its rate, and ticks stop.
#[test]
fn sigwaitinfo_keeps_the_rate_of_a_timer() {
    let finished = expect_done("waits-for-it");
    let line = "sigprof: profiling stopped: cannot send ticks to a program that uses their signal itself: ";
    assert!(finished.complaints().iter().any(|complaint| complaint.starts_with(line)), "{}", finished.stderr);
}

/// The application arms and disarms its timer repeatedly: the counts represent exactly its time.
#[test]
fn counts_add_up_while_timers_change() {
    expect_done("adds-up");
}
