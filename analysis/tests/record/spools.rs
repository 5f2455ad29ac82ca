//! The directory of the spools, and what is done without one.

use super::support::{Finished, Rig};
use sigprof_analysis::profile::label;
use std::{fs, path::Path, process::Command};

#[test]
fn files_that_are_no_profiles_of_ours_are_left_alone() {
    let rig = Rig::new();
    // Where a profile would be that found no place in a spool; to open a pipe would be to wait for ever.
    let script = format!(
        "mkfifo \"${{CPUPROFILE}}_1\"; ln -s /dev/zero \"${{CPUPROFILE}}_2\"; '{}' burn 100",
        rig.program()
    );
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    assert!(rig.profile().total(0) > 0);
}

#[test]
fn a_full_place_for_spools_gives_way_to_the_next() {
    let rig = Rig::new();
    let own = ["unshare", "-m", "sh", "-c"];
    let may = Command::new(own[0]).args(&own[1..]).arg("mount -t tmpfs none /dev/shm").output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("passed over: no mounts without root");
        return;
    }
    let script = format!(
        "mount -t tmpfs -o size=64k none /dev/shm; head -c 100000 /dev/zero > /dev/shm/all 2> /dev/null; \
         '{}' record -- '{}' burn 250",
        rig.sigprof(),
        rig.program()
    );
    let finished = Finished::of(rig.prepared(own[0]).args(&own[1..]).arg(script).spawn().unwrap()).expect(0);
    assert!(rig.profile().total(0) >= 4, "{}", finished.stderr);
    assert_eq!((rig.left(), fs::read_dir(rig.path("tmp")).unwrap().count()), (Vec::new(), 0));
}

/// Where no spool can be had each process writes a file, and all of them become one profile.
#[test]
fn without_room_for_spools_the_profile_is_there_all_the_same() {
    let rig = Rig::new();
    let script = format!("ulimit -f 1000; '{0}' burn 250; '{0}' burn 250", rig.program());
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    let profile = rig.profile();
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 2);
    assert!(profile.total(0) >= 9);
    assert_eq!(rig.names_that("prof_"), [""; 0], "and no file is left");
}

/// A program that a recorder would run, with this directory of spools.
fn prepared(rig: &Rig, program: &str, spools: &Path) -> Command {
    let mut command = rig.prepared(program);
    command.env("LD_PRELOAD", rig.library()).env("CPUPROFILE", rig.path("target"));
    command.env("CPUPROFILE_SPOOL", spools);
    for name in ["CPUPROFILE_KEEP_SPOOL", "CPUPROFILE_USE_PID", "CPUPROFILE_QUIET"] {
        command.env(name, "1");
    }
    command
}

/// Runs a program and its child so; they say nothing of it.
fn run_quietly(rig: &Rig, spools: &Path) {
    let mut command = prepared(rig, rig.program(), spools);
    let finished = Finished::of(command.args(["burn", "60", "fork", "60"]).spawn().unwrap()).expect(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
}

#[test]
fn a_full_directory_of_spools_is_no_news_for_the_command() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    fs::create_dir(&spools).unwrap();
    for i in 0..256 {
        fs::write(spools.join(format!("{i}.spool")), "").unwrap();
    }
    run_quietly(&rig, &spools);
    assert_eq!(rig.names_that("target").len(), 2, "a file of each process");
}

#[test]
fn a_process_that_begins_when_the_recorder_is_gone_leaves_nothing() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    run_quietly(&rig, &spools);
    assert!(!spools.exists(), "nobody would collect what is in it");
    assert_eq!(rig.names_that("target"), [""; 0]);
}

/// As that of a daemon whose parent ends at once, and the recorder with it.
#[test]
fn a_child_that_begins_when_the_recorder_is_gone_leaves_nothing() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    fs::create_dir(&spools).unwrap();
    let burn = "while ((times)[0] + (times)[1] < 0.1) { $i++ for 1 .. 1000 }";
    let script =
        format!("{burn} unlink glob 'spools/*'; rmdir 'spools' or die; if (!fork) {{ {burn} exit }} wait");
    let mut command = prepared(&rig, "perl", &spools);
    let finished = Finished::of(command.args(["-e", &script]).spawn().unwrap()).expect(0);
    assert_eq!(finished.stderr, "");
    assert_eq!((spools.exists(), rig.names_that("target")), (false, Vec::new()));
}
