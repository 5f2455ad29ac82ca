//! `sigprof record` and `sigprof recover`, with real programs: of Debian's packages perl-base, gzip, coreutils, dash, python3 and gcc,
//! which ci/setup.sh installs.

#[path = "record/support.rs"]
mod support;

use sigprof_analysis::profile::label;
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Stdio},
};
use support::{Finished, Rig, children_of, is_stopped, send, wait_until};

/// Perl at work until it has used so many seconds.
fn perl(seconds: f64) -> String {
    format!(
        "my $i = 0; while ((times)[0] + (times)[1] < {seconds}) {{ $i++ for 1 .. 1000 }} print \"done\\n\""
    )
}

#[test]
fn all_processes_of_a_pipeline_are_in_one_profile() {
    let rig = Rig::new();
    let script = format!(
        "perl -e '{}' | gzip -9 > out.gz; cat /bin/sh /bin/sh /bin/sh /bin/sh | gzip -9 > two.gz",
        perl(0.2)
    );
    let finished = rig.record(&[], &["sh", "-c", &script]).expect(0);
    let profile = rig.profile();
    assert_eq!(profile.check(), Ok(()));
    let processes = rig.times_by(&profile, label::PROCESS);
    assert!(processes["perl"] > 0.15 && processes.contains_key("gzip"), "{processes:?}");
    assert!(rig.times_by(&profile, label::PROCESS_ID).len() >= 2);
    let whole = finished.stderr.contains("100.0 % of call chains whole") || finished.stderr.contains("99.");
    assert!(whole && finished.stderr.contains("sigprof: the profile is"), "{}", finished.stderr);
    assert!(finished.stderr.contains("flat%") && finished.stderr.contains("Perl_"), "{}", finished.stderr);
    // By these later readers tell whether a binary is the one that ran.
    let is_perl = |mapping: &&sigprof_analysis::profile::Mapping| mapping.file.ends_with("perl");
    assert!(profile.mappings.iter().find(is_perl).is_some_and(|mapping| mapping.build_id.len() >= 16));
    // The names are in the file: binaries may be gone when somebody looks.
    assert!(profile.functions.iter().any(|function| function.name.starts_with("Perl_")));
    assert!(profile.comments.iter().any(|comment| comment.starts_with("command: sh -c perl")));
    assert!(profile.duration_nanos > 100_000_000 && profile.time_nanos > 0);
    assert_eq!(rig.left(), [""; 0]);
}

#[test]
fn the_time_in_the_profile_is_the_time_that_was_used() {
    let rig = Rig::new();
    rig.record(&["-F", "250"], &[rig.program(), "burn", "300", "fork", "200", "threads", "2", "150"])
        .expect(0);
    let profile = rig.profile();
    let time = profile.total(1) as f64 / 1e9;
    assert!((0.70..1.0).contains(&time), "0.8 s were used, and {time} s are in the profile");
    assert_eq!(profile.period, 4_000_000);
    let threads = rig.times_by(&profile, label::THREAD);
    for (name, least) in [("worker-1", 0.1), ("worker-2", 0.1), ("worker", 0.4)] {
        assert!(threads.get(name).is_some_and(|time| *time > least), "{name}: {threads:?}");
    }
    assert_eq!(rig.times_by(&profile, label::THREAD_ID).len(), 4);
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 2);
}

