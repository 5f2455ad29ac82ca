//! Commands that are refused before they run, and others that are not.

use super::support::{Finished, Lack, Rig, skip};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

#[test]
fn commands_that_cannot_be_recorded_are_refused_before_they_run() {
    let rig = Rig::new();
    let ran = rig.path("ran");
    let touch = format!("#!/bin/sh\ntouch '{}'\n", ran.display());
    let executable = |name: &str, bytes: &[u8], mode| rig.executable(name, bytes, mode);
    let not_executable = executable("plain", touch.as_bytes(), 0o644);
    let of_other_width = {
        let mut bytes = fs::read(rig.program()).unwrap();
        bytes[4] = 1;
        executable("narrow", &bytes, 0o755)
    };
    let source = rig.path("static.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let is_static = rig.path("is static").to_str().unwrap().to_owned();
    let compiled = Command::new("gcc").args(["-static", "-o", &is_static]).arg(&source).status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "gcc and libc6-dev are missing: ci/setup.sh installs them"
    );
    symlink(&is_static, rig.path("link")).unwrap();
    let script_of_static =
        executable("script", format!("#!{}\n", rig.path("link").display()).as_bytes(), 0o755);
    let good = executable("good", touch.as_bytes(), 0o755);
    let mut cases: Vec<(&[&str], String, i32, &str)> = vec![
        (&[], String::new(), 127, "'': command not found"),
        (&[], "no-such-command".into(), 127, "not found"),
        (&[], "/no/such/command".into(), 127, "not found"),
        (&[], not_executable, 126, "cannot be executed"),
        (&[], rig.path("").to_str().unwrap().into(), 126, "cannot be executed"),
        (&[], is_static, 1, "statically linked"),
        (&[], script_of_static, 1, "statically linked"),
        (&[], of_other_width, 1, "32-bit program"),
        (&["-o", "missing/profile"], good.clone(), 1, "cannot write the profile"),
        (&["-o", "."], good.clone(), 1, "it is"),
    ];
    if !nix::unistd::geteuid().is_root() {
        skip(Lack::Right, "only root can make a setuid program of another user");
    } else {
        // The program belongs to another user and would run with that user's rights.
        let other = executable("setuid", &fs::read(rig.program()).unwrap(), 0o755);
        nix::unistd::chown(other.as_str(), Some(65534.into()), None).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).unwrap();
        cases.push((&[], other, 1, "more privileges than yours (setuid)"));
    }
    let before = rig.names();
    for (options, command, status, reason) in cases {
        let finished = rig.record(options, &[&command]);
        assert_eq!(finished.end(), (Some(status), None), "{command}: {}", finished.stderr);
        assert!(finished.stderr.contains(reason), "{command}: {reason}: {}", finished.stderr);
        assert!(!ran.exists() && rig.names() == before && rig.left().is_empty(), "{command}");
    }
    for (options, reason) in [
        (&["--timer-signal", "SIGUSR1"][..], "must be SIGPROF or a real-time signal, such as SIGRTMIN+3"),
        (&["--timer-signal", "FOO"], "for '--timer-signal"),
        (&["--timer-signal", ""], "a real-time signal"),
        (&["--timer-signal", "65"], "a real-time signal"),
        (&["--timer-signal", "SIGALRM"], "must be SIGPROF or"),
        (&["--timer-signal", "SIGPROF", "--clock", "wall"], "must be SIGALRM or"),
        (&["-F", "0"], "for '--frequency <HZ>': must be between 1 and 10000"),
        (&["-F", "10001"], "1 and 10000"),
        (&["-F", "99999999999999999999"], "1 and 10000"),
        (&["-F", "often"], "1 and 10000"),
        (&["-F", ""], "1 and 10000"),
        (&["--max-depth", "0"], "for '--max-depth <FRAMES>': must be between 1 and 4095"),
        (&["--max-depth", "4096"], "1 and 4095"),
        (&["--max-memory", "1M"], "for '--max-memory <BYTES>': must be between 8M and 1G"),
        (&["--max-memory", "2G"], "8M and 1G"),
        (&["--max-memory", "M"], "between 8M and 1G, such as 64M"),
        (&["--max-memory", ""], "between 8M and 1G, such as 64M"),
        (&["--clock", "sun"], "auto, cpu, itimer, perf, wall"),
        (&["-o", "-"], "for '--output <FILE>': a profile cannot be written to standard output"),
        (&["-o", ""], "'--output <FILE>'"),
        (&["--live", "--quiet"], "'--quiet'"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let finished = rig.record(options, &[&good]).expect(2);
        let stderr = &finished.stderr;
        assert!(stderr.contains(reason) && !stderr.contains("CPUPROFILE"), "{options:?}: {stderr}");
        assert!(!ran.exists() && rig.names() == before && rig.left().is_empty(), "{options:?}");
    }
    for options in [["--timer-signal", "SIGPROF"], ["--timer-signal", "rtmin+3"], ["--max-depth", "4095"]] {
        rig.record(&[&["-q"], &options[..]].concat(), &["true"]).expect(0);
    }
    fs::remove_file(rig.path("sigprof.pb.gz")).unwrap();
    let no_library = rig.command(&[], &[&good]).env("SIGPROF_LIBRARY", "/no/library.so").spawn().unwrap();
    let finished = Finished::of(no_library).expect(1);
    assert!(finished.stderr.contains("/no/library.so") && !ran.exists(), "{}", finished.stderr);
    rig.record(&[], &[&good]).expect(0);
    assert!(ran.exists(), "what is not refused runs");
}

#[test]
fn the_shell_runs_a_script_without_an_interpreter_line() {
    let rig = Rig::new();
    rig.executable("bare", b"echo \"$1\"; exit 5\n", 0o755);
    assert_eq!(rig.record(&["-q"], &["./bare", "word"]).expect(5).stdout, "word\n");
}

#[test]
fn a_library_with_a_path_unfit_for_ld_preload_is_linked() {
    let rig = Rig::new();
    let directory = rig.path("a b:c");
    fs::create_dir(&directory).unwrap();
    let library = directory.join("libprofiler.so");
    fs::copy(rig.library(), &library).unwrap();
    let child = rig.command(&[], &[rig.program(), "burn", "250"]).env("SIGPROF_LIBRARY", &library).spawn();
    let finished = Finished::of(child.unwrap()).expect(0);
    assert!(!finished.stderr.contains("cannot be preloaded"), "{}", finished.stderr);
    assert!(rig.profile().total(0) > 0);
}
