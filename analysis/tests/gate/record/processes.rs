//! The processes in a profile: all of the command's process tree, and no others.

use super::support::{Finished, Lack, Rig, assert_time, compile, is_full, perl, printed, skip, unaccounted};
use sigprof_analysis::profile::label;
use std::{fs, process::Command};

#[test]
fn all_processes_of_a_pipeline_are_in_one_profile() {
    let rig = Rig::new();
    let script = format!(
        "perl -e '{}' | gzip -9 > out.gz; cat{} | gzip -9 > two.gz; ./worker burn 50",
        perl(0.2),
        " /bin/sh".repeat(20)
    );
    let finished = rig.record(&[], &["sh", "-c", &script]).expect(0);
    let profile = rig.profile();
    assert_eq!(profile.check(), Ok(()));
    let processes = rig.times_by(&profile, label::PROCESS);
    assert!(processes.contains_key("perl") && processes.contains_key("worker"), "{processes:?}");
    assert!(rig.times_by(&profile, label::PROCESS_ID).len() >= 2);
    if is_full() {
        assert!(processes.contains_key("gzip"), "{processes:?}");
        // Perl's clock has 10 ms, in user and system mode, and starts before it is recorded.
        assert!(
            processes["perl"] + unaccounted(&profile) >= 0.15,
            "{processes:?}, and {} s",
            unaccounted(&profile)
        );
    }
    let whole = finished.stderr.split(" % of stacks complete").next().unwrap().rsplit(' ').next().unwrap();
    // Of a few dozen stacks, some may be truncated.
    let is_whole = whole.parse::<f64>().is_ok_and(|whole| whole >= if is_full() { 80.0 } else { 0.0 });
    assert!(
        is_whole && finished.stderr.contains("sigprof: wrote sigprof.pb.gz; to see it: sigprof report "),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains("flat%") && finished.stderr.contains("Perl_"), "{}", finished.stderr);
    // Later readers compare the binary's build ID.
    let is_perl = |mapping: &&sigprof_analysis::profile::Mapping| mapping.file.ends_with("perl");
    assert!(profile.mappings.iter().find(is_perl).is_some_and(|mapping| mapping.build_id.len() >= 16));
    // The file has the names: binaries may be missing later.
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
    let orders = ["burn", "300", "fork", "250", "threads", "2", "250", "cpu"];
    let finished = rig.record(&["-F", "250"], &[&[rig.program()], &orders[..]].concat()).expect(0);
    let profile = rig.profile();
    assert_eq!(profile.period, 4_000_000);
    assert_time(&profile, 4, 1.05, printed(&finished.stdout));
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 2);
    if !is_full() {
        return;
    }
    let threads = rig.times_by(&profile, label::THREAD);
    assert_eq!(threads.keys().collect::<Vec<_>>(), ["worker", "worker-1", "worker-2"]);
    assert_eq!(rig.times_by(&profile, label::THREAD_ID).len(), 4);
}

#[test]
fn the_time_of_earlier_children_is_not_counted() {
    let rig = Rig::new();
    // As cargo does: it compiles, and then executes the recorder.
    let script = format!(
        "'{}' burn 600; exec '{}' record -- '{}' sampled 1",
        rig.program(),
        rig.sigprof(),
        rig.program()
    );
    let finished = Finished::of(rig.prepared("sh").args(["-c", &script]).spawn().unwrap()).expect(0);
    assert!(finished.stderr.contains("1 process"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("the command used"), "{}", finished.stderr);
}

#[test]
fn records_all_programs_that_a_process_executes() {
    let rig = Rig::new();
    // `env` searches several directories, and fails in all but one.
    let path = format!("/nonexistent:{}:/usr/bin:/bin", rig.path("").display());
    let script = format!(
        "exec env PATH={path} worker burn 400 exec /bin/sh -c 'exec perl -e \"{}\"'",
        perl(0.8).replace('$', "\\$").replace('"', "\\\"")
    );
    rig.record(&[], &["sh", "-c", &script]).expect(0);
    let profile = rig.profile();
    let processes = rig.times_by(&profile, label::PROCESS);
    let is_there = |name: &str| processes.contains_key(name);
    assert!(is_there("worker") && is_there("perl"), "{processes:?}");
    // All except the time of the first `sh` before it was recorded.
    let time = profile.total(1) as f64 / 1e9;
    assert!(
        !is_full() || time + unaccounted(&profile) >= 0.7,
        "{time} s, and {} s in no sample",
        unaccounted(&profile)
    );
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 1, "one process");
}

#[test]
fn a_failed_exec_loses_no_samples() {
    let rig = Rig::new();
    if !is_full() {
        let ticks = "kill PROF => $$ for 1 .. 5;";
        let script = format!("{ticks} no warnings; exec '/nonexistent/program'; exec '/etc/passwd'; {ticks}");
        rig.record(&[], &["perl", "-e", &script]).expect(0);
        assert!(rig.profile().total(0) >= 10);
        return;
    }
    let script = "use POSIX (); my $i = 0; my $end = 0; while ($end < 2) { $end++; while ((times)[0] + (times)[1] < ($end == 1 ? 0.4 : 1.2)) { $i++ for 1 .. 1000 } no warnings; exec '/nonexistent/program' if $end == 1; exec '/etc/passwd' if $end == 1 } printf \"cpu %f\n\", POSIX::clock() / 1e6";
    let finished = rig.record(&[], &["perl", "-e", script]).expect(0);
    let profile = rig.profile();
    assert_time(&profile, 1, 1.2, printed(&finished.stdout));
    // Two thirds of it are used after the calls.
    let time = profile.total(1) as f64 / 1e9;
    assert!(time > 0.7, "{time} s of 1.2 s");
}

