//! Several profiles with one name: a process keeps the files that it has written.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, profiled, start, wait};

/// `places.c` under the profiler with these orders. In the first second of CPU time, the
/// program sends itself the only ticks.
fn places(scratch: &Scratch, orders: &str) -> Command {
    let program = scratch.path("places");
    if !program.exists() {
        scratch.compile("places.c", Linkage::Shared, &[]);
    }
    let mut command = profiled(program, &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").args(orders.split_whitespace());
    command
}

/// Panics unless it exits with status 3 and without diagnostics. Returns its process ID, too.
#[track_caller]
fn finish(mut command: Command) -> (u32, Finished) {
    let child = start(&mut command);
    let process = child.id();
    let finished = wait(child);
    assert_eq!(
        exit_code(finished.status),
        3,
        "the application was harmed: {}{}",
        finished.text(),
        finished.stderr
    );
    // gperftools prints that it uses the signal, which is not tested here.
    let mut complaints = finished.complaints();
    complaints.retain(|line| !line.starts_with("Using signal"));
    assert_eq!(complaints, Vec::<&str>::new());
    (process, finished)
}

/// Panics unless these are the profiles in the directory, with these samples.
#[track_caller]
fn expect_profiles(scratch: &Scratch, expected: &[(&str, usize)]) {
    let mut names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(scratch.names("prof"), names, "the application's profiles are not all there");
    for (name, samples) in expected {
        assert_eq!(Profile::read(&scratch.path(name)).samples(), *samples, "{name} lost samples");
    }
    assert_eq!(scratch.names(".sigprof"), Vec::<String>::new());
}

#[track_caller]
fn child_of(finished: &Finished) -> String {
    let text = finished.text();
    text.lines()
        .find_map(|line| line.strip_prefix("child "))
        .expect("the application reports its child")
        .to_owned()
}

/// A program replaces itself by another, and that by a third: each has its own profile.
#[test]
fn programs_that_follow_each_other_by_exec_keep_their_profiles() {
    let scratch = Scratch::new();
    let (process, _) = finish(places(&scratch, "tick 1 exec tick 2 exec tick 3 exec tick 4 exit 3"));
    let named = |number: &str| format!("prof_{process}{number}");
    expect_profiles(&scratch, &[("prof", 1), (&named(""), 2), (&named(".2"), 3), (&named(".3"), 4)]);
}

/// Programs that replace each other have the same `CPUPROFILE`: each has its own profile.
#[test]
fn programs_with_the_same_name_keep_their_profiles() {
    let scratch = Scratch::new();
    finish(places(&scratch, "tick 1 exec-bare tick 2 exec-bare tick 3 exit 3"));
    expect_profiles(&scratch, &[("prof", 1), ("prof.2", 2), ("prof.3", 3)]);
}

/// A forked child with a profile replaces itself by a profiled program: both profiles remain.
#[test]
fn a_forked_childs_profile_survives_its_exec() {
    let scratch = Scratch::new();
    let (_, finished) = finish(places(&scratch, "tick 1 fork tick 2 exec tick 3 exit 3"));
    let child = child_of(&finished);
    expect_profiles(&scratch, &[("prof", 1), (&format!("prof_{child}"), 2), (&format!("prof_{child}.2"), 3)]);
}

/// Profiling is toggled in a program, in the next one, and in its child: no file is used twice.
#[test]
fn toggled_profiles_survive_an_exec() {
    let scratch = Scratch::new();
    let orders = "toggle tick 1 toggle toggle tick 2 toggle
        exec-bare toggle tick 3 toggle toggle tick 4 toggle
        fork toggle tick 5 toggle exec toggle tick 6 toggle exit 3";
    let mut command = places(&scratch, orders);
    command.env("CPUPROFILESIGNAL", "12");
    let (_, finished) = finish(command);
    let child = child_of(&finished);
    let names = scratch.names("prof");
    let of_child: Vec<&String> = names.iter().filter(|name| name.contains(&child)).collect();
    let [sixth, fifth] = of_child[..] else { panic!("the child's profiles are not all there: {names:?}") };
    expect_profiles(
        &scratch,
        &[("prof.0", 1), ("prof.1", 2), ("prof.2", 3), ("prof.3", 4), (fifth, 5), (sixth, 6)],
    );
}

/// Runs follow each other immediately, as in a loop: each replaces the profile of the last one.
#[test]
fn a_later_run_replaces_the_profile_of_an_earlier_one() {
    let scratch = Scratch::new();
    for samples in 1..=5 {
        finish(places(&scratch, &format!("tick {samples} exit 3")));
        expect_profiles(&scratch, &[("prof", samples)]);
    }
}

/// A shell writes much and replaces itself by the program: a profile of yesterday is replaced.
#[test]
fn an_old_profile_is_replaced_by_a_process_that_has_written_much() {
    let scratch = Scratch::new();
    finish(places(&scratch, "tick 1 exit 3"));
    let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
    File::options()
        .write(true)
        .open(scratch.path("prof"))
        .and_then(|file| file.set_modified(yesterday))
        .expect("our own file");
    let inner = places(&scratch, "tick 2 exit 3");
    let mut shell = crate::support::plain("perl");
    // One process: perl writes 100 kB and then replaces itself by the program.
    shell.args([
        "-e",
        r#"print "x" x 100_000; $| = 1; print "\n"; %ENV = (%ENV, splice @ARGV, 0, 6); exec @ARGV"#,
    ]);
    for (name, value) in inner.get_envs() {
        if let (Some(value), false) = (value, name == "LC_ALL" || name == "PATH" || name == "TMPDIR") {
            shell.arg(name).arg(value);
        }
    }
    shell.arg(inner.get_program()).args(inner.get_args());
    finish(shell);
    expect_profiles(&scratch, &[("prof", 2)]);
}

/// The file exists and is empty, as mktemp creates it: it gets the profile.
#[test]
fn an_empty_file_made_beforehand_is_used() {
    let scratch = Scratch::new();
    scratch.write("prof", "");
    finish(places(&scratch, "tick 2 exit 3"));
    expect_profiles(&scratch, &[("prof", 2)]);
}

/// A user's file has the next numbered name: it is never replaced, whatever its age.
#[test]
fn a_numbered_file_of_the_user_is_never_replaced() {
    let scratch = Scratch::new();
    let kept = scratch.write("prof.2", "kept by the user");
    let old = SystemTime::now() - Duration::from_secs(1_000_000);
    File::options().write(true).open(&kept).and_then(|file| file.set_modified(old)).expect("our own file");
    finish(places(&scratch, "tick 1 exec-bare tick 3 exit 3"));
    assert_eq!(fs::read_to_string(&kept).expect("it is there"), "kept by the user");
    assert_eq!(
        scratch.names("prof"),
        ["prof", "prof.2", "prof.3"],
        "the application's profiles are not all there"
    );
    assert_eq!(Profile::read(&scratch.path("prof.3")).samples(), 3);
}

/// A program starts a second session with the name of a file that it wrote: it is replaced.
#[test]
fn a_file_named_to_the_interface_is_replaced() {
    let scratch = Scratch::new();
    let prof = scratch.path("prof");
    let prof = prof.to_str().expect("a plain path");
    let orders = format!("start {prof} tick 1 stop start {prof} tick 2 stop exit 3");
    let mut command = places(&scratch, &orders);
    command.env_remove("CPUPROFILE").env_remove("LD_PRELOAD");
    finish(command);
    expect_profiles(&scratch, &[("prof", 2)]);
}

/// A session writes its file several times: there is one file.
#[test]
fn flushes_go_to_one_file() {
    let scratch = Scratch::new();
    finish(places(&scratch, "tick 1 flush tick 1 flush tick 1 exit 3"));
    expect_profiles(&scratch, &[("prof", 3)]);
}

/// A program with a relative name changes directory and forks: both profiles are in the first one.
#[test]
fn a_childs_profile_is_beside_its_parents() {
    let scratch = Scratch::new();
    let elsewhere = scratch.directory("elsewhere");
    let mut command = places(&scratch, "tick 1 chdir elsewhere fork tick 2 exit 3");
    command.env("CPUPROFILE", "prof").current_dir(scratch.root());
    let (_, finished) = finish(command);
    expect_profiles(&scratch, &[("prof", 1), (&format!("prof_{}", child_of(&finished)), 2)]);
    expect_empty(&elsewhere);
}

/// A signal starts a session after a change of directory: the start directory has the profile.
#[test]
fn toggled_profiles_are_in_the_start_directory() {
    let scratch = Scratch::new();
    let elsewhere = scratch.directory("elsewhere");
    let mut command = places(&scratch, "chdir elsewhere toggle tick 2 toggle exit 3");
    command.env("CPUPROFILE", "prof").env("CPUPROFILESIGNAL", "12").current_dir(scratch.root());
    finish(command);
    expect_profiles(&scratch, &[("prof.0", 2)]);
    expect_empty(&elsewhere);
}

#[track_caller]
fn expect_empty(directory: &Path) {
    assert_eq!(fs::read_dir(directory).expect("our own directory").count(), 0);
}
