//! Files that a killed recorder or program leaves, and their recovery by `sigprof recover`.

use super::support::{
    Finished, Lack, Rig, children_of, is_polling, is_zombie, send, skip, unaccounted, wait_until,
};
use sigprof_analysis::{formats, profile::label};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[test]
fn recovers_the_recording_of_a_killed_recorder() {
    let rig = Rig::new();
    let command =
        ["sh", "-c", &format!("'{0}' burn 250 signal 9; '{0}' burn 250 say ready wait", rig.program())];
    let mut child = rig.command(&[], &command).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let recorder = child.id().to_string();
    let list = rig.recover(&["--list", &recorder]).expect(0);
    assert!(list.stdout.contains("is still running"), "{}", list.stdout);
    let shell = children_of(child.id())[0];
    let program = children_of(shell)[0];
    child.kill().unwrap();
    child.wait().unwrap();
    let waits = rig.recover(&[&recorder]).expect(0);
    assert!(waits.stdout.contains("2 of its processes are still running"), "{}", waits.stdout);
    send(shell, 9);
    send(program, 9);
    wait_until("they are gone", || rig.recover(&["--list", &recorder]).stdout.contains("has ended; profile"));
    assert!(!rig.path("sigprof.pb.gz").exists());
    let finished = rig.recover(&[&recorder]).expect(0);
    assert!(
        finished.stdout.contains("samples recovered to") && finished.stdout.contains("sigprof.pb.gz"),
        "{}",
        finished.stdout
    );
    assert_eq!(rig.processes_called(&rig.profile(), "worker").len(), 2);
    assert_eq!(rig.left(), [""; 0]);
    let again = rig.recover(&[&recorder]).expect(1);
    assert!(again.stderr.contains("left nothing behind"), "{}", again.stderr);
}

#[test]
fn reports_processes_that_outlive_the_command_and_recovers_them() {
    let rig = Rig::new();
    let finished = rig.record(&[], &[rig.program(), "burn", "250", "daemon", "250"]).expect(0);
    assert!(finished.stderr.contains("1 process is still running"), "{}", finished.stderr);
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
fn does_not_touch_a_recording_in_another_container() {
    let rig = Rig::new();
    let own = ["unshare", "-pf", "--mount-proc"];
    let may = Command::new(own[0]).args(&own[1..]).arg("true").stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return skip(Lack::Right, "no namespaces without root");
    }
    // The recorder's PID is invalid in there. Only this recording: others are other tests'.
    let recover =
        format!("{} '{}' recover \"$CPUPROFILE_SPOOL\" > recovered.txt 2>&1", own.join(" "), rig.sigprof());
    let script = format!("'{}' burn 150; {recover}; '{}' burn 150", rig.program(), rig.program());
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    let said = fs::read_to_string(rig.path("recovered.txt")).unwrap();
    assert!(said.contains("is still running"), "{said}");
    // Both programs; the slack is two periods and a half for each.
    let profile = rig.profile();
    let time = profile.total(1) as f64 / 1e9;
    assert!(time + unaccounted(&profile) >= 0.25, "{time} s, and {} s in no sample", unaccounted(&profile));
}

