//! `CPUPROFILE_TIMER_SIGNAL` is the signal of ticks; the timers' own signals are the program's.

use crate::support::{Finished, Linkage, Profile, Scratch, plain, profiled, run};
use std::process::Command;

const FIRST: &str = "34";
const LAST: &str = "64";

fn ticking(scratch: &Scratch, signal: &str, order: &str) -> Command {
    let program = scratch.compile("timer_signal.c", Linkage::None, &["-O2"]);
    let mut command = profiled(program, &scratch.path("prof"));
    command
        .args([signal, order])
        .envs([("CPUPROFILE_TIMER_SIGNAL", signal), ("CPUPROFILE_FREQUENCY", "250")])
        .env("CPUPROFILE_STATISTICS", "1");
    command
}

/// The first diagnostic, other than the one that the system has no events.
fn complaint(finished: &Finished) -> Option<&str> {
    let is_usual = |line: &&str| {
        ["sigprof: statistics: ", "sigprof: thread: "].iter().any(|start| line.starts_with(start))
            || line.contains("clock cpu instead of perf")
    };
    finished.complaints().into_iter().find(|line| !is_usual(line))
}

/// With each clock and the first and last real-time signal, SIGPROF and SIGALRM have no handler.
#[test]
fn ticks_have_the_requested_signal() {
    for clock in ["cpu", "itimer", "perf", "wall"] {
        for signal in [FIRST, LAST] {
            let scratch = Scratch::new();
            let finished = run(ticking(&scratch, signal, "until-sampled").env("CPUPROFILE_CLOCK", clock))
                .expect_success();
            assert_eq!(complaint(&finished), None, "{clock}, {signal}");
            assert!(Profile::read(&scratch.path("prof")).samples() >= 20, "{clock}, {signal}");
        }
    }
}

/// The program handles the signal before a start: a diagnostic, and ticks use SIGPROF.
#[test]
fn a_signal_that_is_in_use_is_left_to_the_program() {
    let scratch = Scratch::new();
    let program = scratch.compile("timer_signal.c", Linkage::Shared, &["-O2"]);
    let mut command = plain(program);
    command.args([FIRST, "in-use"]).env("CPUPROFILE_TIMER_SIGNAL", "SIGRTMIN").current_dir(scratch.root());
    let finished = run(&mut command).expect_success();
    let expected = "sigprof: using signal 27 instead of 34 for the profile at prof: the program handles signal 34 itself";
    assert_eq!(finished.complaints(), [expected]);
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// An application that handles the signal later gets only sent signals; it can also ignore it.
#[test]
fn sent_signals_belong_to_the_application() {
    for order in ["serves", "ignores", "queues", "wakes", "files"] {
        for signal in if order == "serves" { &[FIRST, LAST][..] } else { &[FIRST] } {
            for clock in ["cpu", "perf", "wall"] {
                let scratch = Scratch::new();
                let mut command = ticking(&scratch, signal, order);
                let finished = run(command.env("CPUPROFILE_CLOCK", clock)).expect_success();
                assert_eq!(complaint(&finished), None, "{order}, {signal}, {clock}");
                assert!(Profile::read(&scratch.path("prof")).samples() >= 20, "{order}, {signal}, {clock}");
            }
        }
    }
}

#[test]
fn sigprof_and_its_timer_belong_to_the_application() {
    for clock in ["cpu", "itimer"] {
        let scratch = Scratch::new();
        let mut command = ticking(&scratch, FIRST, "keeps-prof");
        let finished = run(command.env("CPUPROFILE_CLOCK", clock)).expect_success();
        assert_eq!(complaint(&finished), None);
        assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
    }
}

#[test]
fn refuses_the_toggle_signal_for_ticks() {
    let scratch = Scratch::new();
    let mut command = ticking(&scratch, FIRST, "ends");
    command.env("CPUPROFILESIGNAL", FIRST).env("CPUPROFILE_TIMER_SIGNAL", "SIGRTMIN");
    let finished = run(&mut command).expect_success();
    let line =
        "sigprof: CPUPROFILE_TIMER_SIGNAL=SIGRTMIN is also the value of CPUPROFILESIGNAL; using SIGPROF";
    assert_eq!(finished.complaints().first(), Some(&line), "{}", finished.stderr);
}
