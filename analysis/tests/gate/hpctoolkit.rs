//! Databases of HPCToolkit: read, written and verified by the command. Needs Debian's python3.
//!
//! `programs/hpctoolkit.py` is a second reader, which was written from the format's document alone.
//! `data/hpctoolkit-ping-pong/` is a database by HPCToolkit 2023.03.

use crate::skip::{Lack, skip};
use serde_json::Value;
use sigprof_analysis::{
    formats::{pprof, read_file},
    profile::{Builder, Function, Label, LabelValue, Line, LocationId, Profile, label},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn sigprof(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
    command.args(arguments).current_dir(directory).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeeds(arguments: &[&str], directory: &Path) -> String {
    let output = sigprof(arguments, directory);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the message of a command that exits with status 1.
#[track_caller]
fn fails(arguments: &[&str], directory: &Path) -> String {
    let output = sigprof(arguments, directory);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    text(&output.stderr)
}

/// Nanoseconds by folded stack.
type Stacks = BTreeMap<String, i64>;

fn folded(profile: &str, directory: &Path) -> Stacks {
    let lines = succeeds(&["convert", "--to", "folded", profile], directory);
    let lines = lines.lines().filter_map(|line| line.rsplit_once(' '));
    lines.map(|(stack, value)| (stack.to_owned(), value.parse().expect("a number"))).collect()
}

/// What the second reader finds.
fn decoded(database: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hpctoolkit.py");
    let output = Command::new("python3").arg(script).arg(database).output().expect("python3 starts");
    assert!(output.status.success(), "{}: {}", database.display(), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// The sum over all threads of the second reader's stacks.
fn stacks_of(decoded: &Value, metric: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for thread in decoded["threads"].as_array().expect("a list") {
        for (stack, seconds) in thread["stacks"][metric].as_object().into_iter().flatten() {
            let nanos = (seconds.as_f64().expect("a number") * 1e9).round() as i64;
            *stacks.entry(stack.clone()).or_default() += nanos;
        }
    }
    stacks
}

#[test]
fn reports_read_a_database_of_hpcprof() {
    let directory = tempfile::tempdir().unwrap();
    let database = data("hpctoolkit-ping-pong");
    let database = database.to_str().unwrap();
    let top = succeeds(&["top", "--nodefraction=0", database], directory.path());
    // The figures are those of llnl-hatchet.
    assert!(top.contains("Total samples = 262.07ms"), "{top}");
    assert!(top.lines().any(|line| line.contains("262.07ms   100%") && line.ends_with("main")), "{top}");
    assert!(top.lines().any(|line| line.contains("12.03ms") && line.ends_with("  MPI_Finalize")), "{top}");
    let ranks = ["0", "1"].map(|rank| {
        let all = succeeds(&["traces", "--tagfocus", &format!("rank={rank}"), database], directory.path());
        assert!(all.contains(&format!("rank:  {rank}\n")), "{all}");
        all.len()
    });
    assert!(ranks.iter().all(|&length| length > 100), "{ranks:?}");

    succeeds(&["convert", "--to", "pprof", "-o", "ping.pb.gz", database], directory.path());
    assert_eq!(folded("ping.pb.gz", directory.path()), folded(database, directory.path()));
    succeeds(&["flamegraph", "-o", "flame.svg", database], directory.path());
    succeeds(&["report", "-o", "page.html", database], directory.path());
    let picture = fs::read_to_string(directory.path().join("flame.svg")).unwrap();
    assert!(picture.contains("psm_progress_wait"));
    let checked = succeeds(&["hpctoolkit", "check", database], directory.path());
    assert!(checked.ends_with("2 threads, 317 values, 2 traces: no rule is violated\n"), "{checked}");
}

/// The values of all structures agree, by a reader that shares no code with the writer.
#[test]
fn a_second_reader_finds_the_same_values() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["recursion", "containers", "inlining", "python", "labels"] {
        let profile = data(&format!("{name}.pb.gz"));
        let profile = profile.to_str().unwrap();
        succeeds(&["convert", "--to", "hpctoolkit", "--no-sources", "-o", name, profile], directory.path());
        let found = decoded(&directory.path().join(name));
        assert_eq!(found["metrics"], serde_json::json!(["CPUTIME (sec)"]), "{name}");
        let expected = folded(profile, directory.path());
        let expected: Stacks = expected.into_iter().filter(|(_, value)| *value != 0).collect();
        let stacks = stacks_of(&found, "CPUTIME (sec)");
        let unnamed = |stack: &String| stack.contains("<unknown procedure>");
        if !stacks.keys().any(unnamed) {
            assert_eq!(stacks, expected, "{name}");
        }
        assert_eq!(stacks.values().sum::<i64>(), expected.values().sum::<i64>(), "{name}");
        let checked = succeeds(&["hpctoolkit", "check", name], directory.path());
        assert!(checked.ends_with("no rule is violated\n") && checked.lines().count() == 1, "{checked}");
        // And back.
        let again = folded(name, directory.path());
        assert_eq!(again.values().sum::<i64>(), expected.values().sum::<i64>(), "{name}");
        assert_eq!(again, stacks, "{name}");
    }
    let inlined = decoded(&directory.path().join("inlining"));
    assert!(inlined["contexts"]["inlined function"].as_u64().is_some_and(|count| count > 0), "{inlined}");
}

/// Seconds of each thread, by rank and number of the thread.
fn threads_of(decoded: &Value) -> BTreeMap<(u64, u64), i64> {
    let threads = decoded["threads"].as_array().expect("a list").iter();
    let thread = |thread: &Value| {
        let id = |kind: &str| thread["identifiers"][kind].as_u64().expect("an identifier");
        let seconds = thread["stacks"]["CPUTIME (sec)"].as_object().into_iter().flatten();
        let nanos = seconds.map(|(_, seconds)| (seconds.as_f64().expect("a number") * 1e9).round() as i64);
        ((id("RANK"), id("THREAD")), nanos.sum())
    };
    threads.map(thread).collect()
}

fn nanos_of(profile: &Profile, thread: i64) -> i64 {
    let is_it = |labels: &[sigprof_analysis::profile::Label]| {
        labels.iter().any(|label| {
            *label.key == *label::THREAD_ID && label.value == LabelValue::Number(thread, "".into())
        })
    };
    let samples = profile.samples.iter().filter(|sample| is_it(profile.labels(sample.labels)));
    samples.map(|sample| sample.values[profile.default_type]).sum()
}

/// Four processes as ranks, recorded at the same time.
#[test]
fn a_recording_of_ranks_keeps_the_time_of_each_thread() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("work.py");
    fs::write(&program, include_str!("../programs/work.py")).unwrap();
    let mut recorders = Vec::new();
    for rank in 0..4 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
        command.args(["record", "--quiet", "-o", &format!("prof.rank{rank}.pb.gz"), "--", "python3"]);
        command.arg(&program).current_dir(directory.path());
        command.env("SIGPROF_LIBRARY", crate::built::Libraries::find_or_build().shared);
        recorders.push(command.spawn().expect("the command starts"));
    }
    let profiles: Vec<String> = (0..4).map(|rank| format!("prof.rank{rank}.pb.gz")).collect();
    for mut recorder in recorders {
        assert!(recorder.wait().expect("it ends").success());
    }
    let mut arguments = vec!["convert", "--to", "hpctoolkit", "-o", "database"];
    arguments.extend(profiles.iter().map(String::as_str));
    succeeds(&arguments, directory.path());
    let found = threads_of(&decoded(&directory.path().join("database")));
    for (rank, name) in profiles.iter().enumerate() {
        let profile = read_file(&directory.path().join(name)).unwrap();
        let mut ids: Vec<i64> = profile
            .label_sets
            .iter()
            .flatten()
            .filter_map(|one| match one.value {
                LabelValue::Number(id, _) if *one.key == *label::THREAD_ID => Some(id),
                _ => None,
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let expected: Vec<i64> =
            ids.iter().map(|&id| nanos_of(&profile, id)).filter(|&nanos| nanos > 0).collect();
        let of_rank = found.range((rank as u64, 0)..(rank as u64 + 1, 0));
        assert_eq!(of_rank.map(|(_, &nanos)| nanos).collect::<Vec<_>>(), expected, "{name}");
        assert!(!expected.is_empty(), "{name}");
    }
    let top = succeeds(&["top", "database"], directory.path());
    assert!(top.contains("Type: cpu"), "{top}");
}

#[test]
fn ranks_come_from_the_option_then_file_names() {
    let directory = tempfile::tempdir().unwrap();
    let source = data("recursion.pb.gz");
    for name in ["run-rank_7.pb.gz", "run-rank_3.pb.gz"] {
        fs::copy(&source, directory.path().join(name)).unwrap();
    }
    let ranks = |options: &[&str], target: &str| {
        let profiles = ["run-rank_7.pb.gz", "run-rank_3.pb.gz"];
        let all = [&["convert", "--to", "hpctoolkit", "-o", target], options, &profiles].concat();
        succeeds(&all, directory.path());
        threads_of(&decoded(&directory.path().join(target)))
            .into_keys()
            .map(|(rank, _)| rank)
            .collect::<Vec<_>>()
    };
    assert_eq!(ranks(&[], "by-name"), [3, 7]);
    assert_eq!(ranks(&["--rank", "40"], "by-option"), [40, 41]);
}

#[test]
fn processes_without_a_rank_have_one_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let threads = [(10, 10, 0, "main", 1), (10, 11, 0, "main", 2), (20, 20, 0, "main", 4)];
    write_profile(&directory.path().join("two.pb.gz"), &threads);
    fs::copy(directory.path().join("two.pb.gz"), directory.path().join("two.rank-1.pb.gz")).unwrap();
    // Milliseconds of each thread, by rank.
    let ranks = |target: &str, profiles: &[&str]| {
        let all = [&["convert", "--to", "hpctoolkit", "-o", target], profiles].concat();
        succeeds(&all, directory.path());
        let found = threads_of(&decoded(&directory.path().join(target)));
        found.into_iter().map(|((rank, _), nanos)| (rank, nanos / 1_000_000)).collect::<Vec<_>>()
    };
    // Also if another file has the same process ID.
    let expected = [(0, 1), (0, 2), (1, 4), (2, 1), (2, 2), (3, 4)];
    assert_eq!(ranks("free", &["two.pb.gz", "two.pb.gz"]), expected);
    let expected = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 4), (2, 4)];
    assert_eq!(ranks("by-name", &["two.pb.gz", "two.rank-1.pb.gz"]), expected);
    // A later sample has the first rank as its label.
    succeeds(&["convert", "--to", "pprof", "-o", "both.pb.gz", "two.pb.gz", "by-name"], directory.path());
    let expected = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 4), (2, 4), (3, 1), (3, 2), (4, 4)];
    assert_eq!(ranks("by-label", &["both.pb.gz"]), expected);
}