/// Profiled without a recorder.
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
        list.stdout.contains("has exited; profile: ") && list.stdout.contains("own.prof"),
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
fn an_output_directory_that_is_removed_loses_no_samples() {
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

#[test]
fn keeps_the_recording_if_the_disk_is_full() {
    let rig = Rig::new();
    let child =
        rig.command(&["-o", "/dev/full"], &[rig.program(), "burn", "250", "exit", "6"]).spawn().unwrap();
    let recorder = child.id().to_string();
    let finished = Finished::of(child).expect(6);
    let advice = format!("`sigprof recover -o FILE {recorder}` writes it");
    assert!(
        finished.stderr.contains("No space left on device; what was recorded is kept"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains(&advice), "{}", finished.stderr);
    rig.recover(&["-o", "saved.pb.gz", &recorder]).expect(0);
    assert!(rig.profile_at("saved.pb.gz").total(0) >= 4);
    assert_eq!(rig.left(), [""; 0]);
}

#[test]
fn a_recorder_that_is_killed_while_it_writes_loses_nothing() {
    let rig = Rig::new();
    // Without a reader the recorder waits for ever when it opens the pipe.
    let made = Command::new("mkfifo").arg(rig.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()), "coreutils are missing");
    let mut child =
        rig.command(&["-o", "pipe"], &[rig.program(), "burn", "250", "say", "over"]).spawn().unwrap();
    let mut over = [0; 5];
    // The recorder also opens files before the command starts, when it has no child either.
    child.stdout.as_mut().unwrap().read_exact(&mut over).unwrap();
    let recorder = child.id().to_string();
    let opens = format!("{} ", nix::libc::SYS_openat);
    wait_until("it opens the pipe", || {
        let call = fs::read_to_string(format!("/proc/{recorder}/syscall"));
        call.is_ok_and(|call| call.starts_with(&opens)) && children_of(child.id()).is_empty()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    rig.recover(&["-o", "saved.pb.gz", &recorder]).expect(0);
    assert!(rig.profile_at("saved.pb.gz").total(0) >= 4);
    assert_eq!(rig.left(), [""; 0]);
}

/// The recorder is killed after it has collected some spools, which then exist twice.
#[test]
fn collected_spools_count_once() {
    let rig = Rig::new();
    let script =
        format!("for i in $(seq 70); do '{0}' sampled 1 signal 9; done; '{0}' say ready wait", rig.program());
    let mut child = rig.command(&["-F", "250"], &["sh", "-c", &script]).spawn().unwrap();
    let mut spools: BTreeMap<PathBuf, File> = BTreeMap::new();
    let mut directory = PathBuf::new();
    wait_until("some are collected", || {
        let [left] = &rig.left()[..] else { return false };
        directory = left.into();
        for path in spools_in(&directory) {
            // Open files can be read after their removal.
            if let Ok(file) = File::open(&path) {
                spools.entry(path).or_insert(file);
            }
        }
        directory.join("collected-0.pb").exists()
    });
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let shell = children_of(child.id())[0];
    let program = children_of(shell)[0];
    // Too few are left for another collection and the recorder is idle: none is partly collected.
    wait_until("it has removed them", || spools_in(&directory).len() < 48 && is_polling(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    for process in [shell, program] {
        send(process, 9);
        wait_until("it is gone", || is_gone(process));
    }
    let total = |path: &Path| formats::read_file(path).unwrap().total(0);
    let parts: Vec<PathBuf> =
        files_in(&directory).filter(|path| path.extension() == Some("pb".as_ref())).collect();
    let samples: i64 = parts.iter().chain(&spools_in(&directory)).map(|path| total(path)).sum();
    let mut restored = 0;
    for (path, mut file) in spools.into_iter().filter(|(path, _)| !path.exists()) {
        std::io::copy(&mut file, &mut File::create(path).unwrap()).unwrap();
        restored += 1;
    }
    assert!(restored > 0 && samples >= 70, "{restored} {samples}");
    rig.recover(&[directory.to_str().unwrap()]).expect(0);
    let profile = rig.profile();
    assert_eq!(profile.total(0), samples, "{restored} were there twice");
    assert!(!profile.comments.iter().any(|comment| comment.contains("spool")), "{:?}", profile.comments);
    assert_eq!(rig.left(), [""; 0]);
}

/// A daemon that outlives the command starts processes after its recorder exited or was killed.
#[test]
fn processes_started_after_the_recorder_leave_no_files() {
    let daemon = format!(
        "use POSIX; if (fork) {{ {WAIT} until -e 'ready'; exit }} setsid; {} \
         open STDOUT, '>/dev/null'; open STDERR, '>/dev/null'; open F, '>ready.new'; print F $$; close F; rename 'ready.new', 'ready'; \
         {WAIT} until -e 'go'; if (!fork) {{ {} exit }} wait; system('./worker', 'burn', '100'); \
         rename 'ready', 'done'; sleep 1000 while 1",
        burn(0.25),
        burn(0.1),
    );
    for is_killed in [false, true] {
        let rig = Rig::new();
        let mut child = rig.command(&[], &["perl", "-e", &daemon]).spawn().unwrap();
        if is_killed {
            wait_until("the daemon runs", || rig.path("ready").exists());
            child.kill().unwrap();
            child.wait().unwrap();
        } else {
            let finished = Finished::of(child).expect(0);
            assert!(finished.stderr.contains("1 process is still running"), "{}", finished.stderr);
        }
        let process = fs::read_to_string(rig.path("ready")).unwrap().parse().unwrap();
        let [left] = &rig.left()[..] else { panic!("one directory is left: {:?}", rig.left()) };
        let own = format!("{process}-");
        let is_own = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&own);
        let before: Vec<PathBuf> =
            spools_in(Path::new(left)).into_iter().filter(|path| !is_own(path)).collect();
        fs::write(rig.path("go"), "").unwrap();
        wait_until("it has started others", || rig.path("done").exists());
        let after: Vec<PathBuf> =
            spools_in(Path::new(left)).into_iter().filter(|path| !is_own(path)).collect();
        assert_eq!((before, rig.names_that("prof_")), (after, Vec::new()));
        send(process, 9);
        wait_until("it is gone", || is_gone(process));
        rig.recover(&["-o", "late.pb.gz", left]).expect(0);
        let programs = rig.times_by(&rig.profile_at("late.pb.gz"), label::PROCESS);
        assert_eq!(programs.keys().collect::<Vec<_>>(), ["perl"], "and not the worker");
        assert_eq!(rig.left(), [""; 0]);
    }
}

/// Waits 10 ms, in Perl.
const WAIT: &str = "select undef, undef, undef, 0.01";

/// Works until the process has used `seconds` of CPU time, in Perl.
fn burn(seconds: f64) -> String {
    format!("while ((times)[0] + (times)[1] < {seconds}) {{ $i++ for 1 .. 1000 }}")
}

fn is_gone(process: u32) -> bool {
    fs::metadata(format!("/proc/{process}")).is_err() || is_zombie(process)
}

fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn spools_in(directory: &Path) -> Vec<PathBuf> {
    let mut spools: Vec<PathBuf> =
        files_in(directory).filter(|path| path.extension() == Some("spool".as_ref())).collect();
    spools.sort();
    spools
}