/// The process may use less than a period, after a search for a program in several directories.
#[test]
fn a_failed_exec_keeps_the_threads_timer() {
    let rig = Rig::new();
    // An executable that the kernel refuses.
    rig.executable("garbage", &[&b"\x7fELF"[..], &[1; 200]].concat(), 0o755);
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
    // At one tick in a second of CPU time it has no tick.
    let finished = rig.record(&["-q", "-F", "1", "--clock", "cpu"], &[&program]).expect(0);
    if finished.stdout.starts_with("none") {
        return skip(Lack::System, "the kernel lists no timers (CONFIG_CHECKPOINT_RESTORE)");
    }
    assert_eq!(finished.stdout, "1\n1\n1\n");
}

#[test]
fn no_children_records_only_the_commands_process() {
    let rig = Rig::new();
    let command = [
        rig.program(),
        "fork",
        "200",
        "burn",
        "200",
        "cpu",
        "exec",
        "sh",
        "-c",
        "perl -e 'for (1..3000000) {$i++}'; gzip -9 < /bin/sh > /dev/null; \
            exec perl -e 'kill PROF => $$; for (1..2000000) {$i++}'",
    ];
    let finished = rig.record(&["--no-children"], &command).expect(0);
    let profile = rig.profile();
    let mut processes = rig.times_by(&profile, label::PROCESS);
    // A tick may sample the shell (on Debian `dash`) before it executes perl.
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    processes.remove(shell.file_name().unwrap().to_str().unwrap());
    assert_eq!(processes.keys().collect::<Vec<_>>(), ["perl", "worker"], "and what the process became");
    // The child printed at least 0.2 s.
    assert_eq!(rig.times_by(&profile, label::PROCESS_ID).len(), 1);
    if !is_full() {
        return;
    }
    let (time, period) = (processes["worker"], profile.period as f64 / 1e9);
    assert!(time <= printed(&finished.stdout) - 0.2 + 2.0 * period, "{processes:?}");
    assert!(time + unaccounted(&profile) + 2.0 * period >= 0.2, "{processes:?}");
}

#[test]
fn records_more_processes_than_a_spool_directory_holds() {
    let rig = Rig::new();
    // 300 killed processes leave spools, which only the recorder removes; the gate waits for it.
    let pause = "while [ $(ls \"$CPUPROFILE_SPOOL\" | wc -l) -gt 150 ]; do sleep 0.01; done";
    let script = format!(
        "for i in $(seq 300); do {}; '{}' sampled 1 signal 9; done 2> /dev/null",
        if is_full() { "true" } else { pause },
        rig.program()
    );
    let finished = rig.record(&["-F", "1000"], &["sh", "-c", &script]).expect(137);
    let processes = rig.processes_called(&rig.profile(), "worker").len();
    assert_eq!(processes, 300, "{}", finished.stderr);
    assert_eq!(rig.left(), [""; 0]);
}

#[test]
fn uses_the_requested_clock_and_depth() {
    let rig = Rig::new();
    rig.record(
        &["--clock", "wall", "--max-depth", "1", "-o", "wall.pb"],
        &["perl", "-e", "select undef, undef, undef, 0.03 for 1 .. 20"],
    )
    .expect(0);
    let profile = rig.profile_at("wall.pb");
    // A tick ends a wait, even a late tick.
    let (time, most) =
        (profile.total(1) as f64 / 1e9, (profile.duration_nanos + profile.period) as f64 / 1e9);
    let is_right = if is_full() { time > 0.15 && time <= most } else { time > 0.0 };
    assert!(is_right, "it waits for most of that time: {time} of {most}");
    assert!(profile.samples.iter().all(|sample| sample.chain.len() == 1));
}

#[test]
fn a_flush_does_not_duplicate_samples() {
    let rig = Rig::new();
    let program = compile(
        &rig,
        "int main(void) { for (int i = 0; i < 1000; i++) raise(SIGPROF); if (!ProfilerFlush) return 1; ProfilerFlush(); \
            for (int i = 0; i < 200; i++) raise(SIGPROF); cpu(); return 0; }",
    );
    let finished = rig.record(&[], &[&program]).expect(0);
    let samples = rig.profile().total(0);
    // The timer adds a few ticks.
    assert!((1200..2000).contains(&samples), "{samples}");
    assert!(finished.stderr.contains("1 process"), "{}", finished.stderr);
}

/// With the library preloaded, musl's loader would fail: it lacks glibc's symbols.
#[test]
fn children_linked_with_musl_run_unprofiled() {
    let rig = Rig::new();
    fs::write(rig.path("musl.c"), "#include <stdio.h>\nint main(void) { puts(\"of musl\"); return 3; }\n")
        .unwrap();
    let source = rig.path("musl.c");
    match Command::new("musl-gcc").arg("-o").arg(rig.path("of-musl")).arg(source).status() {
        Ok(compiled) => assert!(compiled.success()),
        Err(_) => {
            return skip(Lack::Tool, "no musl-gcc: apt-get install musl-tools");
        }
    }
    let script = "grep libprofiler /proc/self/maps; ./of-musl; test $? = 3 && ./worker burn 250";
    rig.executable("bare", script.as_bytes(), 0o755);
    let recorded = |words: &[&str]| Finished::of(rig.prepared(words[0]).args(&words[1..]).spawn().unwrap());
    let record = [rig.sigprof(), "record", "--"];
    // Another expansion of the path results in the library's own path, which works, too.
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
        assert!(processes.contains_key("worker"), "{words:?}: {processes:?}");
    }
}