#[test]
fn sources_are_copied() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("over").join("work.c");
    fs::create_dir(source.parent().unwrap()).unwrap();
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let stacks = format!("main ({}:1);leaf (/gone/away.c:2) 10\n", source.display());
    // `perf script` and folded stacks have no files, pprof's format has.
    fs::write(directory.path().join("one.folded"), stacks).unwrap();
    let profile = {
        let mut profile = read_file(&directory.path().join("one.folded")).unwrap();
        for (function, path) in profile.functions.iter_mut().zip([source.to_str().unwrap(), "/gone/away.c"]) {
            function.file = path.into();
        }
        profile
    };
    let mut written = Vec::new();
    sigprof_analysis::formats::pprof::write(&profile, &mut written).unwrap();
    fs::write(directory.path().join("one.pb.gz"), written).unwrap();
    succeeds(&["convert", "--to", "hpctoolkit", "-o", "with", "one.pb.gz"], directory.path());
    succeeds(
        &["convert", "--to", "hpctoolkit", "--no-sources", "-o", "without", "one.pb.gz"],
        directory.path(),
    );
    let copies = |name: &str| decoded(&directory.path().join(name))["copies"].clone();
    assert_eq!(copies("with"), serde_json::json!([format!("src{}", source.display())]));
    assert_eq!(copies("without"), serde_json::json!([]));
    // The path is the original one when it is read again.
    let profile = read_file(&directory.path().join("with")).unwrap();
    assert!(profile.functions.iter().any(|function| Path::new(&*function.file) == source));
}

