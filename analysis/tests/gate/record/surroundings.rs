//! The environment of a command: streams, descriptors, the terminal, signals from outside.

use super::support::{Finished, Rig, children_of, is_polling, is_stopped, send, wait_until};
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::Stdio,
};

#[test]
fn standard_streams_are_the_commands_own() {
    let rig = Rig::new();
    let mut child = rig.command(&["-q"], &["sh", "-c", "gzip -c | gzip -dc; echo told >&2"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"what goes in").unwrap();
    let finished = Finished::of(child).expect(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("what goes in", "told\n"));
}

#[test]
fn records_with_closed_standard_streams() {
    let rig = Rig::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let _ = fs::remove_file(rig.path("sigprof.pb.gz"));
        let script =
            format!("exec '{}' record -- '{}' burn 250 exit 7 {closed}", rig.sigprof(), rig.program());
        let mut command = rig.prepared("sh");
        assert_eq!(
            Finished::of(command.args(["-c", &script]).spawn().unwrap()).end(),
            (Some(7), None),
            "{closed}"
        );
        assert!(rig.profile().total(0) > 0);
    }
}

#[test]
fn the_command_inherits_no_descriptors_or_signal_state() {
    let rig = Rig::new();
    // exec closes the library's descriptors, so a program without it shows the rest. Signals that
    // the caller blocks or ignores stay blocked or ignored.
    let inherited = ["--block-signal=USR2", "--ignore-signal=INT"];
    let recorder = [rig.sigprof(), "record", "-q", "--", "env"];
    let run = |words: &[&str]| {
        Finished::of(rig.prepared("env").args(inherited).args(words).spawn().unwrap()).expect(0)
    };
    // Without a shell, which would unblock all signals.
    let masks = ["grep", "-E", "Sig(Blk|Ign|Cgt)|ShdPnd", "/proc/self/status"];
    for words in [&masks[..], &["sh", "-c", "ls -l /proc/self/fd | wc -l"]] {
        let plain = [&["-u", "LD_PRELOAD"], words].concat();
        let (recorded, plain) = (run(&[&recorder[..], &plain].concat()), run(&plain));
        assert!(plain.stdout.lines().count() >= 1, "{}", plain.stdout);
        assert_eq!(plain.stdout, recorded.stdout);
    }
}

/// The reader of the summary may have exited.
#[test]
fn a_closed_pipe_for_the_summary_changes_nothing() {
    let rig = Rig::new();
    let mut command = rig.command(&[], &[rig.program(), "burn", "30", "exit", "9"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert!(rig.path("sigprof.pb.gz").exists());
}

/// A signal that is sent to the recorder reaches the command once.
#[test]
fn forwards_a_signal_once() {
    let rig = Rig::new();
    for number in [2, 10] {
        let mut child = rig.command(&["-q"], &[rig.program(), "count", &number.to_string()]).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut ready = [0; 6];
        out.read_exact(&mut ready).unwrap();
        send(child.id(), number);
        let mut came = [0; 5];
        out.read_exact(&mut came).unwrap();
        send(child.id(), 15);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "counted 1\n");
        assert_eq!(child.wait().unwrap().code(), Some(0), "the recorder ends as the command does");
    }
}

/// The command's signal to its parent is not sent back. Signals the recorder ignores stay ignored.
#[test]
fn does_not_send_back_a_signal_for_the_commands_parent() {
    let rig = Rig::new();
    rig.record(&["-q"], &[rig.program(), "parent", "10", "parent", "15", "burn", "20", "exit", "3"])
        .expect(3);
    let command = [rig.sigprof(), "record", "-q", "--", rig.program(), "signal", "2", "exit", "4"];
    let mut recorder = rig.prepared("env");
    // By coreutils: shells cannot ignore SIGCHLD.
    recorder.args(["--ignore-signal=INT", "--ignore-signal=CHLD"]).args(command);
    Finished::of(recorder.spawn().unwrap()).expect(4);
}

#[test]
fn the_recorder_stops_and_continues_with_the_command() {
    let rig = Rig::new();
    // In its own process group, as shells start commands: SIGTSTP does not stop an orphaned group
    // (setpgid(2)), which these tests' may be.
    let mut command = rig.command(&["-q"], &[rig.program(), "say", "ready", "wait"]);
    let mut child = command.process_group(0).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let command = children_of(child.id())[0];
    send(child.id(), 20);
    wait_until("both have stopped", || is_stopped(command) && is_stopped(child.id()));
    send(child.id(), 18);
    wait_until("both go on", || !is_stopped(command) && !is_stopped(child.id()));
    // It forwards the SIGCONT, which must not come after the next signal.
    wait_until("it has nothing else to do", || is_polling(child.id()));
    // As a debugger does.
    send(command, 19);
    wait_until("the command has stopped", || is_stopped(command));
    assert!(!is_stopped(child.id()));
    send(child.id(), 18);
    wait_until("the command goes on", || !is_stopped(command));
    send(child.id(), 9);
    send(command, 9);
    child.wait().unwrap();
    rig.remove_left();
}

/// On a terminal: the status line appears and vanishes, and Ctrl-C reaches the command once.
#[test]
fn on_a_terminal_shows_a_status_line_and_passes_an_interrupt() {
    let rig = Rig::new();
    let orders = ["burn", "1200", "count", "2"];
    let seen = rig.on_a_terminal(&["--"], &orders, "ready", &["\x03", "?came", "TERM"]);
    assert!(seen.contains("\r\x1b[Ksigprof: ") && seen.contains(" samples, "), "{seen:?}");
    assert!(seen.contains("counted 1"), "{seen:?}");
    assert!(seen.contains("sigprof: wrote sigprof.pb.gz; to see it: sigprof report "), "{seen:?}");
    let after_ready = seen.split("ready").nth(1).unwrap();
    // One line may be on its way at that moment; there would be time for four.
    assert!(
        after_ready.matches("\x1b[K").count() <= 1,
        "where the command has written there is no line any more: {seen:?}"
    );
    let quiet = rig.on_a_terminal(&["--quiet", "--"], &["burn", "700", "say", "ready"], "ready", &[]);
    assert_eq!(quiet.trim(), "ready");
    let ended = rig.on_a_terminal(&["--"], &["burn", "100", "say", "ready", "wait"], "ready", &["\x03"]);
    assert!(ended.contains("killed by SIGINT") && ended.contains("status: -2"), "{ended:?}");
}

/// If stderr is not a terminal, there is no status line.
#[test]
fn without_a_terminal_shows_no_status_line() {
    let rig = Rig::new();
    let finished = rig.record(&["--live"], &[rig.program(), "burn", "700"]).expect(0);
    assert!(!finished.stderr.contains('\x1b') && !finished.stderr.contains('\r'), "{:?}", finished.stderr);
}
