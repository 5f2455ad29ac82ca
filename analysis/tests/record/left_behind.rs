//! What a recorder or a program leaves behind, and `sigprof recover` makes of it.

use super::support::{Finished, Rig, children_of, is_zombie, send, wait_until};
use sigprof_analysis::profile::label;
use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
};

#[test]
fn a_killed_recorder_leaves_what_recover_makes_a_profile_of() {
    let rig = Rig::new();
    let command =
        ["sh", "-c", &format!("'{0}' burn 250 signal 9; '{0}' burn 250 say ready wait", rig.program())];
    let mut child = rig.command(&[], &command).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let recorder = child.id().to_string();
    let list = rig.recover(&["--list", &recorder]).expect(0);
    assert!(list.stdout.contains("goes on"), "{}", list.stdout);
    let shell = children_of(child.id())[0];
    let program = children_of(shell)[0];
    child.kill().unwrap();
    child.wait().unwrap();
    let waits = rig.recover(&[&recorder]).expect(0);
    assert!(waits.stdout.contains("2 of its processes still run"), "{}", waits.stdout);
    send(shell, 9);
    send(program, 9);
    wait_until("they are gone", || {
        rig.recover(&["--list", &recorder]).stdout.contains("is over; its profile")
    });
    assert!(!rig.path("sigprof.pb.gz").exists());
    let finished = rig.recover(&[&recorder]).expect(0);
    assert!(
        finished.stdout.contains("samples recovered to") && finished.stdout.contains("sigprof.pb.gz"),
        "{}",
        finished.stdout
    );
    assert_eq!(rig.times_by(&rig.profile(), label::PROCESS_ID).len(), 2);
    assert_eq!(rig.left(), [""; 0]);
    let again = rig.recover(&[&recorder]).expect(1);
    assert!(again.stderr.contains("left nothing behind"), "{}", again.stderr);
}

#[test]
fn processes_that_outlive_the_command_are_told_of_and_recovered_later() {
    let rig = Rig::new();
    let finished = rig.record(&[], &[rig.program(), "burn", "250", "daemon", "250", "burn", "400"]).expect(0);
    assert!(finished.stderr.contains("1 process still runs"), "{}", finished.stderr);
    let daemon: u32 = finished.stdout.strip_prefix("daemon ").unwrap().trim().parse().unwrap();
    let first = rig.times_by(&rig.profile(), label::PROCESS_ID);
    assert!(first.len() == 1 && !first.contains_key(&daemon.to_string()), "{first:?}");
    let [left] = &rig.left()[..] else { panic!("one directory is left: {:?}", rig.left()) };
    send(daemon, 9);
    wait_until("it is gone", || fs::metadata(format!("/proc/{daemon}")).is_err() || is_zombie(daemon));
    rig.recover(&[left]).expect(0);
    let late = rig.times_by(&rig.profile_at("sigprof-late.pb.gz"), label::PROCESS_ID);
    assert_eq!(late.keys().collect::<Vec<_>>(), [&daemon.to_string()]);
    assert_eq!(rig.left(), [""; 0]);
}

#[test]
fn a_recording_in_another_container_is_left_alone() {
    let rig = Rig::new();
    let own = ["unshare", "-pf", "--mount-proc"];
    let may = Command::new(own[0]).args(&own[1..]).arg("true").stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("passed over: no namespaces without root");
        return;
    }
    // Seen from there, the recorder's process id is another's or nobody's.
    let recover = format!("{} '{}' recover > recovered.txt 2>&1", own.join(" "), rig.sigprof());
    let script = format!("'{}' burn 150; {recover}; '{}' burn 150", rig.program(), rig.program());
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    let said = fs::read_to_string(rig.path("recovered.txt")).unwrap();
    assert!(said.contains("goes on"), "{said}");
    let time = rig.profile().total(1) as f64 / 1e9;
    assert!(time > 0.15, "{time}");
}

/// Of a program that was profiled without a recorder.
#[test]
fn a_spool_of_a_killed_program_is_recovered_by_its_directory_and_its_path() {
    let rig = Rig::new();
    let spools = rig.path("spools");
    let run = || {
        let mut command = rig.prepared(rig.program());
        command
            .env("LD_PRELOAD", rig.library())
            .env("CPUPROFILE", rig.path("own.prof"))
            .env("CPUPROFILE_SPOOL", &spools);
        let finished = Finished::of(command.args(["burn", "250", "signal", "9"]).spawn().unwrap());
        assert_eq!(finished.end(), (None, Some(9)));
    };
    run();
    let directory = spools.to_str().unwrap();
    let list = rig.recover(&["--list", directory]).expect(0);
    assert!(
        list.stdout.contains("is gone; its profile would be") && list.stdout.contains("own.prof"),
        "{}",
        list.stdout
    );
    rig.recover(&[directory]).expect(0);
    assert!(rig.profile_at("own.prof").total(0) >= 4);
    run();
    let spool = fs::read_dir(&spools).unwrap().next().unwrap().unwrap().path();
    rig.recover(&["-o", "other.prof", spool.to_str().unwrap()]).expect(0);
    assert!(rig.profile_at("other.prof").total(0) >= 4 && !spool.exists());
    let finished = rig.recover(&[spool.to_str().unwrap()]).expect(1);
    assert!(finished.stderr.contains("cannot open the spool"), "{}", finished.stderr);
}

#[test]
fn an_output_that_vanishes_meanwhile_loses_no_sample() {
    let rig = Rig::new();
    fs::create_dir(rig.path("out")).unwrap();
    let finished = rig
        .record(
            &["-o", "out/p.pb.gz"],
            &["sh", "-c", &format!("'{}' burn 250; rm -r out; exit 6", rig.program())],
        )
        .expect(6);
    assert!(finished.stderr.contains("cannot write the profile"), "{}", finished.stderr);
    assert!(finished.stderr.contains("`sigprof recover -o FILE"), "{}", finished.stderr);
    let [left] = &rig.left()[..] else { panic!("one directory is left: {:?}", rig.left()) };
    rig.recover(&["-o", "saved.pb.gz", left]).expect(0);
    assert!(rig.profile_at("saved.pb.gz").total(0) >= 4);
    assert_eq!(rig.left(), [""; 0]);
}
