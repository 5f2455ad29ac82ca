//! Many sessions at a high rate while threads compute: they leave no resources. Sessions that a
//! signal starts and stops inside the allocator and the loader.

use crate::support::{Linkage, Profile, Scratch, SessionTime, is_full, plain, profiled, rounds, run};

#[track_caller]
fn expect_nothing_left(clock: &str, sessions: usize) {
    let scratch = Scratch::new();
    let program = scratch.compile("cycles.c", Linkage::Shared, &["-O2", "-pthread"]);
    let mut command = plain(program);
    command.arg(sessions.to_string()).arg(scratch.path("prof"));
    command.envs([("CPUPROFILE_FREQUENCY", "4000"), ("CPUPROFILE_CLOCK", clock), ("CPUPROFILE_QUIET", "1")]);
    let finished = run(&mut command).expect_success();
    // A container may forbid events.
    let is_usual = |line: &&str| line.contains("clock cpu instead of perf");
    assert_eq!(finished.stderr.lines().find(|line| !is_usual(line)), None);
    let text = finished.text();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["sampled", count] => assert_eq!(count, sessions.to_string(), "{text}"),
            [_, before, after] => assert!(before == after && before != "-1", "{clock}: {text}"),
            _ => panic!("{text}"),
        }
    }
    assert_eq!(text.lines().count(), 5);
}

#[test]
fn sessions_with_timers_for_threads_leave_nothing() {
    expect_nothing_left("cpu", rounds(20, 1000));
}

#[test]
fn sessions_with_events_for_threads_leave_nothing() {
    expect_nothing_left("perf", rounds(20, 300));
}

#[test]
fn sessions_by_elapsed_time_leave_nothing() {
    expect_nothing_left("wall", rounds(20, 300));
}

#[test]
fn sessions_with_one_timer_leave_nothing() {
    expect_nothing_left("itimer", rounds(20, 300));
}

/// The toggle signal arrives inside the allocator (which aborts if called there), inside `dlopen`,
/// and while the loader lists objects. Each pair of signals makes a profile.
#[test]
fn a_signal_toggles_inside_malloc_and_dlopen() {
    const PAIRS: usize = 20;
    let scratch = Scratch::new();
    let program = scratch.compile("toggles.c", Linkage::None, &["-O1", "-rdynamic"]);
    let plugin = scratch.compile_library("toggle_plugin.c", &[]);
    let path = scratch.path("prof");
    let mut command = profiled(program, &path);
    command.arg(plugin).envs([("CPUPROFILESIGNAL", "SIGUSR2"), ("CPUPROFILE_FREQUENCY", "1000")]);
    command.env("CPUPROFILE_STATISTICS", "1");
    let finished = run(&mut command).expect_success();
    let text = finished.text();
    let mut lines = text.lines();
    assert_eq!(
        (lines.next_back(), finished.end_lines()),
        (Some((2 * PAIRS).to_string().as_str()), PAIRS),
        "{}",
        finished.stderr
    );
    let sessions = SessionTime::all(&finished);
    assert_eq!((sessions.len(), lines.clone().count()), (PAIRS, PAIRS));
    for (number, (time, line)) in sessions.iter().zip(lines).enumerate() {
        let profile = Profile::read(&scratch.path(&format!("prof.{number}")));
        assert_eq!(profile.samples(), time.samples, "profile {number}");
        assert!(time.samples > 0, "profile {number}");
        if !is_full() {
            continue;
        }
        let (least, most) = line.split_once(' ').expect("two times");
        let (least, most) = (least.parse().expect("seconds"), most.parse().expect("seconds"));
        let outcome = time.adds_up(1e-3, 1).and_then(|()| time.is_between(least, most));
        outcome.unwrap_or_else(|failure| panic!("profile {number}: {failure}"));
    }
    assert_eq!(scratch.names("prof.").len(), PAIRS);
}