#[test]
fn existing_directories_are_replaced_only_if_they_are_databases() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let profile = data("recursion.pb.gz");
    let convert = |options: &[&'static str]| {
        let mut arguments = vec!["convert", "--to", "hpctoolkit"];
        arguments.extend(options);
        arguments.push(profile.to_str().unwrap());
        arguments.iter().map(|argument| argument.to_string()).collect::<Vec<_>>()
    };
    let run = |options: &[&'static str]| {
        let arguments = convert(options);
        sigprof(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), path)
    };
    let is_refused = |options: &[&'static str], reason: &str| {
        let output = run(options);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {message}");
        assert!(message.contains(reason), "{options:?}: {message}");
    };
    assert!(run(&["-o", "database"]).status.success());
    is_refused(&["-o", "database"], "database: the directory exists; replace it with `--force`");
    fs::write(path.join("database/mine"), "").unwrap();
    assert!(run(&["-o", "database", "--force"]).status.success());
    assert!(!path.join("database/mine").exists());

    fs::create_dir(path.join("other")).unwrap();
    fs::write(path.join("other/mine"), "").unwrap();
    is_refused(&["-o", "other", "--force"], "has other contents");
    fs::write(path.join("file"), "").unwrap();
    is_refused(&["-o", "file", "--force"], "is not a directory");
    is_refused(&[], "a database is a directory; name it with `-o DIR`");
    is_refused(&["-o", "absent/database"], "absent/database: cannot write the database: No such file");
    let refused = fails(&["convert", "--to", "folded", "--rank", "3", profile.to_str().unwrap()], path);
    assert!(refused.contains("--rank: only databases have it"), "{refused}");
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let hidden: Vec<_> = names.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
    assert!(hidden.is_empty(), "temporary directories: {hidden:?}");
}