#[test]
fn the_time_of_earlier_children_is_not_the_commands() {
    let rig = Rig::new();
    // As cargo does, which compiles, and then becomes the recorder.
    let script = format!(
        "'{}' burn 600; exec '{}' record -- '{}' burn 250",
        rig.program(),
        rig.sigprof(),
        rig.program()
    );
    let finished = Finished::of(rig.prepared("sh").args(["-c", &script]).spawn().unwrap()).expect(0);
    assert!(finished.stderr.contains("1 process"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("the command used"), "{}", finished.stderr);
}

#[test]
fn what_a_program_did_before_it_was_killed_or_crashed_is_there() {
    let rig = Rig::new();
    for (end, number) in
        [(&["signal", "9"][..], 9), (&["signal", "6"], 6), (&["segv"], 11), (&["signal", "40"], 40)]
    {
        let command = [&[rig.program(), "burn", "250"], end].concat();
        let finished = rig.record(&[], &command);
        // A real-time signal cannot be repeated by a command of few words.
        let expected = if number == 40 { (Some(168), None) } else { (None, Some(number)) };
        assert_eq!(finished.end(), expected, "{end:?}: {}", finished.stderr);
        assert!(finished.stderr.contains("ended without a word"), "{}", finished.stderr);
        let time = rig.profile().total(1) as f64 / 1e9;
        assert!((0.1..0.35).contains(&time), "{end:?}: {time}");
        assert_eq!(rig.left(), [""; 0]);
    }
}

#[test]
fn programs_that_follow_each_other_in_one_process_are_all_there() {
    let rig = Rig::new();
    // `env` looks for the program in several directories, and fails in all but one.
    let path = format!("/nonexistent:{}:/usr/bin:/bin", rig.path("").display());
    let script = format!(
        "exec env PATH={path} worker burn 250 exec /bin/sh -c 'exec perl -e \"{}\"'",
        perl(0.55).replace('$', "\\$").replace('"', "\\\"")
    );
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    let profile = rig.profile();
    let processes = rig.times_by(&profile, label::PROCESS);
    assert!(processes["worker"] > 0.1 && processes["perl"] > 0.1, "{processes:?}");
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 1, "one process");
}

#[test]
fn a_failed_exec_loses_nothing() {
    let rig = Rig::new();
    let script = "my $i = 0; my $end = 0; while ($end < 2) { $end++; while ((times)[0] + (times)[1] < 0.4 * $end) { $i++ for 1 .. 1000 } no warnings; exec '/nonexistent/program' if $end == 1; exec '/etc/passwd' if $end == 1 }";
    rig.record(&[], &["perl", "-e", script]).expect(0);
    let time = rig.profile().total(1) as f64 / 1e9;
    // A machine with more to do than it can passes busy threads by for a tenth of a second.
    assert!((0.55..1.0).contains(&time), "{time}");
}

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

#[test]
fn the_exit_status_is_the_commands() {
    let rig = Rig::new();
    for status in [0, 1, 2, 42, 125, 126, 127, 128, 130, 254, 255] {
        let finished = rig.record(&["--quiet"], &["sh", "-c", &format!("exit {status}")]).expect(status);
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    }
}

