//! The directory of spools, and recordings without spools.

use super::support::{Finished, Lack, Rig, skip};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

#[test]
fn ignores_files_that_are_not_profiles() {
    let rig = Rig::new();
    // The names of profiles of processes without a spool; opening a pipe would block for ever.
    let script = format!(
        "mkfifo \"${{CPUPROFILE}}_1\"; ln -s /dev/zero \"${{CPUPROFILE}}_2\"; '{}' sampled 1",
        rig.program()
    );
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    assert!(rig.profile().total(0) > 0);
}

#[test]
fn uses_another_directory_if_the_one_for_spools_is_full() {
    let rig = Rig::new();
    let own = ["unshare", "-m", "sh", "-c"];
    let may = Command::new(own[0]).args(&own[1..]).arg("mount -t tmpfs none /dev/shm").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skip(Lack::Right, "no mounts without root");
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

/// Without spools each process writes a file, and all files become one profile.
#[test]
fn writes_the_profile_without_room_for_spools() {
    let rig = Rig::new();
    let script = format!("ulimit -f 1000; '{0}' burn 250; '{0}' burn 250", rig.program());
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    let profile = rig.profile();
    // Files do not have process names. The shell may have a file, too.
    assert_eq!(rig.processes_in(&profile, "burn_for").len(), 2);
    assert!(profile.total(0) >= 9);
    assert_eq!(rig.names_that("prof_"), [""; 0], "and no file is left");
}

/// Returns a program as a recorder would run it, with this directory of spools.
fn prepared(rig: &Rig, program: &str, spools: &Path) -> Command {
    let mut command = rig.prepared(program);
    command.env("LD_PRELOAD", rig.library()).env("CPUPROFILE", rig.path("target"));
    command.env("CPUPROFILE_SPOOL", spools);
    for name in ["CPUPROFILE_KEEP_SPOOL", "CPUPROFILE_USE_PID", "CPUPROFILE_QUIET"] {
        command.env(name, "1");
    }
    command
}

/// Runs a program and its child like that; they print nothing.
fn run_quietly(rig: &Rig, spools: &Path, orders: &[&str]) {
    let mut command = prepared(rig, rig.program(), spools);
    let finished = Finished::of(command.args(orders).spawn().unwrap()).expect(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
}

/// Creates a directory of spools that is full.
fn fill(spools: &Path) {
    fs::create_dir(spools).unwrap();
    for i in 0..256 {
        fs::write(spools.join(format!("{i}.spool")), "").unwrap();
    }
}

#[test]
fn the_command_prints_nothing_if_the_spool_directory_is_full() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    fill(&spools);
    // Without a sample there is no file.
    run_quietly(&rig, &spools, &["sampled", "1", "child", "sampled", "1"]);
    assert_eq!(rig.names_that("target").len(), 2, "a file of each process");
}

#[test]
fn a_process_without_its_recorder_leaves_no_files() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    run_quietly(&rig, &spools, &["burn", "60", "fork", "60"]);
    assert!(!spools.exists(), "nobody would collect what is in it");
    assert_eq!(rig.names_that("target"), [""; 0]);
}

/// As in a daemon: its parent exits immediately, and the recorder with it.
#[test]
fn a_child_without_its_recorder_leaves_no_files() {
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

/// The parent found no room for its spool; the child checks the directory and the recorder again.
#[test]
fn a_child_gets_the_spool_its_parent_lacked_only_while_recorded() {
    // On a busy machine a thread may have no tick for a tenth of a second.
    const BURN: &str = "while ((times)[0] + (times)[1] < 0.4) { $i++ for 1 .. 1000 }";
    let unlock = "open F, '>spools/session'; close F;";
    for (change, is_recorded) in [("rmdir 'spools' or die;", false), (unlock, false), ("", true)] {
        let rig = Rig::new();
        let spools = rig.path("spools");
        fill(&spools);
        // At its exit it would write a file instead of a spool.
        let end = if is_recorded { "kill 'KILL', $$" } else { "exit" };
        let script =
            format!("{BURN} unlink glob 'spools/*'; {change} if (!fork) {{ {BURN} {end} }} wait; print $$");
        let mut command = prepared(&rig, "perl", &spools);
        let finished = Finished::of(command.args(["-e", &script]).spawn().unwrap()).expect(0);
        assert_eq!(finished.stderr, "", "{change}");
        let left = fs::read_dir(&spools).into_iter().flatten().flatten();
        let left = left.filter(|entry| entry.file_name() != "session").count();
        assert_eq!(
            (left, rig.names_that("target")),
            (usize::from(is_recorded), vec![format!("target_{}", finished.stdout)]),
            "{change}"
        );
    }
}

/// A change of user may remove permissions. In a recording stderr belongs to the command, and the
/// recorder reports the missing time; other errors are printed there, too.
#[test]
fn reports_denied_profiles_only_outside_of_recordings() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    fill(&spools);
    let said = |command: &mut Command, is_recorded: bool| {
        if !is_recorded {
            command.env_remove("CPUPROFILE_KEEP_SPOOL").env_remove("CPUPROFILE_QUIET");
        }
        let finished = Finished::of(command.spawn().unwrap()).expect(0);
        finished.stderr.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The first is noticed at the start, the second at the exit; by root only without capabilities.
    let (hidden, closed) = (rig.path("hidden"), rig.path("closed"));
    let modes = [(&hidden, 0), (&closed, 0o555)];
    for (directory, mode) in modes {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
    }
    let bound = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", rig.program()];
    let words = &bound[if nix::unistd::geteuid().is_root() { 0 } else { 3 }..];
    let at_once = |directory: &Path, is_recorded| {
        let mut command = prepared(&rig, words[0], &spools);
        command.args(&words[1..]).args(["burn", "400"]).env("CPUPROFILE", directory.join("target"));
        said(&mut command, is_recorded)
    };
    // After the process changed its user ID, or the directory's mode.
    let later = |is_recorded, end: &str| {
        let out = rig.path("out");
        fs::create_dir(&out).unwrap();
        let script = "while ((times)[0] + (times)[1] < 0.4) { $i++ for 1 .. 1000 } \
                      chmod 0555, 'out'; $> = 65534 if $> == 0; open F, '>out/x' and die; $!{EACCES} or die;";
        let mut command = prepared(&rig, "perl", &spools);
        let said = said(
            command.args(["-e", &format!("{script} {end}")]).env("CPUPROFILE", out.join("target")),
            is_recorded,
        );
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
        fs::remove_dir(&out).unwrap();
        said
    };
    for is_recorded in [true, false] {
        let saids = [
            at_once(&hidden, is_recorded),
            at_once(&closed, is_recorded),
            later(is_recorded, ""),
            later(is_recorded, "exec 'true'"),
        ];
        for said in saids {
            let is_reported =
                |line: &String| line.contains("no profile at") && line.contains("Permission denied");
            assert!(if is_recorded { said.is_empty() } else { said.iter().any(is_reported) }, "{said:?}");
        }
    }
    let missing = at_once(&rig.path("missing"), true);
    let is_reported = |line: &String| line.contains("no profile at") && line.contains("No such file");
    assert!(!missing.is_empty() && missing.iter().all(is_reported), "{missing:?}");
    // So that they can be removed.
    for (directory, _) in modes {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