/// As on a full disk.
#[test]
fn a_failed_write_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1; trap '' XFSZ; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_sigprof")]);
    shell.args(["convert", "--to", "hpctoolkit", "-o", "database"]).arg(data("containers.pb.gz"));
    let output = shell.current_dir(directory.path()).output().expect("sh starts");
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "something is left");
}

#[test]
fn check_prints_each_violation() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["meta.db", "profile.db", "cct.db", "trace.db"] {
        fs::copy(data("hpctoolkit-ping-pong").join(name), copy.join(name)).unwrap();
    }
    let mut contexts = fs::read(copy.join("cct.db")).unwrap();
    let last = contexts.len() - 1;
    contexts[last] = b'x';
    fs::write(copy.join("cct.db"), contexts).unwrap();
    let output = sigprof(&["hpctoolkit", "check", "copy"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    let offset = last - 7;
    assert!(
        printed.contains(&format!("cct.db: at offset {offset:#x}: the file does not end with __ctx.db")),
        "{printed}"
    );
    assert!(printed.ends_with("1 violation\n"), "{printed}");
    fs::remove_file(copy.join("profile.db")).unwrap();
    let message = fails(&["hpctoolkit", "check", "copy"], directory.path());
    assert!(message.contains("copy/profile.db: cannot read the database: No such file"), "{message}");
    let message = fails(&["top", "copy"], directory.path());
    assert!(message.contains("copy/profile.db: cannot read the database: No such file"), "{message}");
}

/// Writes a profile of samples: process and thread ID, end time in nanoseconds (0 for none), stack
/// from the outermost frame, and milliseconds.
fn write_profile(path: &Path, samples: &[(i64, i64, i64, &str, i64)]) {
    let mut builder = Builder::new(Profile::cpu_types());
    let mut locations: BTreeMap<String, LocationId> = BTreeMap::new();
    for &(process, thread, end, stack, millis) in samples {
        let mut chain: Vec<LocationId> = Vec::new();
        for name in stack.split(';') {
            let id = *locations.entry(name.to_owned()).or_insert_with_key(|name| {
                let name = builder.string(name);
                let file = builder.string("/work/a.c");
                let function = Function { system_name: name.clone(), name, file, start_line: 1 };
                let function = builder.function(function);
                let id = builder.location(None, 0x1000 + builder.profile.locations.len() as u64);
                let line = Line { function, line: 7, column: 0 };
                builder.profile.locations[id.index()].lines.push(line);
                id
            });
            chain.insert(0, id);
        }
        let number =
            |key: &str, value: i64| Label { key: key.into(), value: LabelValue::Number(value, "".into()) };
        let mut labels = vec![number(label::PROCESS_ID, process), number(label::THREAD_ID, thread)];
        labels.extend((end != 0).then(|| number("end_timestamp_ns", end)));
        let labels = builder.label_set(&labels);
        builder.profile.samples.push(&chain, &[1, millis * 1_000_000], labels);
    }
    let mut bytes = Vec::new();
    pprof::write(&builder.finish(), &mut bytes).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn samples_with_times_become_traces() {
    let directory = tempfile::tempdir().unwrap();
    let ms = 1_000_000;
    write_profile(
        &directory.path().join("timed.pb.gz"),
        &[
            (10, 11, 1010 * ms, "main;work", 10),
            (10, 10, 1010 * ms, "main;work", 10),
            (10, 10, 1020 * ms, "main;work", 10),
            (10, 10, 1030 * ms, "main;wait", 10),
            // After a gap.
            (10, 10, 2000 * ms, "main;wait", 10),
            (10, 12, 0, "main;wait", 10),
        ],
    );
    succeeds(&["convert", "--to", "hpctoolkit", "-o", "database", "timed.pb.gz"], directory.path());
    let found = decoded(&directory.path().join("database"));
    let traces: Vec<&Value> =
        found["threads"].as_array().unwrap().iter().map(|thread| &thread["trace"]).collect();
    let expected = serde_json::json!([
        [
            [1000 * ms, "main;work"],
            [1020 * ms, "main;wait"],
            [1030 * ms, ""],
            [1990 * ms, "main;wait"],
            [2000 * ms, ""]
        ],
        [[1000 * ms, "main;work"], [1010 * ms, ""]],
        [],
    ]);
    assert_eq!(serde_json::json!(traces), expected);
    let checked = succeeds(&["hpctoolkit", "check", "database"], directory.path());
    assert!(checked.ends_with(", 2 traces: no rule is violated\n"), "{checked}");
    let profile = read_file(&directory.path().join("database")).unwrap();
    assert_eq!((profile.time_nanos, profile.duration_nanos), (1000 * ms, 1000 * ms));
    // Samples without times have no trace.
    let other = data("recursion.pb.gz");
    succeeds(&["convert", "--to", "hpctoolkit", "-o", "other", other.to_str().unwrap()], directory.path());
    assert!(!directory.path().join("other/trace.db").exists());
}

#[test]
fn names_outside_of_ascii_are_kept_or_escaped() {
    let directory = tempfile::tempdir().unwrap();
    write_profile(&directory.path().join("names.pb.gz"), &[(1, 1, 0, "main;größe::<é>", 10)]);
    let convert = |target: &str, options: &[&str]| {
        let all = [&["convert", "--to", "hpctoolkit", "-o", target, "names.pb.gz"], options].concat();
        succeeds(&all, directory.path());
        stacks_of(&decoded(&directory.path().join(target)), "CPUTIME (sec)").into_keys().collect::<Vec<_>>()
    };
    assert_eq!(convert("kept", &[]), ["main;größe::<é>"]);
    assert_eq!(convert("ascii", &["--ascii"]), [r"main;gr\u{f6}\u{df}e::<\u{e9}>"]);
}

/// Seconds by function in `sigprof top`: inclusive and exclusive.
fn top_of(arguments: &[&str], directory: &Path) -> BTreeMap<String, [f64; 2]> {
    let all = [&["top", "--nodecount=0", "--nodefraction=0", "--unit=ms"], arguments].concat();
    let text = succeeds(&all, directory);
    let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let seconds = |field: &str| field.trim_end_matches("ms").parse::<f64>().expect(field) / 1e3;
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields[5..].join(" "), [seconds(fields[3]), seconds(fields[0])])
    };
    rows.map(row).collect()
}