#[test]
fn standard_streams_are_the_commands_own() {
    let rig = Rig::new();
    let mut child = rig.command(&["-q"], &["sh", "-c", "gzip -c | gzip -dc; echo told >&2"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"what goes in").unwrap();
    let finished = Finished::of(child).expect(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("what goes in", "told\n"));
}

#[test]
fn closed_streams_harm_nobody() {
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
fn the_command_has_no_descriptor_signal_or_variable_of_ours() {
    let rig = Rig::new();
    // Descriptors of the library's own are closed by exec, so a program that is not profiled shows what is left.
    // A signal that the caller blocks or ignores stays so.
    let inherited = ["--block-signal=USR2", "--ignore-signal=INT"];
    let recorder = [rig.sigprof(), "record", "-q", "--", "env"];
    let run = |words: &[&str]| {
        Finished::of(rig.prepared("env").args(inherited).args(words).spawn().unwrap()).expect(0)
    };
    // Without a shell, which would let all signals through.
    let masks = ["grep", "-E", "Sig(Blk|Ign|Cgt)|ShdPnd", "/proc/self/status"];
    for words in [&masks[..], &["sh", "-c", "ls -l /proc/self/fd | wc -l"]] {
        let plain = [&["-u", "LD_PRELOAD"], words].concat();
        let (recorded, plain) = (run(&[&recorder[..], &plain].concat()), run(&plain));
        assert!(plain.stdout.lines().count() >= 1, "{}", plain.stdout);
        assert_eq!(plain.stdout, recorded.stdout);
    }
}

#[test]
fn without_children_the_commands_own_process_is_there_alone() {
    let rig = Rig::new();
    let command = [
        rig.program(),
        "fork",
        "100",
        "burn",
        "100",
        "exec",
        "sh",
        "-c",
        "perl -e 'for (1..3000000) {$i++}'; gzip -9 < /bin/sh > /dev/null; exec perl -e 'for (1..2000000) {$i++}'",
    ];
    rig.record(&["--no-children"], &command).expect(0);
    let profile = rig.profile();
    let processes = rig.times_by(&profile, label::PROCESS);
    assert_eq!(processes.keys().collect::<Vec<_>>(), ["perl", "worker"], "and what the process became");
    assert!((0.05..0.33).contains(&processes["worker"]), "{processes:?}");
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 1);
}

#[test]
fn more_processes_than_a_directory_holds_are_all_there() {
    let rig = Rig::new();
    // 300 that are killed, and so leave spools that nobody else removes.
    let script = format!("for i in $(seq 300); do '{}' burn 5 signal 9; done 2> /dev/null", rig.program());
    let finished = rig.record(&["-F", "1000", "--clock", "perf"], &["sh", "-c", &script]).expect(137);
    let processes = rig.times_by(&rig.profile(), label::PROCESS_ID).len();
    assert!(processes >= 295, "{processes} of 300 are there: {}", finished.stderr);
    assert_eq!(rig.left(), [""; 0]);
}

#[test]
fn commands_that_cannot_be_recorded_are_refused_before_they_run() {
    let rig = Rig::new();
    let ran = rig.path("ran");
    let touch = format!("#!/bin/sh\ntouch '{}'\n", ran.display());
    let executable = |name: &str, bytes: &[u8], mode| {
        fs::write(rig.path(name), bytes).unwrap();
        fs::set_permissions(rig.path(name), fs::Permissions::from_mode(mode)).unwrap();
        rig.path(name).to_str().unwrap().to_owned()
    };
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
        (&[], "no-such-command".into(), 127, "not found"),
        (&[], "/no/such/command".into(), 127, "not found"),
        (&[], not_executable, 126, "cannot be executed"),
        (&[], rig.path("").to_str().unwrap().into(), 126, "cannot be executed"),
        (&[], is_static, 1, "statically linked"),
        (&[], script_of_static, 1, "statically linked"),
        (&[], of_other_width, 1, "32-bit program"),
        (&["-o", "missing/profile"], good.clone(), 1, "cannot write the profile"),
        (&["-o", "."], good.clone(), 1, "it is"),
        (&["--timer-signal", "SIGUSR1"], good.clone(), 1, "SIGRTMIN"),
        (&["-F", "0"], good.clone(), 2, "1..=10000"),
        (&["--max-memory", "1M"], good.clone(), 2, "8M and 1G"),
        (&["--clock", "sun"], good.clone(), 2, "wall"),
    ];
    if nix::unistd::geteuid().is_root() {
        // The program is another user's, and would run with that one's rights.
        let other = executable("setuid", &fs::read(rig.program()).unwrap(), 0o755);
        nix::unistd::chown(other.as_str(), Some(65534.into()), None).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).unwrap();
        cases.push((&[], other, 1, "more rights than yours (setuid)"));
    }
    let before = rig.names();
    for (options, command, status, reason) in cases {
        let finished = rig.record(options, &[&command]);
        assert_eq!(finished.end(), (Some(status), None), "{command}: {}", finished.stderr);
        assert!(finished.stderr.contains(reason), "{command}: {reason}: {}", finished.stderr);
        assert!(!ran.exists() && rig.names() == before && rig.left().is_empty(), "{command}");
    }
    let no_library = rig.command(&[], &[&good]).env("SIGPROF_LIBRARY", "/no/library.so").spawn().unwrap();
    let finished = Finished::of(no_library).expect(1);
    assert!(finished.stderr.contains("/no/library.so") && !ran.exists(), "{}", finished.stderr);
    rig.record(&[], &[&good]).expect(0);
    assert!(ran.exists(), "what is not refused runs");
}

