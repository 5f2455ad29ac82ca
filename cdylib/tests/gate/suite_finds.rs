//! Requirements and faults that other programs' test suites found (`ci/suites.sh`).

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use crate::support::{Linkage, Profile, Scratch, profiled, run};

/// `programs/forks.c` with a child and a grandchild, which have ticks; only figures are printed.
fn generations(scratch: &Scratch, statistics: &Path) -> Command {
    let mut command = profiled(scratch.compile("forks.c", Linkage::None, &[]), &scratch.path("prof"));
    command
        .env("CPUPROFILE_FREQUENCY", "1")
        .env("CPUPROFILE_QUIET", "1")
        .arg("generations")
        .arg(scratch.root());
    command.env("CPUPROFILE_STATISTICS", statistics);
    command
}

/// `CPUPROFILE_STATISTICS` names a file: the application and its children append their lines to it,
/// and stderr has only the application's.
#[test]
fn figures_of_all_processes_go_to_one_file() {
    let scratch = Scratch::new();
    let statistics = scratch.write("statistics", "what stood there\n");
    let finished = run(&mut generations(&scratch, &statistics)).expect_success();
    assert_eq!(finished.stderr, "", "the application's stderr has lines that are not the application's");
    let text = fs::read_to_string(&statistics).expect("the file of statistics");
    let lines: Vec<&str> = text.lines().collect();
    let [before, ours @ ..] = &lines[..] else { panic!("nothing stands there any more") };
    assert_eq!(*before, "what stood there", "what others have written is gone");
    let (figures, threads): (Vec<&str>, Vec<&str>) =
        ours.iter().partition(|line| line.starts_with("sigprof: statistics: samples="));
    assert_eq!((figures.len(), threads.len()), (3, 3), "three processes of one thread each: {text:?}");
    assert!(threads.iter().all(|line| line.starts_with("sigprof: thread: process=")), "{text:?}");
    for name in scratch.names("prof") {
        let end = format!(" profile={}", scratch.path(&name).display());
        assert!(ours.iter().any(|line| line.ends_with(&end)), "no line of {name}: {text:?}");
    }
}

/// An application with `CPUPROFILE_QUIET` closes its stderr: the reader finds its end immediately.
#[test]
fn a_quiet_application_can_close_its_stderr() {
    let scratch = Scratch::new();
    let program = scratch.compile("closes_stderr.c", Linkage::None, &[]);
    let mut command = profiled(program, &scratch.path("prof"));
    let finished = run(command.env("CPUPROFILE_QUIET", "1")).expect_success();
    assert_eq!(
        finished.text(),
        "the reader found the end\n",
        "whoever waits for the application's stderr waits for ever"
    );
    assert!(Profile::read(&scratch.path("prof")).samples() > 0);
}

/// The statistics file is a link, or its directory is missing: nothing is written.
#[test]
fn figures_that_cannot_be_written_are_omitted() {
    let scratch = Scratch::new();
    let target = scratch.write("target", "");
    let link = scratch.path("link");
    symlink(&target, &link).expect("a link");
    for statistics in [link, scratch.path("missing").join("statistics")] {
        let finished = run(&mut generations(&scratch, &statistics)).expect_success();
        assert_eq!(finished.stderr, "", "{}", statistics.display());
        assert_eq!(fs::read(&target).expect("the link's target"), b"", "a link was followed");
    }
}