fn times_in(found: &Value) -> BTreeMap<String, [f64; 2]> {
    let functions = found.as_object().expect("functions by name").iter();
    functions
        .map(|(name, times)| (name.clone(), serde_json::from_value(times.clone()).expect("two numbers")))
        .collect()
}

#[track_caller]
fn assert_equal_times(found: &BTreeMap<String, [f64; 2]>, expected: &BTreeMap<String, [f64; 2]>) {
    assert!(found.keys().eq(expected.keys()), "{found:?} is not {expected:?}");
    for (name, times) in found {
        let is_equal =
            times.iter().zip(expected[name]).all(|(time, expected)| (time - expected).abs() < 1e-9);
        assert!(is_equal, "{name}: {found:?} is not {expected:?}");
    }
}

/// Hatchet, in its mode for the summary and in the one for threads, finds the times of `sigprof top`.
#[test]
fn hatchet_finds_the_times_of_top() {
    let Some(python) = std::env::var_os("SIGPROF_TEST_HATCHET").filter(|path| !path.is_empty()) else {
        return skip(
            Lack::Tool,
            "SIGPROF_TEST_HATCHET is not set; ci/hatchet.sh installs Hatchet, and prints its value",
        );
    };
    let directory = tempfile::tempdir().unwrap();
    let hatchet = |database: &str| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hatchet_reader.py");
        let mut command = Command::new(&python);
        command.arg(script).arg(database).current_dir(directory.path());
        // Fonts and settings of its libraries.
        command.env("MPLCONFIGDIR", directory.path().join("settings"));
        let output = command.output().expect("Python starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("it is JSON")
    };
    // Each thread has each stack: otherwise its search for a thread's values fails.
    let mut samples = Vec::new();
    for (number, (process, thread)) in (1..).zip([(10, 10), (10, 11), (20, 20), (20, 21)]) {
        samples.push((process, thread, 0, "main;work;leaf", 10 * number));
        samples.push((process, thread, 0, "main;work;again;again;leaf", 7 * number));
        samples.push((process, thread, 0, "main;wait", 100 + number));
        samples.push((process, thread, 0, "main", 3));
    }
    write_profile(&directory.path().join("four.pb.gz"), &samples);
    let convert = ["convert", "--to", "hpctoolkit", "--one-entry-point", "-o", "database", "four.pb.gz"];
    succeeds(&convert, directory.path());
    let found = hatchet("database");
    let expected = top_of(&["four.pb.gz"], directory.path());
    assert_equal_times(&times_in(&found["functions"]), &expected);
    assert_eq!(expected["main"][0], 0.592);
    assert!((found["total"].as_f64().unwrap() - 0.592).abs() < 1e-9, "{found}");
    let profiles = found["profiles"].as_object().unwrap_or_else(|| panic!("{}", found["error"]));
    assert_eq!(profiles.len(), 4);
    for (profile, thread) in ["1", "2", "3", "4"].into_iter().zip(["10", "11", "20", "21"]) {
        let expected = top_of(&["--tid", thread, "four.pb.gz"], directory.path());
        assert_equal_times(&times_in(&profiles[profile]), &expected);
    }

    let recorded = data("recursion.pb.gz");
    let recorded = recorded.to_str().unwrap();
    succeeds(&["convert", "--to", "hpctoolkit", "-o", "recorded", recorded], directory.path());
    let expected = top_of(&[recorded], directory.path());
    assert_equal_times(&times_in(&hatchet("recorded")["functions"]), &expected);
}
