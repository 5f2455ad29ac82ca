//! Profiles that would come under one name: what a process has written it keeps.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, profiled, start, wait};

/// `places.c` under the profiler, with these orders. The timer is silent for the first second of CPU time: the only
/// ticks are those that the program sends itself.
fn places(scratch: &Scratch, orders: &str) -> Command {
    let program = scratch.path("places");
    if !program.exists() {
        scratch.compile("places.c", Linkage::Shared, &[]);
    }
    let mut command = profiled(program, &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").args(orders.split_whitespace());
    command
}

/// Runs it to its end, which must be status 3, without a complaint; gives its process id too.
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
    // The incumbent says that it listens to the signal; that is not what is tested here.
    let mut complaints = finished.complaints();
    complaints.retain(|line| !line.starts_with("Using signal"));
    assert_eq!(complaints, Vec::<&str>::new());
    (process, finished)
}

/// Panics unless the profiles in the directory are these, with these samples.
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

/// The process that `fork` reports.
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

/// The same in an environment that does not ask for process ids: all are told the very same name.
#[test]
fn programs_told_the_same_name_keep_their_profiles() {
    let scratch = Scratch::new();
    finish(places(&scratch, "tick 1 exec-bare tick 2 exec-bare tick 3 exit 3"));
    expect_profiles(&scratch, &[("prof", 1), ("prof.2", 2), ("prof.3", 3)]);
}

/// A forked child that has its own profile replaces itself by a profiled program: both profiles stay.
#[test]
fn a_forked_childs_profile_survives_its_exec() {
    let scratch = Scratch::new();
    let (_, finished) = finish(places(&scratch, "tick 1 fork tick 2 exec tick 3 exit 3"));
    let child = child_of(&finished);
    expect_profiles(&scratch, &[("prof", 1), (&format!("prof_{child}"), 2), (&format!("prof_{child}.2"), 3)]);
}

/// Profiling is toggled in a program, in the one that replaces it, and in a child of that: no file is used twice.
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

/// Runs that follow each other at once, as in a loop: each replaces the profile of the one before.
#[test]
fn a_later_run_replaces_the_profile_of_an_earlier_one() {
    let scratch = Scratch::new();
    for samples in 1..=5 {
        finish(places(&scratch, &format!("tick {samples} exit 3")));
        expect_profiles(&scratch, &[("prof", samples)]);
    }
}

/// A shell that has just written a lot replaces itself by the program, beside a profile of yesterday: it is replaced.
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
    // One process: perl writes 100 kB of its own and then becomes the program.
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

/// An empty file that was made for the profile, as by mktemp, takes it.
#[test]
fn an_empty_file_made_beforehand_is_used() {
    let scratch = Scratch::new();
    scratch.write("prof", "");
    finish(places(&scratch, "tick 2 exit 3"));
    expect_profiles(&scratch, &[("prof", 2)]);
}

/// A file that stands under the next number, and that nobody has named, is passed over whatever its age.
#[test]
fn a_numbered_file_of_the_users_is_never_replaced() {
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

/// A session that the program itself starts in a file that it has already written replaces it: the program said so.
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

/// A session that writes its file several times has one.
#[test]
fn flushes_go_to_one_file() {
    let scratch = Scratch::new();
    finish(places(&scratch, "tick 1 flush tick 1 flush tick 1 exit 3"));
    expect_profiles(&scratch, &[("prof", 3)]);
}

/// A program with a relative name changes its directory and forks: the child's profile is beside its parent's.
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

/// So are profiles that a signal switches on later.
#[test]
fn toggled_profiles_are_where_the_program_started() {
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
