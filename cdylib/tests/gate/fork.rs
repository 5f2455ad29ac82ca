//! Programs that fork. The child of a program that the environment profiles continues in its own
//! file; other children are not profiled. The parent's samples are only in its own profile.

use std::path::Path;
use std::process::Command;

use crate::support::{
    Finished, Lack, Linkage, Profile, Scratch, SessionTime, exit_code, is_full, plain, preload, profiled,
    run, shared_library, skip,
};

/// A case of `programs/forks.c` with the library preloaded and profiling on. The timer does
/// not expire in the first second of CPU time.
fn profiled_case(scratch: &Scratch, case: &str) -> Command {
    let mut command = profiled(scratch.compile("forks.c", Linkage::None, &[]), &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").arg(case).arg(scratch.root());
    command
}

#[track_caller]
fn expect_success(finished: &Finished) {
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(finished.complaints(), Vec::<&str>::new());
}

/// The process IDs that the program reports under `name`, in order.
fn reported<'f>(text: &'f str, name: &str) -> Vec<&'f str> {
    text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect()
}

/// Panics unless the files with prefix `prof` are these, with these numbers of samples.
#[track_caller]
fn expect_files(scratch: &Scratch, expected: &[(String, usize)]) {
    let names = scratch.names("prof");
    let wanted: Vec<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, wanted, "each process that has samples has a file of its own");
    for (name, samples) in expected {
        assert_eq!(
            Profile::read(&scratch.path(name)).samples(),
            *samples,
            "samples of {name} are lost or others'"
        );
    }
}

fn of_parent(samples: usize) -> (String, usize) {
    ("prof".to_owned(), samples)
}

fn of_child(process: &str, samples: usize) -> (String, usize) {
    (format!("prof_{process}"), samples)
}

/// A child and a grandchild write their own profiles, with their process IDs in the names: each
/// profile has the samples of its process.
#[test]
fn each_generation_writes_its_own_profile() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "generations"));
    expect_success(&finished);
    let text = finished.text();
    let mut expected = vec![of_parent(9)];
    expected.extend(reported(&text, "child").iter().map(|process| of_child(process, 3)));
    expected.extend(reported(&text, "grandchild").iter().map(|process| of_child(process, 1)));
    assert_eq!(expected.len(), 3, "{text}");
    expected.sort();
    expect_files(&scratch, &expected);
    assert_eq!(finished.end_lines(), 3);
}

/// A child exits without a tick: it writes no file, and prints no line.
#[test]
fn a_child_without_samples_writes_no_file() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "child-without-samples"));
    expect_success(&finished);
    expect_files(&scratch, &[of_parent(9)]);
    assert_eq!(finished.end_lines(), 1);
}

/// A child forks in another directory: a relative name is relative to the directory in which the
/// program started.
#[test]
fn a_childs_relative_name_belongs_to_the_start_directory() {
    let scratch = Scratch::new();
    let mut command = profiled(scratch.compile("forks.c", Linkage::None, &[]), Path::new("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").arg("another-directory").current_dir(scratch.root());
    let finished = run(&mut command);
    expect_success(&finished);
    let text = finished.text();
    let [child] = reported(&text, "child")[..] else { panic!("{text}") };
    expect_files(&scratch, &[of_parent(9), of_child(child, 3)]);
}

/// `CPUPROFILE_FOLLOW_FORK` is 0: a child has no timer and no session, its ticks are harmless, and
/// the parent's profile is complete.
#[test]
fn children_are_not_profiled_if_the_environment_forbids_it() {
    let scratch = Scratch::new();
    let finished = run(profiled_case(&scratch, "unfollowed").env("CPUPROFILE_FOLLOW_FORK", "0"));
    expect_success(&finished);
    expect_files(&scratch, &[of_parent(9)]);
    assert_eq!(finished.end_lines(), 1);
}

/// A program starts the profiler by a call and forks: the child is not profiled, does not change
/// the parent's file, and can start its own session.
#[test]
fn a_child_of_a_program_that_started_the_profiler_is_not_profiled() {
    for linkage in [Linkage::Shared, Linkage::None] {
        let scratch = Scratch::new();
        let program = scratch.compile("forks.c", linkage, &[]);
        let mut command = if linkage == Linkage::None { preload(program) } else { plain(program) };
        command.env("CPUPROFILE_FREQUENCY", "1").arg("started-by-calls").arg(scratch.root());
        let finished = run(&mut command);
        expect_success(&finished);
        expect_files(&scratch, &[of_parent(9)]);
        assert_eq!(
            Profile::read(&scratch.path("own")).samples(),
            2,
            "what the child profiled itself, {linkage:?}"
        );
    }
}

/// A child flushes and stops the session that it continues, and starts another: both have files.
#[test]
fn a_child_can_use_the_interface() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "interface-in-child"));
    expect_success(&finished);
    let text = finished.text();
    let [child] = reported(&text, "child")[..] else { panic!("{text}") };
    expect_files(&scratch, &[of_parent(9), of_child(child, 4)]);
    assert_eq!(Profile::read(&scratch.path("own")).samples(), 2);
}

