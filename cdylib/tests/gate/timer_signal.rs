//! `CPUPROFILE_TIMER_SIGNAL`: ticks have the signal that the user says, and leave the timers' own ones to the program.

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

/// What the library complains of, except that a system has no events.
fn complaint(finished: &Finished) -> Option<&str> {
    let is_usual = |line: &&str| {
        ["sigprof: statistics: ", "sigprof: thread: "].iter().any(|start| line.starts_with(start))
            || line.contains("clock cpu instead of perf")
    };
    finished.complaints().into_iter().find(|line| !is_usual(line))
}

/// By each clock, with the first and the last real-time signal: ticks come, and neither SIGPROF nor SIGALRM has a handler.
#[test]
fn ticks_have_the_signal_that_is_asked_for() {
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

/// A signal that the program handles before it starts its profiler stays its own: one line, and ticks are SIGPROF.
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

/// An application that handles the signal later is called for what is sent to it, and for nothing else; one that ignores it does so.
#[test]
fn what_others_send_is_the_app_s() {
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

/// SIGPROF and its timer are the application's alone.
#[test]
fn the_interval_timer_is_the_app_s() {
    for clock in ["cpu", "itimer"] {
        let scratch = Scratch::new();
        let mut command = ticking(&scratch, FIRST, "keeps-prof");
        let finished = run(command.env("CPUPROFILE_CLOCK", clock)).expect_success();
        assert_eq!(complaint(&finished), None);
        assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
    }
}

/// A signal that switches profiling cannot be that of its ticks.
#[test]
fn the_toggle_s_signal_is_not_that_of_ticks() {
    let scratch = Scratch::new();
    let mut command = ticking(&scratch, FIRST, "ends");
    command.env("CPUPROFILESIGNAL", FIRST).env("CPUPROFILE_TIMER_SIGNAL", "SIGRTMIN");
    let finished = run(&mut command).expect_success();
    let line =
        "sigprof: CPUPROFILE_TIMER_SIGNAL=SIGRTMIN is also the value of CPUPROFILESIGNAL; using SIGPROF";
    assert_eq!(finished.complaints().first(), Some(&line), "{}", finished.stderr);
}
