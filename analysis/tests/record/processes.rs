//! Whose time is in the profile: all processes of a command, and no others.

use super::support::{Finished, Rig, compile, perl};
use sigprof_analysis::profile::label;
use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

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
    let mut picture = rig.prepared(rig.sigprof());
    let picture = Finished::of(picture.args(["flamegraph", "sigprof.pb.gz"]).spawn().unwrap()).expect(0);
    assert!(picture.stdout.contains(">sh -c perl -e "), "its title");
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

/// As in a build: each process uses less than a period, behind which the first tick of the process's timer would come.
#[test]
fn processes_of_less_than_a_period_have_their_time_together() {
    let rig = Rig::new();
    fs::hard_link(rig.program(), rig.path("late")).unwrap();
    // A process of each kind in turn, so that both have the same machine.
    let script = "for i in $(seq 200); do ./worker burn 8; CPUPROFILE_RANDOM_START=0 ./late burn 8; done";
    let times_by = |clock: &str| {
        rig.record(&["-F", "100", "--clock", clock], &["sh", "-c", script]).expect(0);
        let times = rig.times_by(&rig.profile(), label::PROCESS);
        ["worker", "late"].map(|name| times.get(name).copied().unwrap_or(0.0))
    };
    // A tick comes behind its time, at the next of the kernel's that meets the process, and many have ended by then: six in ten or more
    // have one on a machine that is theirs, and a quarter where thirty others want it, too. How many is the scheduler's choice; but of
    // those whose first tick is due behind a whole period a few have one, which the kernel's own count of time takes for longer.
    let [time, late] = times_by("cpu");
    assert!(time > 2.0 * late, "{time} s are in the profile, and {late} s of those with a late tick");
    assert!(time < 2.1, "1.6 s and a little were used, and {time} s are in the profile");
    if !has_perf() {
        eprintln!("passed over: no events of perf");
        return;
    }
    // At its time, whatever else the machine does: eight processes in ten have one, and four standard deviations are 0.23 s. What a
    // program's start and end take is on top.
    let [time, _] = times_by("perf");
    assert!((1.37..2.1).contains(&time), "1.6 s and a little were used, and {time} s are in the profile");
}

/// Whether a thread may have an event of its task clock. Without a description of one, who may is told that it is missing.
fn has_perf() -> bool {
    let number = nix::libc::SYS_perf_event_open;
    let script = format!("exit(syscall({number}, 0, 0, -1, -1, 0) == -1 && $!{{EFAULT}} ? 0 : 1)");
    Command::new("perl").args(["-e", &script]).status().expect("perl is there").success()
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

/// It may end before a whole period is over, as one that looks for a program in several directories, and runs none.
#[test]
fn a_process_that_failed_to_become_another_program_has_its_thread_s_timer_again() {
    let rig = Rig::new();
    // An executable that the kernel looks at, and refuses.
    fs::write(rig.path("garbage"), [&b"\x7fELF"[..], &[1; 200]].concat()).unwrap();
    fs::set_permissions(rig.path("garbage"), fs::Permissions::from_mode(0o755)).unwrap();
    let program = compile(
        &rig,
        "#include <stdio.h>\n#include <string.h>\n\
        static void timers(void) { \
            char line[200]; int n = 0; FILE *list = fopen(\"/proc/self/timers\", \"r\"); \
            if (!list) { puts(\"none\"); return; } \
            while (fgets(line, sizeof line, list)) n += !strncmp(line, \"ID:\", 3); \
            fclose(list); printf(\"%d\\n\", n); } \
        int main(int n, char **words) { \
            timers(); execv(\"no-such-program\", words); timers(); execv(\"garbage\", words); timers(); }",
    );
    // By a tick in a second of its time it is met by none.
    let finished = rig.record(&["-q", "-F", "1"], &[&program]).expect(0);
    if finished.stdout.starts_with("none") {
        return eprintln!("passed over: the kernel lists no timers (CONFIG_CHECKPOINT_RESTORE)");
    }
    assert_eq!(finished.stdout, "1\n1\n1\n");
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
fn the_clock_and_the_depth_are_those_that_were_asked_for() {
    let rig = Rig::new();
    rig.record(
        &["--clock", "wall", "--max-depth", "1", "-o", "wall.pb"],
        &["perl", "-e", "select undef, undef, undef, 0.03 for 1 .. 20"],
    )
    .expect(0);
    let profile = rig.profile_at("wall.pb");
    // A tick ends a wait, however late it comes.
    let (time, most) =
        (profile.total(1) as f64 / 1e9, (profile.duration_nanos + profile.period) as f64 / 1e9);
    assert!(time > 0.15 && time <= most, "it waits for most of that time: {time} of {most}");
    assert!(profile.samples.iter().all(|sample| sample.chain.len() == 1));
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

/// Their loader would end them with the library, which needs glibc's symbols.
#[test]
fn programs_of_musl_that_a_recorded_one_starts_run_as_ever() {
    let rig = Rig::new();
    fs::write(rig.path("musl.c"), "#include <stdio.h>\nint main(void) { puts(\"of musl\"); return 3; }\n")
        .unwrap();
    let source = rig.path("musl.c");
    match Command::new("musl-gcc").arg("-o").arg(rig.path("of-musl")).arg(source).status() {
        Ok(compiled) => assert!(compiled.success()),
        Err(_) => {
            assert!(std::env::var_os("CI").is_none(), "musl-tools are not installed");
            return eprintln!("passed over: musl-tools are not installed");
        }
    }
    let script = "grep libprofiler /proc/self/maps; ./of-musl; test $? = 3 && ./worker burn 250";
    fs::write(rig.path("bare"), script).unwrap();
    fs::set_permissions(rig.path("bare"), fs::Permissions::from_mode(0o755)).unwrap();
    let recorded = |words: &[&str]| Finished::of(rig.prepared(words[0]).args(&words[1..]).spawn().unwrap());
    let record = [rig.sigprof(), "record", "--"];
    // Expanded once more the path is the library's own, and finds it all the same.
    let expanding = format!(
        "eval export LD_PRELOAD=\"$LD_PRELOAD\"; grep libprofiler /proc/self/maps; '{}' burn 250",
        rig.program()
    );
    for (words, is_musl) in [
        (&[&record[..], &["sh", "-c", script]].concat(), true),
        (&[&record[..], &["./bare"]].concat(), true),
        (&[&["env", "--ignore-signal=CHLD"], &record[..], &["sh", "-c", script]].concat(), true),
        (&[&record[..], &["sh", "-c", &expanding]].concat(), false),
    ] {
        let finished = recorded(words).expect(0);
        assert!(!finished.stderr.contains("symbol not found"), "{}", finished.stderr);
        let library = rig.library().to_str().unwrap();
        let (maps, said): (Vec<&str>, Vec<&str>) =
            finished.stdout.lines().partition(|line| line.contains("libprofiler"));
        assert!(
            !maps.is_empty() && maps.iter().all(|line| line.ends_with(&format!(" {library}"))),
            "{maps:?}"
        );
        assert_eq!(said, if is_musl { &["of musl"][..] } else { &[] });
        let processes = rig.times_by(&rig.profile(), label::PROCESS);
        assert!(processes.get("worker").is_some_and(|time| *time > 0.1), "{words:?}: {processes:?}");
    }
}
