//! Programs that become daemons: they fork twice, change the directory and close all descriptors.
//! The daemon has its own profile at the requested path.

use std::path::Path;

use crate::support::{Linkage, Profile, Scratch, exit_code, line_in, profiled, run, wait_for, wait_for_end};

/// As in `programs/daemon.c`.
const TICKS: usize = 7;

/// Runs `programs/daemon.c`, with a profile's name relative to the directory in which it starts.
fn expect_daemon_with_profile(how: &str) {
    let scratch = Scratch::new();
    let program = scratch.compile("daemon.c", Linkage::None, &[]);
    let start = scratch.directory("start");
    let mut command = profiled(program, Path::new("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").current_dir(&start).arg(how).arg(scratch.root());
    let finished = run(&mut command);
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(finished.complaints(), Vec::<&str>::new());
    let daemon = wait_for("the daemon's id", || line_in(&scratch.path("pid")));
    let profile = start.join(format!("prof_{daemon}"));
    wait_for("the daemon's profile", || profile.exists().then_some(()));
    assert_eq!(Profile::read(&profile).samples(), TICKS, "the daemon's samples");
    wait_for_end(&daemon);
    // The intermediate processes exit without a tick.
    let names: Vec<_> =
        std::fs::read_dir(&start).expect("a directory").map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "prof" || name == profile.file_name().unwrap()), "{names:?}");
    let log = std::fs::read_to_string(scratch.path("log")).expect("the daemon's own file");
    assert_eq!(log, "log\n", "the daemon's own file is nobody else's");
}

/// A program forks twice and closes each descriptor: its profile is complete.
#[test]
fn a_daemon_that_closes_each_descriptor_has_a_complete_profile() {
    expect_daemon_with_profile("close-each");
}

/// A program becomes a daemon and closes all descriptors by `close_range`: its profile is complete.
#[test]
fn a_daemon_that_closes_all_descriptors_at_once_has_a_complete_profile() {
    expect_daemon_with_profile("close-range");
}

/// A program calls `daemon(3)`: its profile is complete.
#[test]
fn a_daemon_made_by_the_c_library_has_a_complete_profile() {
    expect_daemon_with_profile("daemon");
}