#[test]
fn a_script_without_a_first_line_is_the_shells() {
    let rig = Rig::new();
    fs::write(rig.path("bare"), "echo \"$1\"; exit 5\n").unwrap();
    fs::set_permissions(rig.path("bare"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(rig.record(&["-q"], &["./bare", "word"]).expect(5).stdout, "word\n");
}

#[test]
fn a_library_whose_path_cannot_stand_in_the_environment_is_linked() {
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

#[test]
fn no_samples_come_with_a_reason() {
    let rig = Rig::new();
    let finished = rig.record(&[], &["true"]).expect(0);
    assert!(
        finished.stderr.contains("no samples: the program used less time than one period"),
        "{}",
        finished.stderr
    );
    let finished = rig.record(&[], &["env", "-i", rig.program(), "burn", "300"]).expect(0);
    assert!(finished.stderr.contains("LD_PRELOAD"), "{}", finished.stderr);
    let finished = rig.record(&[], &[rig.program(), "signal", "9"]);
    assert!(finished.stderr.contains("before its first tick"), "{}", finished.stderr);
}

#[test]
fn the_clock_and_the_depth_are_those_that_were_asked_for() {
    let rig = Rig::new();
    rig.record(
        &["--clock", "wall", "--max-depth", "1", "-o", "wall.pb"],
        &["perl", "-e", "select undef, undef, undef, 0.03 for 1 .. 20"],
    )
    .expect(0);
    let profile = rig.profile_at("wall.pb");
    let time = profile.total(1) as f64 / 1e9;
    assert!((0.15..1.5).contains(&time), "it waits for most of that time: {time}");
    assert!(profile.samples.iter().all(|sample| sample.chain.len() == 1));
}

/// A signal that is sent to the recorder comes to the command, once.
#[test]
fn a_signal_is_handed_on_once() {
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

#[test]
fn a_command_that_is_ended_by_a_signal_gives_its_profile() {
    let rig = Rig::new();
    let mut child =
        rig.command(&[], &[rig.program(), "burn", "250", "say", "ready", "wait"]).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    send(child.id(), 15);
    let finished = Finished::of(child);
    assert_eq!(finished.end(), (None, Some(15)), "{}", finished.stderr);
    assert!(finished.stderr.contains("ended by SIGTERM"), "{}", finished.stderr);
    assert!(rig.profile().total(0) >= 5);
}

/// The command's signal for its parent is not sent back to it, and a recorder that ignores signals lets them be ignored.
#[test]
fn a_signal_for_the_commands_parent_does_not_come_back() {
    let rig = Rig::new();
    rig.record(&["-q"], &[rig.program(), "parent", "10", "parent", "15", "burn", "20", "exit", "3"])
        .expect(3);
    let command = [rig.sigprof(), "record", "-q", "--", rig.program(), "signal", "2", "exit", "4"];
    let mut recorder = rig.prepared("env");
    // By coreutils; shells do not let SIGCHLD be ignored.
    recorder.args(["--ignore-signal=INT", "--ignore-signal=CHLD"]).args(command);
    Finished::of(recorder.spawn().unwrap()).expect(4);
}

#[test]
fn the_recorder_stops_and_goes_on_with_the_command() {
    let rig = Rig::new();
    // In a group of its own, as shells start commands: in one that is orphaned, as that of these tests may be, SIGTSTP stops
    // nobody (setpgid(2)).
    let mut command = rig.command(&["-q"], &[rig.program(), "say", "ready", "wait"]);
    let mut child = command.process_group(0).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let command = children_of(child.id())[0];
    send(child.id(), 20);
    wait_until("both have stopped", || is_stopped(command) && is_stopped(child.id()));
    send(child.id(), 18);
    wait_until("both go on", || !is_stopped(command) && !is_stopped(child.id()));
    // A debugger's business.
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
    wait_until("it is gone", || {
        fs::metadata(format!("/proc/{daemon}")).is_err() || support::is_zombie(daemon)
    });
    rig.recover(&[left]).expect(0);
    let late = rig.times_by(&rig.profile_at("sigprof-late.pb.gz"), label::PROCESS_ID);
    assert_eq!(late.keys().collect::<Vec<_>>(), [&daemon.to_string()]);
    assert_eq!(rig.left(), [""; 0]);
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

/// A recorder in a terminal: the line is there and goes away, Ctrl-C ends the command alone and once.
#[test]
fn on_a_terminal_there_is_a_line_and_an_interrupt_ends_the_command() {
    let rig = Rig::new();
    let orders = ["burn", "1200", "count", "2"];
    let seen = rig.on_a_terminal(&["--"], &orders, "ready", &["\x03", "TERM"]);
    assert!(seen.contains("\r\x1b[Ksigprof: ") && seen.contains(" samples, "), "{seen:?}");
    assert!(seen.contains("counted 1"), "{seen:?}");
    assert!(seen.contains("sigprof: the profile is"), "{seen:?}");
    let after_ready = seen.split("ready").nth(1).unwrap();
    assert!(
        !after_ready.contains("\x1b[K"),
        "where the command has written there is no line any more: {seen:?}"
    );
    let quiet = rig.on_a_terminal(&["--quiet", "--"], &["burn", "700", "say", "ready"], "ready", &[]);
    assert_eq!(quiet.trim(), "ready");
    let ended = rig.on_a_terminal(&["--"], &["burn", "100", "say", "ready", "wait"], "ready", &["\x03"]);
    assert!(ended.contains("ended by SIGINT") && ended.contains("status: -2"), "{ended:?}");
}

/// Nothing but the command's own output where stderr is no terminal.
#[test]
fn without_a_terminal_there_is_no_line() {
    let rig = Rig::new();
    let finished = rig.record(&["--live"], &[rig.program(), "burn", "700"]).expect(0);
    assert!(!finished.stderr.contains('\x1b') && !finished.stderr.contains('\r'), "{:?}", finished.stderr);
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

/// Who reads the summary may be gone.
#[test]
fn a_closed_pipe_for_the_summary_changes_nothing() {
    let rig = Rig::new();
    let mut command = rig.command(&[], &[rig.program(), "burn", "30", "exit", "9"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert!(rig.path("sigprof.pb.gz").exists());
}

/// Compiles a program of its own that may use `burn(SECONDS)`, and gives its path.
fn compile(rig: &Rig, main: &str) -> String {
    let source = rig.path("own.c");
    let burn = "static volatile long sink; void burn(double seconds) { \
        double until = clock() + seconds * CLOCKS_PER_SEC; while (clock() < until) for (int i = 0; i < 20000; i++) sink += i; }";
    let headers = "#include <signal.h>\n#include <time.h>\n#include <unistd.h>\n";
    fs::write(&source, format!("{headers}void ProfilerFlush(void) __attribute__((weak));\n{burn}\n{main}\n"))
        .unwrap();
    let program = rig.path("own").to_str().unwrap().to_owned();
    let compiled = Command::new("gcc").args(["-O1", "-o", &program]).arg(&source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "gcc is missing: ci/setup.sh installs it");
    program
}

#[test]
fn a_flush_doubles_nothing() {
    let rig = Rig::new();
    let program = compile(
        &rig,
        "int main(void) { burn(0.3); if (!ProfilerFlush) return 1; ProfilerFlush(); burn(0.05); return 0; }",
    );
    let finished = rig.record(&[], &[&program]).expect(0);
    let time = rig.profile().total(1) as f64 / 1e9;
    assert!((0.25..0.45).contains(&time), "0.35 s were used, and {time} s are in the profile");
    assert!(finished.stderr.contains("1 process"), "{}", finished.stderr);
}

#[test]
fn a_process_that_is_killed_behind_a_failed_exec_has_not_ended_well() {
    let rig = Rig::new();
    // An executable that the kernel looks at, and refuses.
    fs::write(rig.path("garbage"), [&b"\x7fELF"[..], &[1; 200]].concat()).unwrap();
    fs::set_permissions(rig.path("garbage"), fs::Permissions::from_mode(0o755)).unwrap();
    let program = compile(
        &rig,
        "int main(int n, char **words) { burn(0.1); execv(\"garbage\", words); burn(0.05); raise(SIGKILL); }",
    );
    let finished = rig.record(&[], &[&program]);
    assert_eq!(finished.end(), (None, Some(9)), "{}", finished.stderr);
    assert!(finished.stderr.contains("ended without a word"), "{}", finished.stderr);
}

/// Runs a program and its child as a recorder would, with this directory of spools; they say nothing of it.
fn run_quietly(rig: &Rig, spools: &Path) {
    let mut command = rig.prepared(rig.program());
    command.env("LD_PRELOAD", rig.library()).env("CPUPROFILE", rig.path("target"));
    command.env("CPUPROFILE_SPOOL", spools);
    for name in ["CPUPROFILE_KEEP_SPOOL", "CPUPROFILE_USE_PID", "CPUPROFILE_QUIET"] {
        command.env(name, "1");
    }
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
