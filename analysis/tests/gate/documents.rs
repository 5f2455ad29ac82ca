//! The documents, compared with the command.

use crate::{
    built::Libraries,
    skip::{Lack, skip},
};
use regex::Regex;
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_table_of_variables_matches_the_library() {
    let output = Command::new(env!("CARGO_BIN_EXE_sigprof"))
        .args(["environment", "--markdown"])
        .output()
        .expect("the command starts");
    let tables = String::from_utf8(output.stdout).expect("is text");
    let document = document("docs/reference/environment.md");
    let mut count = 0;
    for table in tables.split("\n\n").map(str::trim).filter(|table| !table.is_empty()) {
        assert!(document.contains(table), "docs/reference/environment.md should have these lines:\n{table}");
        count += 1;
    }
    assert_eq!(count, 2);
}

/// README has the most important variables, with other descriptions.
#[test]
fn readme_names_variables_that_exist() {
    let known = document("docs/reference/environment.md");
    let readme = document("README.md");
    let names: Vec<&str> =
        readme.split('`').filter(|word| word.starts_with("CPUPROFILE") && !word.contains('=')).collect();
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        assert!(known.contains(&format!("| `{name}` |")), "{name}");
    }
}

/// A command in a document, and the output below it.
struct Shown {
    line: usize,
    command: String,
    /// `None` if the document does not show it.
    output: Option<Vec<String>>,
}

/// Returns the commands that begin with `sigprof`: after prompts in text blocks, in shell blocks,
/// and in sentences. Those with placeholders in capitals are left out.
fn commands(document: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut block = None;
    for (number, line) in document.lines().enumerate() {
        let mut add = |command: &str, output| {
            commands.push(Shown { line: number + 1, command: command.trim().to_owned(), output });
        };
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (Some("text"), None) => match line.strip_prefix("$ ") {
                Some(command) => add(command, Some(Vec::new())),
                None => {
                    let last = commands.last_mut().and_then(|shown| shown.output.as_mut());
                    last.into_iter().for_each(|output| output.push(line.to_owned()));
                }
            },
            (Some("sh"), None) if line.starts_with("sigprof ") => add(line, None),
            (Some(_), None) => {}
            (None, None) => {
                let inline = line.split('`').skip(1).step_by(2);
                // `sigprof top` is only the name of a command.
                let is_line = |text: &&str| text.starts_with("sigprof ") && text.split(' ').count() > 2;
                inline.filter(is_line).for_each(|text| add(text, None));
            }
        }
    }
    let is_placeholder = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    commands.retain(|shown| !shown.command.split(' ').any(is_placeholder));
    commands
}

/// Returns the constant part of a line: the kind of row, or the text without numbers.
fn shape(line: &str) -> String {
    let row = Regex::new(r"^ *-?[\d.]+\w* +-?[\d.]+% +-?[\d.]+% +-?[\d.]+\w* +-?[\d.]+% ").unwrap();
    let context = Regex::new(r"^ +-?[\d.]+\w* +-?[\d.]+% \|").unwrap();
    if row.is_match(line) {
        return "a function".into();
    }
    if context.is_match(line) {
        return "a caller or callee".into();
    }
    let number = Regex::new(r"-?\d[\d.]*( ?(ns|us|ms|s|min)\b)?").unwrap();
    let plural = Regex::new(r"\b(sample|process|thread)(es|s)?\b").unwrap();
    let spaces = Regex::new(r" +").unwrap();
    let text = plural.replace_all(line, "$1");
    spaces.replace_all(&number.replace_all(&text, "#"), " ").trim_end().to_owned()
}

/// Returns the shapes of the lines, with equal neighbours merged.
fn shapes<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut shapes: Vec<String> = lines.into_iter().map(|line| shape(line.as_ref())).collect();
    shapes.dedup();
    shapes
}

/// True if `seen` matches the document's lines, in which `...` matches any lines, or none.
fn is_alike(shown: &[String], seen: &[String]) -> bool {
    match (shown, seen) {
        ([], seen) => seen.is_empty(),
        ([first, rest @ ..], seen) if first == "..." => {
            (0..=seen.len()).any(|skipped| is_alike(rest, &seen[skipped..]))
        }
        ([first, rest @ ..], [line, others @ ..]) => {
            // Lines hidden by `...` may be rows of the same kind as those shown.
            first == line && (is_alike(rest, others) || is_alike(rest, seen))
        }
        _ => false,
    }
}

/// Returns the functions of the rows with most of the time, without scopes and arguments.
fn hot(lines: &[String]) -> Vec<String> {
    let row = Regex::new(r"^ *-?\S+ +-?[\d.]+% +-?[\d.]+% +\S+ +-?([\d.]+)% [ |]*(\S.*)$").unwrap();
    let mut names = Vec::new();
    for line in lines {
        let Some((_, [share, name])) = row.captures(line).map(|captures| captures.extract()) else {
            continue;
        };
        let name = name.split('(').next().unwrap_or_default().rsplit("::").next().unwrap_or_default();
        // Far above what a run may miss. Functions without names have other addresses elsewhere.
        if share.parse::<f64>().is_ok_and(|share| share >= 60.0) && !name.starts_with('[') {
            names.push(name.to_owned());
        }
    }
    names
}

