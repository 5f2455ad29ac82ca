//! Many forks under load: no process hangs, and no sample, file or resource is left or lost.

use crate::support::outcome::expect_success_without_loss;
use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, profiled, rounds, run};

/// As in `programs/fork_storm.c`.
const TICKS_OF_A_CHILD: usize = 5;

#[track_caller]
fn expect_success(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(finished.complaints(), Vec::<&str>::new());
}

fn forks() -> usize {
    rounds(5, 100)
}

fn storm(scratch: &Scratch, variables: &[(&str, &str)]) -> Finished {
    let plugin = scratch.compile_library("plugin_tick.c", &[]);
    let mut command = profiled(scratch.compile("fork_storm.c", Linkage::None, &[]), &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_STATISTICS", "1");
    command.envs(variables.iter().copied());
    run(command.arg(forks().to_string()).arg(plugin))
}

/// A program forks while its other threads tick, flush, read the state, and open and close a
/// library: no child hangs, and each process has its own ticks in its own file.
#[test]
fn children_of_a_program_with_busy_threads_have_their_profiles() {
    let scratch = Scratch::new();
    let finished = storm(&scratch, &[]);
    expect_success_without_loss(&finished);
    let text = finished.text();
    let children: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("child ")).collect();
    assert_eq!(children.len(), forks());
    for child in &children {
        let samples = Profile::read(&scratch.path(&format!("prof_{child}"))).samples();
        assert_eq!(samples, TICKS_OF_A_CHILD, "samples of a child are lost or others'");
    }
    assert_eq!(scratch.names("prof").len(), 1 + forks());
    let ticks: usize =
        text.lines().find_map(|line| line.strip_prefix("ticks ")).expect("a line").parse().expect("a number");
    let samples = Profile::read(&scratch.path("prof")).samples();
    // The timer adds a tick after a second of CPU time.
    assert!(samples >= ticks, "{samples} of the parent's {ticks} ticks");
}

/// A program forks while a thread toggles profiling continuously: each child can start its own
/// session, with its own file.
#[test]
fn children_of_a_program_that_is_toggled_have_their_profiles() {
    let scratch = Scratch::new();
    let finished = storm(&scratch, &[("CPUPROFILESIGNAL", "SIGUSR2")]);
    expect_success_without_loss(&finished);
    let text = finished.text();
    let children: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("child ")).collect();
    assert_eq!(children.len(), forks());
    for child in children {
        let names = scratch.names(&format!("prof_{child}."));
        let [name] = &names[..] else { panic!("{names:?}: the child's profile") };
        assert_eq!(Profile::read(&scratch.path(name)).samples(), TICKS_OF_A_CHILD);
    }
}

/// Many short children run, one in ten with a tick: the parent keeps no more descriptors, mappings
/// or memory than before, and the only files are profiles of children with ticks.
#[test]
fn many_short_children_leave_no_resources() {
    let many = rounds(50, 3000);
    /// As in `programs/many_forks.c`: forks before it starts to count.
    const FIRST: usize = 10;
    let scratch = Scratch::new();
    let mut command = profiled(scratch.compile("many_forks.c", Linkage::None, &[]), &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_QUIET", "1");
    let spools = scratch.directory("spools");
    command.env("CPUPROFILE_SPOOL", &spools);
    let finished = run(command.arg(many.to_string()));
    expect_success(&finished);
    let names = scratch.names("");
    let (profiles, others): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.starts_with("prof_"));
    assert_eq!(others, ["many_forks", "prof", "spools"]);
    let left: Vec<_> =
        std::fs::read_dir(&spools).expect("a directory").map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "spools of processes that have ended: {left:?}");
    assert_eq!(profiles.len(), many / 10 + FIRST.div_ceil(10), "the profiles of children that ticked");
    for name in profiles.iter().step_by(10) {
        assert_eq!(Profile::read(&scratch.path(name)).samples(), 1);
    }
}
