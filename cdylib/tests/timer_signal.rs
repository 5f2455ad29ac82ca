//! `CPUPROFILE_TIMER_SIGNAL`: ticks have the signal that the user says, and leave the timers' own ones to the program.

mod support;

use std::process::Command;
use support::{Finished, Linkage, Profile, Scratch, Told, plain, profiled, run};

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

/// What the library complains of, but for a system that has no events.
fn complaint(finished: &Finished) -> Option<&str> {
    complaint_but_for(finished, "clock cpu instead of perf")
}

/// The same, but for lines that have this in them.
fn complaint_but_for<'f>(finished: &'f Finished, usual: &str) -> Option<&'f str> {
    let is_usual = |line: &&str| {
        ["sigprof: statistics: ", "sigprof: thread: "].iter().any(|start| line.starts_with(start))
            || line.contains("clock cpu instead of perf")
            || line.contains(usual)
    };
    finished.complaints().into_iter().find(|line| !is_usual(line))
}

#[track_caller]
fn seconds(finished: &Finished) -> f64 {
    said(finished, "all ")
}

#[track_caller]
fn said(finished: &Finished, name: &str) -> f64 {
    let text = finished.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// Seconds that the samples stand for. Of CPU time they and what is told to be in none are what the program says that it has
/// used, and what it took to come to its `main` and to its end; and all is in samples up to a tick that it has seen come.
#[track_caller]
fn sampled(scratch: &Scratch, finished: &Finished, clock: &str) -> f64 {
    let profile = Profile::read(&scratch.path("prof"));
    let period = profile.period_micros as f64 / 1e6;
    if clock != "wall" {
        let told = Told::only(finished);
        assert_eq!(told.samples, profile.samples(), "{}", finished.stderr);
        let rest = finished.used - said(finished, "told_until ") + said(finished, "others ");
        let outcome = told
            .adds_up(period, 1)
            .and_then(|()| told.is_of(seconds(finished), finished))
            .and_then(|()| told.is_told_but_for(rest, period));
        outcome.unwrap_or_else(|failure| panic!("{clock}: {failure}; {}", finished.text()));
    }
    profile.samples() as f64 * period
}

/// By each clock, with the first and the last real-time signal: the time is there, and neither SIGPROF nor SIGALRM has a handler.
#[test]
fn ticks_have_the_signal_that_is_asked_for() {
    for clock in ["cpu", "itimer", "perf", "wall"] {
        for signal in [FIRST, LAST] {
            let scratch = Scratch::new();
            let finished =
                run(ticking(&scratch, signal, "computes").env("CPUPROFILE_CLOCK", clock)).expect_success();
            assert_eq!(complaint(&finished), None, "{clock}, {signal}");
            let sampled = sampled(&scratch, &finished, clock);
            // Elapsed time is never less than what was used.
            let least = if clock == "wall" { seconds(&finished) * 0.98 - 0.012 } else { 0.0 };
            assert!(sampled >= least, "{sampled} of {least} s, {clock}, {signal}");
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
    let expected = "sigprof: ticks are signal 27 instead of 34 for the profile at prof: the program handles signal 34 itself";
    assert_eq!(finished.complaints(), [expected]);
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// A host that handles the signal later is called for what is sent to it, and for nothing else; one that ignores it does so.
#[test]
fn what_others_send_is_the_host_s() {
    for order in ["serves", "ignores", "queues", "wakes", "files"] {
        for signal in if order == "serves" { &[FIRST, LAST][..] } else { &[FIRST] } {
            for clock in ["cpu", "perf", "wall"] {
                let scratch = Scratch::new();
                let mut command = ticking(&scratch, signal, order);
                let finished = run(command.env("CPUPROFILE_CLOCK", clock)).expect_success();
                // That host blocks the signal for half of its time.
                let usual = if order == "queues" { " s in no sample: " } else { "clock cpu instead of perf" };
                assert_eq!(complaint_but_for(&finished, usual), None, "{order}, {signal}, {clock}");
                assert!(Profile::read(&scratch.path("prof")).samples() >= 20, "{order}, {signal}, {clock}");
            }
        }
    }
}

/// SIGPROF and its timer are the host's alone.
#[test]
fn the_interval_timer_is_the_host_s() {
    for clock in ["cpu", "itimer"] {
        let scratch = Scratch::new();
        let mut command = ticking(&scratch, FIRST, "keeps-prof");
        let finished = run(command.env("CPUPROFILE_CLOCK", clock)).expect_success();
        assert_eq!(complaint(&finished), None);
        assert!(sampled(&scratch, &finished, clock) > 0.0);
    }
}

/// A signal that switches profiling cannot be that of its ticks.
#[test]
fn the_toggle_s_signal_is_not_that_of_ticks() {
    let scratch = Scratch::new();
    let mut command = ticking(&scratch, FIRST, "ignores");
    let finished = run(command
        .env("CPUPROFILESIGNAL", FIRST)
        .env("CPUPROFILE_TIMER_SIGNAL", "SIGRTMIN")
        .args(["unused"]));
    let line = "sigprof: CPUPROFILE_TIMER_SIGNAL=SIGRTMIN is that of CPUPROFILESIGNAL, too; using SIGPROF";
    assert_eq!(finished.complaints().first(), Some(&line), "{}", finished.stderr);
}
