//! Forks in great number and under load: nothing hangs, nothing is lost, nothing is left over.

mod support;

use std::collections::BTreeMap;

use support::{Finished, Linkage, Profile, Scratch, Told, exit_code, profiled, run};

const FORKS: usize = 100;
/// As in `programs/fork_storm.c`.
const TICKS_OF_A_CHILD: usize = 5;

#[track_caller]
fn expect_success(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(finished.complaints(), Vec::<&str>::new());
}

/// As [`expect_success`], of a run that was asked for statistics: no tick of any process was lost, and none found a handler
/// that never came back.
#[track_caller]
fn expect_success_without_loss(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    for line in finished.complaints() {
        if line.starts_with("sigprof: thread: ") {
            continue;
        }
        assert!(line.starts_with("sigprof: statistics: "), "{line}");
        for nothing in [" no_slot=0 ", " table_full=0 ", " stuck_handlers=0 "] {
            assert!(line.contains(nothing), "not {nothing:?}: {line}");
        }
    }
}

fn storm(scratch: &Scratch, variables: &[(&str, &str)]) -> Finished {
    let plugin = scratch.compile_library("plugin_tick.c", &[]);
    let mut command = profiled(scratch.compile("fork_storm.c", Linkage::None, &[]), &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_STATISTICS", "1");
    command.envs(variables.iter().copied());
    run(command.arg(FORKS.to_string()).arg(plugin))
}

/// A program forks while its other threads tick, flush, ask for the state, and open and close a library: no child hangs,
/// each has its own ticks in its own file, and the parent has all of its own.
#[test]
fn children_of_a_program_with_busy_threads_are_sound() {
    let scratch = Scratch::new();
    let finished = storm(&scratch, &[]);
    expect_success_without_loss(&finished);
    let text = finished.text();
    let children: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("child ")).collect();
    assert_eq!(children.len(), FORKS);
    for child in &children {
        let samples = Profile::read(&scratch.path(&format!("prof_{child}"))).samples();
        assert_eq!(samples, TICKS_OF_A_CHILD, "samples of a child are lost or others'");
    }
    assert_eq!(scratch.names("prof").len(), 1 + FORKS);
    let ticks: usize =
        text.lines().find_map(|line| line.strip_prefix("ticks ")).expect("a line").parse().expect("a number");
    let samples = Profile::read(&scratch.path("prof")).samples();
    // The timer adds its own when a second of CPU time is over.
    assert!(samples >= ticks, "{samples} of the parent's {ticks} ticks");
}

/// The same while a thread switches profiling on and off by its signal all the time: each child switches its own on, in a
/// file of its own.
#[test]
fn children_of_a_program_that_is_being_toggled_are_sound() {
    let scratch = Scratch::new();
    let finished = storm(&scratch, &[("CPUPROFILESIGNAL", "SIGUSR2")]);
    expect_success_without_loss(&finished);
    let text = finished.text();
    for child in text.lines().filter_map(|line| line.strip_prefix("child ")) {
        let names = scratch.names(&format!("prof_{child}."));
        let [name] = &names[..] else { panic!("{names:?}: the child's profile") };
        assert_eq!(Profile::read(&scratch.path(name)).samples(), TICKS_OF_A_CHILD);
    }
}

/// Thousands of short children, one in ten with a tick: the parent holds no more descriptors, mappings or memory than
/// before, and no file is left but profiles of those that ticked.
#[test]
fn many_short_children_leave_nothing_behind() {
    const MANY: usize = 3000;
    /// As in `programs/many_forks.c`: before it begins to count.
    const FIRST: usize = 10;
    let scratch = Scratch::new();
    let mut command = profiled(scratch.compile("many_forks.c", Linkage::None, &[]), &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_QUIET", "1");
    let spools = scratch.directory("spools");
    command.env("CPUPROFILE_SPOOL", &spools);
    let finished = run(command.arg(MANY.to_string()));
    expect_success(&finished);
    let names = scratch.names("");
    let (profiles, others): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.starts_with("prof_"));
    assert_eq!(others, ["many_forks", "prof", "spools"]);
    let left: Vec<_> =
        std::fs::read_dir(&spools).expect("a directory").map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "spools of processes that have ended: {left:?}");
    assert_eq!(profiles.len(), MANY / 10 + FIRST.div_ceil(10), "the profiles of children that ticked");
    for name in profiles.iter().step_by(50) {
        assert_eq!(Profile::read(&scratch.path(name)).samples(), 1);
    }
}

/// A server with eight workers, forked beforehand, serves a load and is shut down in an orderly way: nine profiles, each with
/// all of its process's time, but for what the process tells at its end to be in no sample.
#[test]
fn the_profiles_of_a_prefork_server_add_up_to_the_time_used() {
    const PROCESSES: usize = 9;
    /// To which the kernel and the profiler cut their times.
    const ROUNDED: f64 = 1e-5;
    for frequency in ["100", "1000"] {
        let scratch = Scratch::new();
        let mut command = profiled(scratch.compile("prefork.c", Linkage::None, &[]), &scratch.path("prof"));
        command.env("CPUPROFILE_FREQUENCY", frequency).env("CPUPROFILE_STATISTICS", "1");
        let finished = run(command.arg(scratch.path("socket")));
        expect_success_without_loss(&finished);
        let text = finished.text();
        let seconds_of = |name: &str| -> BTreeMap<String, f64> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().split_once(' '));
            lines
                .map(|(process, micros)| {
                    (format!("prof_{process}"), micros.parse::<f64>().expect("a number") / 1e6)
                })
                .collect()
        };
        let (mut served, ended) = (seconds_of("served"), seconds_of("ended"));
        assert_eq!((served.len(), ended.len()), (PROCESSES, PROCESSES - 1), "{text}");
        let parent = served.keys().find(|name| !ended.contains_key(*name)).expect("is no worker").clone();
        let served_by_parent = served.remove(&parent).expect("a line");
        served.insert("prof".to_owned(), served_by_parent);
        let expected: Vec<&String> = served.keys().collect();
        assert_eq!(
            scratch.names("prof").iter().collect::<Vec<_>>(),
            expected,
            "a worker's time is in no profile"
        );
        for (name, served) in &served {
            let path = scratch.path(name);
            let (profile, told) = (Profile::read(&path), Told::of(&finished, &path));
            assert_eq!(profile.samples(), told.samples, "{name}");
            told.adds_up(profile.period_micros as f64 / 1e6, 1)
                .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert!(told.used + ROUNDED >= *served, "{name} served for {served} s: {told:?}");
            // What the parent used after its last line nobody tells.
            if let Some(ended) = ended.get(name) {
                assert!(told.used <= ended + ROUNDED, "{name} had used {ended} s: {told:?}");
            }
        }
    }
}
