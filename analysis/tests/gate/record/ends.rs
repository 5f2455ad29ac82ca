//! The exit of a command, and the recorder's report of it.

use super::support::{Finished, Rig, compile, is_full, printed, send};
use std::io::Read as _;

#[test]
fn keeps_samples_of_killed_and_crashed_programs() {
    let rig = Rig::new();
    for (end, number) in
        [(&["signal", "9"][..], 9), (&["signal", "6"], 6), (&["segv"], 11), (&["signal", "40"], 40)]
    {
        let command = [&[rig.program(), "burn", "400", "cpu"], end].concat();
        let finished = rig.record(&[], &command);
        // The recorder cannot repeat a real-time signal: its exit status is 128 + 40.
        let expected = if number == 40 { (Some(168), None) } else { (None, Some(number)) };
        assert_eq!(finished.end(), expected, "{end:?}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("1 process was killed, crashed, or did not report"),
            "{}",
            finished.stderr
        );
        // The time after the last tick is unknown.
        let (time, used) = (rig.profile().total(1) as f64 / 1e9, printed(&finished.stdout));
        assert!(time > 0.0 && (!is_full() || time <= used + 0.02), "{end:?}: {time} s of {used} s");
        assert_eq!(rig.left(), [""; 0]);
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    let rig = Rig::new();
    for status in [0, 1, 2, 42, 125, 126, 127, 128, 130, 254, 255] {
        let finished = rig.record(&["--quiet"], &["sh", "-c", &format!("exit {status}")]).expect(status);
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    }
}

#[test]
fn writes_the_profile_of_a_command_killed_by_a_signal() {
    let rig = Rig::new();
    let mut child =
        rig.command(&[], &[rig.program(), "burn", "250", "say", "ready", "wait"]).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    send(child.id(), 15);
    let finished = Finished::of(child);
    assert_eq!(finished.end(), (None, Some(15)), "{}", finished.stderr);
    assert!(finished.stderr.contains("killed by SIGTERM"), "{}", finished.stderr);
    assert!(rig.profile().total(0) >= 5);
}

#[test]
fn reports_a_process_killed_after_a_failed_exec() {
    let rig = Rig::new();
    // An executable that the kernel refuses.
    rig.executable("garbage", &[&b"\x7fELF"[..], &[1; 200]].concat(), 0o755);
    let program = compile(
        &rig,
        "int main(int n, char **words) { burn(0.1); execv(\"garbage\", words); burn(0.05); raise(SIGKILL); }",
    );
    let finished = rig.record(&[], &[&program]);
    assert_eq!(finished.end(), (None, Some(9)), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("1 process was killed, crashed, or did not report"),
        "{}",
        finished.stderr
    );
}

#[test]
fn reports_the_reason_for_no_samples() {
    let rig = Rig::new();
    // The first tick comes after a second of CPU time, which the command does not use.
    let unsampled = |command: &[&str]| {
        let mut command = rig.command(&["-F", "1"], command);
        let finished = Finished::of(command.env("CPUPROFILE_RANDOM_START", "0").spawn().unwrap());
        assert!(finished.stderr.contains("sigprof: 0 samples"), "{}", finished.stderr);
        finished
    };
    let finished = unsampled(&["true"]).expect(0);
    assert!(
        finished
            .stderr
            .contains("no samples: 1 program ran, and its CPU time was below one period (1000 ms)"),
        "{}",
        finished.stderr
    );
    let finished = rig.record(&[], &["env", "-i", rig.program(), "burn", "300"]).expect(0);
    assert!(finished.stderr.contains("LD_PRELOAD"), "{}", finished.stderr);
    let finished = unsampled(&[rig.program(), "signal", "9"]);
    assert!(finished.stderr.contains("before its first tick"), "{}", finished.stderr);
}