/// A child uses CPU time: it is sampled; in the full check, exactly its time is accounted for.
#[test]
fn the_time_of_a_child_is_in_its_profile() {
    let scratch = Scratch::new();
    let mut command = profiled_case(&scratch, "child-burns");
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "100").env("CPUPROFILE_STATISTICS", "1"));
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    let text = finished.text();
    let [child] = reported(&text, "child")[..] else { panic!("{text}") };
    let seconds = |name: &str| -> f64 {
        let [seconds] = reported(&text, name)[..] else { panic!("{text}") };
        seconds.parse().expect("seconds")
    };
    let profile = Profile::read(&scratch.path(&format!("prof_{child}")));
    // The child exits first.
    let time = SessionTime::all(&finished)[0];
    assert_eq!(time.samples, profile.samples(), "{}", finished.stderr);
    assert!(time.samples > 0, "{}", finished.stderr);
    if !is_full() {
        return;
    }
    let outcome = time
        .adds_up(0.01, 1)
        .and_then(|()| time.is_between(seconds("burnt"), seconds("ended")))
        .and_then(|()| time.is_accounted_except(seconds("ended") - seconds("represented_until"), 0.01));
    outcome.unwrap_or_else(|failure| panic!("{failure}; {text}"));
}

/// Children of `_Fork` and of a raw `clone`, which run no fork hooks, get ticks: these are not
/// counted, and the interface reports that profiling is off.
#[test]
fn children_without_fork_hooks_are_not_in_the_profile() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "copies"));
    expect_success(&finished);
    expect_files(&scratch, &[of_parent(9)]);
    assert_eq!(finished.end_lines(), 1);
}

/// Children of `vfork` and of a `clone` with shared memory get ticks: they count as the parent's.
#[test]
fn children_that_share_the_memory_are_harmless() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "sharers"));
    expect_success(&finished);
    expect_files(&scratch, &[of_parent(13)]);
    assert_eq!(finished.end_lines(), 1);
}

/// The first process of a namespace clones the first process of another, with the same ID 1: the
/// child does not change the parent's profile.
#[test]
fn a_child_with_the_same_process_id_is_not_in_the_profile() {
    let scratch = Scratch::new();
    let program = scratch.compile("forks.c", Linkage::None, &[]);
    let script = "echo begun; LD_PRELOAD=$1 CPUPROFILE=$2 CPUPROFILE_FREQUENCY=1 exec \"$3\" same-id \"$4\"";
    let mut command = plain("unshare");
    command.args(["--map-root-user", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]);
    command.arg(shared_library()).arg(scratch.path("prof")).arg(program).arg(scratch.root());
    let finished = run(&mut command);
    if !finished.text().contains("begun") {
        return skip(Lack::Right, format_args!("cannot make a process namespace: {}", finished.stderr));
    }
    expect_success(&finished);
    expect_files(&scratch, &[of_parent(9)]);
    assert_eq!(finished.end_lines(), 1, "the child has ended its parent's profile");
}

/// A program forks in a signal handler: parent and child have profiles.
#[test]
fn a_fork_in_a_signal_handler_has_its_own_profile() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "in-signal-handler"));
    expect_success(&finished);
    let text = finished.text();
    let [child] = reported(&text, "child")[..] else { panic!("{text}") };
    expect_files(&scratch, &[of_parent(4), of_child(child, 1)]);
}

/// A program forks in its handler of SIGPROF: the parent has a profile.
#[test]
fn a_fork_in_a_sigprof_handler_leaves_the_profile_of_the_parent() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "in-own-profiling-handler"));
    expect_success(&finished);
    expect_files(&scratch, &[of_parent(0)]);
}

/// A program forks in an `atexit` function, and parent and child exit: both have profiles.
#[test]
fn a_fork_at_exit_has_its_own_profile() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "at-exit"));
    expect_success(&finished);
    let text = finished.text();
    let [child] = reported(&text, "child")[..] else { panic!("{text}") };
    expect_files(&scratch, &[of_parent(5), of_child(child, 3)]);
}

/// Fork hooks that precede the library's run while it is locked: they can call the library.
#[test]
fn fork_hooks_of_the_application_can_use_the_interface() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "hooks"));
    expect_success(&finished);
    let text = finished.text();
    let [child] = reported(&text, "child")[..] else { panic!("{text}") };
    expect_files(&scratch, &[of_parent(9), of_child(child, 3)]);
}

/// A fork hook of the application forks: parent and child have profiles.
#[test]
fn fork_hooks_of_the_application_can_fork() {
    let scratch = Scratch::new();
    let finished = run(&mut profiled_case(&scratch, "hooks-that-fork"));
    expect_success(&finished);
    let text = finished.text();
    // The hook's child inherits its mask, which blocks all signals: it has no ticks.
    let [_, child] = reported(&text, "child")[..] else { panic!("{text}") };
    expect_files(&scratch, &[of_parent(9), of_child(child, 3)]);
}

/// A hook in the child starts the profiler before the library's hook runs: the session continues.
#[test]
fn a_fork_hook_of_the_application_can_start_a_session() {
    let scratch = Scratch::new();
    let mut command = preload(scratch.compile("forks.c", Linkage::None, &[]));
    command.env("CPUPROFILE_FREQUENCY", "1").arg("started-in-hook").arg(scratch.root());
    expect_success(&run(&mut command));
    assert_eq!(Profile::read(&scratch.path("own")).samples(), 3);
}
