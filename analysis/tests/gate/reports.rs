//! The text of reports, compared with golden files, and errors of wrong requests. `BLESS=1`
//! rewrites the golden files. Needs Debian's graphviz.

mod instructions;

use sigprof_analysis::{
    formats::pprof,
    profile::{
        Builder, Function, Known, Label, LabelSetId, LabelValue, Line, Location, LocationId, Mapping,
        Profile, ValueType, label,
    },
};
use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Returns the command in the tests' directory, without variables that change reports.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
    command.current_dir(tests()).args(arguments);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

fn sigprof(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Returns what the command prints; it must succeed, with an empty stderr.
#[track_caller]
fn report(arguments: &[&str]) -> String {
    let output = sigprof(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns stderr of a command that fails with status 1.
#[track_caller]
fn failure(arguments: &[&str]) -> String {
    let output = sigprof(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Compares with a golden file; its first line is the command that makes it.
#[track_caller]
fn expect_golden(name: &str, arguments: &[&str], text: &str) {
    let path = tests().join("golden").join(name);
    let text = format!("$ sigprof {}\n{text}", arguments.join(" "));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let golden = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 makes it", path.display()));
    assert!(text == golden, "{} has\n{golden}\nand not\n{text}", path.display());
}

#[track_caller]
fn expect_report(name: &str, arguments: &[&str]) {
    expect_golden(name, arguments, &report(arguments));
}

#[test]
fn top_shows_the_functions_that_take_most() {
    expect_report("top", &["top", "data/recursion.pb.gz"]);
    expect_report(
        "top_lines",
        &["top", "--cum", "-n", "6", "--granularity", "lines", "data/recursion.pb.gz"],
    );
    expect_report("top_filtered", &["top", "--focus", "fillMap", "--hide", "^runtime", "data/labels.pb.gz"]);
    expect_report("top_files", &["top", "--unit", "ms", "--granularity", "files", "data/containers.pb.gz"]);
}

#[test]
fn tree_and_peek_show_callers_and_callees() {
    expect_report("tree", &["tree", "data/recursion.pb.gz"]);
    expect_report("peek", &["peek", "partition", "data/labels.pb.gz"]);
}

#[test]
fn traces_show_labels_and_chains() {
    expect_report("traces", &["traces", "--focus", "insertionSort", "data/labels.pb.gz"]);
}

#[test]
fn callgraph_is_a_tree_or_a_graph() {
    expect_report("callgraph", &["callgraph", "data/recursion.pb.gz"]);
    expect_report("callgraph_cut", &["callgraph", "-n", "12", "--nodefraction", "0.05", "data/labels.pb.gz"]);
    expect_report("callgraph.dot", &["callgraph", "--format", "dot", "-n", "12", "data/labels.pb.gz"]);
}

#[test]
fn a_comparison_has_both_sides_and_their_noise() {
    let files = ["data/old.folded", "data/new.folded"];
    expect_report("diff", &["diff", files[0], files[1]]);
    let arguments = ["diff", "--significant", "--cum", "--normalize", files[0], files[1]];
    expect_report("diff_significant", &arguments);
    // More is red, less is blue, and noise is dim.
    let colours = report(&["diff", "--color", "always", files[0], files[1]]);
    let style = |name: &str| {
        let line = colours.lines().find(|line| line.contains(name)).expect(name);
        line[..line.find(' ').unwrap()].to_owned()
    };
    assert_eq!(
        ["read", "gone", "draw"].map(style),
        ["\u{1b}[1m\u{1b}[31m", "\u{1b}[1m\u{1b}[94m", "\u{1b}[2m"]
    );
    // Other reports have the same shares, and pprof's mark of differences is read.
    let tree = report(&["peek", "^read$", "--diff-base", files[0], files[1]]);
    assert!(tree.contains("50  25.77%  25.77%         50  25.77%                | read"), "{tree}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("diff.pb.gz");
    let path = path.to_str().unwrap();
    report(&["convert", "--to", "pprof", "-o", path, "--diff-base", files[0], files[1]]);
    assert_eq!(report(&["top", path]), report(&["diff", files[0], files[1]]));
    let error = failure(&["top", "--normalize", files[0]]);
    assert!(
        error.contains(
            "--normalize: the profile is not a comparison, or one side is empty; use it with --diff-base"
        ),
        "{error}"
    );
}

#[test]
fn list_shows_source_lines() {
    expect_report("list", &["list", "recurse|odd", "--source-path", "programs", "data/recursion.pb.gz"]);
    expect_report("list_without_source", &["list", "^leaf", "--trim-path", "/src", "data/recursion.pb.gz"]);
}

#[test]
fn raw_shows_the_whole_profile() {
    expect_report("raw", &["raw", "--focus", "odd", "data/recursion.pb.gz"]);
}

/// Returns a profile of samples: a chain of functions, innermost first; milliseconds; and labels.
fn profile(samples: &[(&[&str], i64, Vec<Label>)]) -> Profile {
    let mut builder =
        Builder::new(vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")]);
    let mut known: Vec<(String, LocationId)> = Vec::new();
    for (chain, millis, labels) in samples {
        let chain: Vec<LocationId> = chain
            .iter()
            .map(|&name| {
                if let Some((_, id)) = known.iter().find(|(known, _)| known == name) {
                    return *id;
                }
                let text: std::sync::Arc<str> = name.into();
                let function = builder.function(Function {
                    name: text.clone(),
                    system_name: text,
                    file: "a.c".into(),
                    start_line: 0,
                });
                let lines = vec![Line { function, line: 1, column: 0 }];
                builder.profile.locations.push(Location { lines, ..Location::default() });
                let id = LocationId::at(builder.profile.locations.len() - 1);
                known.push(((*name).to_owned(), id));
                id
            })
            .collect();
        let labels = builder.label_set(labels);
        builder.profile.samples.push(&chain, &[millis.signum(), millis * 1_000_000], labels);
    }
    builder.finish()
}

/// Saves the profile in a directory that exists until the guard is dropped.
fn saved(profile: &Profile) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cpu.pb.gz");
    pprof::write(profile, File::create(&path).unwrap()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

fn thread(name: &str, id: i64) -> Vec<Label> {
    vec![
        Label { key: label::THREAD.into(), value: LabelValue::Text(name.into()) },
        Label { key: label::THREAD_ID.into(), value: LabelValue::Number(id, "".into()) },
        Label { key: label::PROCESS.into(), value: LabelValue::Text("prog".into()) },
        Label { key: label::PROCESS_ID.into(), value: LabelValue::Number(id / 10, "".into()) },
    ]
}

/// Less time than in the base.
#[test]
fn values_below_zero_are_shown_in_all_reports() {
    let difference = profile(&[
        (&["faster", "main"], -250, vec![]),
        (&["slower", "main"], 150, vec![]),
        (&["slower", "faster", "main"], -40, vec![]),
        (&["same", "main"], 0, vec![]),
        (&[], -10, vec![]),
    ]);
    let (_directory, path) = saved(&difference);
    for (name, arguments) in [
        ("negative_top", &["top"][..]),
        ("negative_top_dropped", &["top", "--drop-negative"]),
        ("negative_tree", &["tree"]),
        ("negative_traces", &["traces"]),
        ("negative_callgraph", &["callgraph"]),
        ("negative.dot", &["callgraph", "--format", "dot"]),
        ("negative_list", &["list", "faster"]),
    ] {
        let text = report(&[arguments, &[&path]].concat());
        expect_golden(name, &[arguments, &["FILE"]].concat(), &text);
    }
}

#[test]
fn filters_by_thread_and_process_if_the_profile_has_them() {
    let (_directory, path) = saved(&profile(&[
        (&["a", "main"], 30, thread("worker-1", 101)),
        (&["b", "main"], 20, thread("worker-2", 202)),
        (&["c", "main"], 10, thread("io", 303)),
    ]));
    let names = |option: &str| {
        let text = report(&["top", option, "--hide", "main", &path]);
        let names: Vec<String> = text
            .lines()
            .filter(|line| !line.ends_with("cum%"))
            .filter_map(|line| line.rsplit_once("%  "))
            .map(|(_, name)| name.to_owned())
            .collect();
        names
    };
    assert_eq!(names("--thread=^worker"), ["a", "b"]);
    assert_eq!(names("--tid=303"), ["c"]);
    assert_eq!(names("--process=prog"), ["a", "b", "c"]);
    assert_eq!(names("--pid=20"), ["b"]);

    let nobody = sigprof(&["top", "--thread", "nobody", &path]);
    assert!(nobody.status.success());
    assert_eq!(
        String::from_utf8_lossy(&nobody.stderr),
        "sigprof: --thread matches nothing in this profile\n"
    );

    for option in ["--thread=x", "--tid=1", "--process=x", "--pid=1"] {
        let error = failure(&["top", option, "data/recursion.pb.gz"]);
        let name = option.split('=').next().unwrap();
        assert!(error.starts_with(&format!("sigprof: {name}: samples of this profile have no ")), "{error}");
        assert!(error.contains("`sigprof record`"), "{error}");
    }
}

#[test]
fn reports_what_is_wrong_with_a_request_and_what_to_do() {
    for (arguments, expected) in [
        (
            &["top", "--focus", "a("][..],
            "--focus: invalid regular expression `a(`: unclosed group; to match characters",
        ),
        (&["top", "--tagfocus", "a,("], "--tagfocus: invalid regular expression `(`"),
        (&["peek", "["], "REGEX: invalid regular expression `[`"),
        (
            &["peek", "nonesuch"],
            "no function in the profile matches `nonesuch`; `sigprof top --nodefraction 0`",
        ),
        (&["list", "nonesuch"], "no function in the profile matches `nonesuch`"),
        (&["disasm", "nonesuch"], "no function in the profile matches `nonesuch`"),
        (&["top", "--unit", "furlong"], "unknown unit `furlong`; the units are auto, ns"),
        (&["top", "--unit", "count"], "values of type cpu are in nanoseconds, not a count"),
        (
            &["top", "--sample-type", "heap"],
            "--sample-type: the profile has no sample type `heap`; it has samples, cpu",
        ),
        (&["list", "leaf", "--granularity", "files"], "--granularity: this report has only one kind of rows"),
    ] {
        let error = failure(&[arguments, &["data/recursion.pb.gz"]].concat());
        assert!(error.starts_with(&format!("sigprof: {expected}")), "{arguments:?}: {error}");
    }
    for (wrong, named) in [
        (&["top", "--granularity", "atoms", "x"][..], "--granularity <WHAT>"),
        (&["top", "--tid", "me", "x"], "--tid <ID>"),
        (&["flamegraph", "--width", "199", "x"], "--width <PIXELS>': must be between 200 and 100000"),
        (&["flamegraph", "--width", "wide", "x"], "--width <PIXELS>': must be between 200 and 100000"),
    ] {
        let output = sigprof(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(named), "{wrong:?}: {output:?}");
    }
}

#[test]
fn filters_that_match_nothing_are_named() {
    let output = sigprof(&["top", "--focus", "nonesuch", "--hide", "nonesuch", "data/recursion.pb.gz"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("--focus matches nothing") && errors.contains("--hide matches nothing"),
        "{errors}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Showing nodes accounting for 0, 0% of "), "{text}");
}

#[test]
fn reports_are_coloured_only_on_terminals() {
    let text = |arguments: &[&str], variable: &str| {
        let output =
            command(&[arguments, &["data/recursion.pb.gz"]].concat()).env(variable, "1").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let is_coloured = |text: String| text.contains('\x1b');
    assert!(!is_coloured(text(&["top"], "UNRELATED")));
    assert!(is_coloured(text(&["top"], "CLICOLOR_FORCE")));
    assert!(!is_coloured(text(&["top"], "NO_COLOR")));
    for report in [&["top"][..], &["tree"], &["callgraph"], &["list", "leaf"]] {
        assert!(is_coloured(text(&[report, &["--color=always"]].concat(), "NO_COLOR")), "{report:?}");
        assert!(!is_coloured(text(&[report, &["--color=never"]].concat(), "CLICOLOR_FORCE")), "{report:?}");
    }
}

#[test]
fn long_names_are_complete_in_a_pipe() {
    let name = "a_name".repeat(100);
    let (_directory, path) = saved(&profile(&[(&[&name, "main"], 1, vec![])]));
    for arguments in [&["top"][..], &["tree"], &["traces"], &["callgraph"], &["peek", "main"]] {
        assert!(report(&[arguments, &[&path]].concat()).contains(&name), "{arguments:?}");
    }
}

/// As `head` does: it reads a line and exits.
#[test]
fn a_reader_that_closes_the_pipe_early_is_not_an_error() {
    let chain: Vec<String> = (0..200).map(|depth| format!("function_{depth}")).collect();
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    let samples: Vec<_> = (0..200).map(|_| (&chain[..], 1, vec![])).collect();
    let (_directory, path) = saved(&profile(&samples));
    for arguments in [&["traces"][..], &["raw"]] {
        let mut command = command(&[arguments, &[&path]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let error = failure(&["callgraph", "-o", "/nonesuch/calls", "data/recursion.pb.gz"]);
    assert!(
        error.starts_with("sigprof: /nonesuch/calls: cannot write: No such file or directory"),
        "{error}"
    );
    let full = command(&["top", "data/recursion.pb.gz"])
        .stdout(File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(1), "{full:?}");
    let error = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(error.starts_with("sigprof: standard output: cannot write: No space left"), "{error}");
}

#[test]
fn graphviz_draws_the_graph_if_it_is_installed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.svg");
    let arguments = ["callgraph", "--format", "svg", "-o", path.to_str().unwrap(), "data/labels.pb.gz"];
    assert_eq!(report(&arguments), "", "is Debian's graphviz installed?");
    let picture = fs::read_to_string(&path).unwrap();
    assert!(picture.contains("<svg") && picture.contains("sort.partition"), "{picture}");

    let output = command(&["callgraph", "--format", "svg", "data/labels.pb.gz"])
        .env("PATH", "/nonesuch")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("sigprof: cannot run `dot`") && error.contains("package graphviz"), "{error}");
}
