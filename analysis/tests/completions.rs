//! The completions as bash has them; it calls them as it does behind a tab. Needs bash.

use std::process::Command;

/// What bash is given for a line, of which the last word is completed.
fn completed(directory: &std::path::Path, line: &[&str]) -> Vec<String> {
    let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "compopt() {{ :; }}
        source ./completions
        COMP_WORDS=(sigprof {words})
        COMP_CWORD={last}
        function=$(complete -p sigprof); function=${{function#*-F }}; function=${{function%% *}}
        $function sigprof \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"
        printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words = words.join(" "),
        last = line.len(),
    );
    let mut command = Command::new("bash");
    let output = command.args(["--norc", "-c", &script]).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| panic!("bash: {error}; install Debian's bash"));
    assert!(output.status.success() && output.stderr.is_empty(), "{line:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("is text");
    text.lines().filter(|line| !line.is_empty()).map(Into::into).collect()
}

#[test]
fn bash_completes_what_comes_next() {
    let directory = tempfile::tempdir().expect("made");
    let script = Command::new(env!("CARGO_BIN_EXE_sigprof")).args(["completions", "bash"]).output();
    let script = script.expect("is run").stdout;
    std::fs::write(directory.path().join("completions"), script).expect("written");
    let completed = |line: &[&str]| completed(directory.path(), line);

    let commands = completed(&[""]);
    assert!(commands.contains(&"record".into()) && commands.contains(&"top".into()), "{commands:?}");
    assert!(commands.iter().all(|one| !one.starts_with('-')), "{commands:?}");
    assert_eq!(completed(&["fl"]), ["flamegraph"]);
    assert_eq!(completed(&["top", "--gr"]), ["--granularity"]);
    let granularities = ["addresses", "lines", "functions", "files", "filefunctions"];
    assert_eq!(completed(&["top", "--granularity", ""]), granularities);
    // `=` is a word for bash.
    assert_eq!(completed(&["top", "--granularity", "="]), granularities);
    assert_eq!(completed(&["top", "--granularity", "=", "l"]), ["lines"]);
    assert_eq!(completed(&["convert", "--to", "sp"]), ["speedscope"]);
    assert!(completed(&["completions", ""]).contains(&"fish".into()));
    assert_eq!(completed(&["top", "--base", ""]), ["completions"]);

    // Where nothing is given bash completes names of files.
    for line in [&["top", ""][..], &["top", "c"], &["top", "cpu.prof", ""], &["record", "--", "ls", ""]] {
        assert_eq!(completed(line), [""; 0], "{line:?}");
    }
    for line in [
        &["record", "ls", "-"][..],
        &["record", "-F", "100", "ls", "--", "-"],
        &["record", "--clock", "=", "wall", "--", "ls", "-"],
    ] {
        assert_eq!(completed(line), [""; 0], "{line:?}");
    }

    // A command of the shell's own is there without any path.
    for line in [
        &["record", "compge"][..],
        &["record", "--", "compge"],
        &["record", "-q", "-F", "100", "compge"],
        &["record", "--output", "=", "a.pb.gz", "compge"],
    ] {
        assert_eq!(completed(line), ["compgen"], "{line:?}");
    }
    assert_eq!(completed(&["record", "--clo"]), ["--clock"]);
    assert_eq!(completed(&["record", "--clock", "w"]), ["wall"]);
}