/// Creates a directory for a document's commands, with the project's sources but without profiles
/// that a user may have recorded there: the commands write files of the same names.
fn make_project(project: &Path) {
    let repository = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("is there");
    fs::create_dir(project).expect("is made");
    for entry in fs::read_dir(&repository).expect("is readable") {
        let path = entry.expect("is readable").path();
        let is_source =
            path.extension().is_some_and(|ending| ["toml", "lock", "rs"].iter().any(|one| ending == *one));
        if path.is_dir() || is_source {
            symlink(&path, project.join(path.file_name().expect("has a name"))).expect("is made");
        }
    }
    fs::write(project.join("Makefile"), "all:\n\tperl examples/words.pl\n").expect("is written");
}

/// Runs the commands of a document in turn, and compares their output with the document.
fn follow(name: &str) {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    make_project(&path("project"));
    fs::create_dir(path("bin")).expect("is made");
    symlink(env!("CARGO_BIN_EXE_sigprof"), path("bin/sigprof")).expect("is made");
    fs::create_dir(path("spools")).expect("is made");
    let programs = format!("{}:{}", path("bin").display(), std::env::var("PATH").expect("is set"));
    let library = Libraries::find_or_build().shared;
    let mut compared = 0;
    for Shown { line, command, output } in commands(&document(name)) {
        let result = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(path("project"))
            .env("PATH", &programs)
            .env("SIGPROF_LIBRARY", &library)
            // Other tests leave spools in the default directory.
            .env("CPUPROFILE_SPOOL", path("spools"))
            .stdin(Stdio::null())
            .output()
            .expect("sh starts");
        // The clock depends on the kernel's permissions.
        let text = String::from_utf8_lossy(&result.stdout).replace(", clock cpu)", ", clock perf)");
        let text: String =
            text.split_inclusive('\n').filter(|line| !line.starts_with("sigprof: hint: the clock")).collect();
        assert!(result.status.success(), "{name}:{line}: {command}: {}\n{text}", result.status);
        let Some(output) = output else { continue };
        let (shown, seen) = (shapes(&output), shapes(text.lines()));
        assert!(is_alike(&shown, &seen), "{name}:{line}: {command}: {shown:#?}\n{text}");
        for function in hot(&output) {
            assert!(text.contains(&function), "{name}:{line}: {command}: no {function}\n{text}");
            compared += 1;
        }
        compared += output.len();
    }
    assert!(compared > 10, "{name} shows no output");
}

#[test]
fn the_commands_of_readme_print_what_it_shows() {
    follow("README.md");
}

#[test]
fn the_commands_of_the_walk_through_print_what_it_shows() {
    let has = |command: &str| {
        Command::new("sh").args(["-c", command]).output().is_ok_and(|output| output.status.success())
    };
    if !has("hunspell --version && /usr/bin/python3 -c 'import lxml' && cargo fmt --version") {
        skip(Lack::Tool, "no hunspell, lxml or rustfmt: ci/setup.sh, rustup component add rustfmt");
        return;
    }
    follow("docs/walk-through.md");
}

#[test]
fn lines_are_compared_by_their_shape() {
    let lines = |text: &str| shapes(text.lines());
    let shown =
        lines("12 samples in 1.5 s; 1 process\n...\n     1.5s  50% 50.1%    2s 100%  main\n...\ndone");
    let seen = lines("7 samples in 90 ms; 3 processes\nx\n  0     0%     0%      2s  99%  other\ny 2\ndone");
    assert!(is_alike(&shown, &seen), "{shown:?} {seen:?}");
    for (from, to) in [("done", "done!"), (" samples", " ticks"), ("  other", ""), ("7 ", "")] {
        let seen = lines(
            &"7 samples in 90 ms; 3 processes\n  0     0%     0%      2s  99%  other\ndone".replace(from, to),
        );
        assert!(!is_alike(&shown, &seen), "{from}");
    }
    let shown =
        ["     1.5s  50% 50.1%    2s 90.5%  <a::B>::c(int)", "0 0% 0% 1s 59% d", "1s 1% 1% 1s 80% | [x]+0x1"];
    assert_eq!(hot(&shown.map(String::from)), ["c"]);
    let text = "Use `sigprof top`, `sigprof top x` or `sigprof list REGEX`.\n```text\n$ sigprof raw x\nout\n```\n```sh\nsigprof tree\nls\n```\n";
    let found: Vec<_> =
        commands(text).into_iter().map(|shown| (shown.line, shown.command, shown.output)).collect();
    let command = |line, command: &str, output| (line, command.to_owned(), output);
    let expected = [
        command(1, "sigprof top x", None),
        command(3, "sigprof raw x", Some(vec!["out".to_owned()])),
        command(7, "sigprof tree", None),
    ];
    assert_eq!(found, expected);
}
