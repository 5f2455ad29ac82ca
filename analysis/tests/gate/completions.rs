//! Completions in shells: bash, by calls of the completion functions; fish; and zsh, on a terminal.
//! Needs Debian's packages bash, fish and zsh; tests of a missing fish or zsh are skipped.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::skip::{Lack, skip};

fn write_script(shell: &str, path: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_sigprof")).args(["completions", shell]).output();
    fs::write(path, output.expect("is run").stdout).expect("written");
}

/// Whether the shell is installed; otherwise the test is skipped.
fn is_there(shell: &str) -> bool {
    if Command::new(shell).args(["-c", "exit 0"]).output().is_ok() {
        return true;
    }
    skip(Lack::Tool, format_args!("no {shell}: apt-get install {shell}"));
    false
}

/// Returns bash's completions of the last word of a line.
fn completed_by_bash(directory: &Path, line: &[&str]) -> Vec<String> {
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
    write_script("bash", &directory.path().join("completions"));
    let completed = |line: &[&str]| completed_by_bash(directory.path(), line);

    let commands = completed(&[""]);
    assert!(commands.contains(&"record".into()) && commands.contains(&"top".into()), "{commands:?}");
    assert!(commands.iter().all(|one| !one.starts_with('-')), "{commands:?}");
    assert_eq!(completed(&["fl"]), ["flamegraph"]);
    assert_eq!(completed(&["top", "--gr"]), ["--granularity"]);
    let granularities = ["addresses", "lines", "functions", "files", "filefunctions"];
    assert_eq!(completed(&["top", "--granularity", ""]), granularities);
    // bash treats `=` as a word.
    assert_eq!(completed(&["top", "--granularity", "="]), granularities);
    assert_eq!(completed(&["top", "--granularity", "=", "l"]), ["lines"]);
    assert_eq!(completed(&["convert", "--to", "sp"]), ["speedscope"]);
    assert!(completed(&["completions", ""]).contains(&"fish".into()));
    assert_eq!(completed(&["top", "--base", ""]), ["completions"]);

    // If nothing is offered, bash completes names of files.
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

    // A builtin command of the shell has no path.
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

/// Creates a working directory with a few files, and a home directory without configuration.
fn surroundings() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("made");
    for name in ["home", "work/sub"] {
        fs::create_dir_all(directory.path().join(name)).expect("made");
    }
    fs::write(directory.path().join("work/cpu.prof"), "").expect("written");
    directory
}

/// Returns a shell there with the command in its PATH, which fish needs to read completions.
fn shell(name: &str, directory: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_sigprof")).parent().expect("is in a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([program.to_owned()].into_iter().chain(std::env::split_paths(&path)));
    let mut command = Command::new(name);
    command.current_dir(directory.join("work")).env("HOME", directory.join("home")).env("TERM", "dumb");
    command.env("PATH", path.expect("has no colon in it"));
    for variable in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_DATA_DIRS", "ZDOTDIR"] {
        command.env_remove(variable);
    }
    command
}

/// Lines, and completions of their last word: in fish whole words, in zsh the part after `=`.
const LINES: &[(&str, &[&str])] = &[
    ("sigprof re", &["record", "recover", "report"]),
    ("sigprof fl", &["flamegraph"]),
    ("sigprof --v", &["--version"]),
    ("sigprof top --gr", &["--granularity"]),
    ("sigprof top --granularity f", &["files", "filefunctions", "functions"]),
    ("sigprof top --granularity=l", &["lines"]),
    ("sigprof convert --to sp", &["speedscope"]),
    ("sigprof completions f", &["fish"]),
    ("sigprof completions fish ", &[]),
    ("sigprof manual ", &["sub"]),
    ("sigprof top ", &["cpu.prof", "sub"]),
    ("sigprof top cpu.prof c", &["cpu.prof"]),
    ("sigprof top --base ", &["cpu.prof", "sub"]),
    ("sigprof top --base=c", &["cpu.prof"]),
    ("sigprof top --sysroot ", &["sub"]),
    ("sigprof peek sort c", &["cpu.prof"]),
    ("sigprof recover ", &["cpu.prof", "sub"]),
    ("sigprof record --clo", &["--clock"]),
    ("sigprof record --clock w", &["wall"]),
    ("sigprof record --clock=w", &["wall"]),
    ("sigprof record -q -o ", &["cpu.prof", "sub"]),
    // A command, wherever it begins.
    ("sigprof record gunzi", &["gunzip"]),
    ("sigprof record -- gunzi", &["gunzip"]),
    ("sigprof record -q -F 100 gunzi", &["gunzip"]),
    ("sigprof record --output=a.pb.gz gunzi", &["gunzip"]),
    ("sigprof record --output a.pb.gz gunzi", &["gunzip"]),
    // Its arguments: options, even those with names of sigprof's options, and files.
    ("sigprof record gzip --be", &["--best"]),
    ("sigprof record -F 100 -- gzip --be", &["--best"]),
    ("sigprof record -c wall gzip --f", &["--fast", "--force"]),
    ("sigprof record gzip --cloc", &[]),
    ("sigprof record gzip --no-chil", &[]),
    ("sigprof record -- gzip --no-chil", &[]),
    ("sigprof record --frequency 100 gzip --no-chil", &[]),
    ("sigprof record --frequency=100 gzip --no-chil", &[]),
    ("sigprof record ls c", &["cpu.prof"]),
    ("sigprof record -- ls c", &["cpu.prof"]),
];

/// Asserts that a shell offers exactly the completions in [`LINES`].
fn assert_offers(offered: &BTreeMap<String, Vec<String>>) {
    let mut wrong = Vec::new();
    for (line, expected) in LINES {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let offered = offered.get(*line).map(Vec::as_slice).unwrap_or_default();
        if offered != expected {
            wrong.push(format!("{line:?}: {offered:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the distinct completions by line, sorted.
fn by_line(text: &str, last_word: impl Fn(&str) -> String) -> BTreeMap<String, Vec<String>> {
    let mut offered = BTreeMap::<String, Vec<String>>::new();
    let mut line = String::new();
    for one in text.lines() {
        match one.strip_prefix("line:") {
            Some(next) => line = next.into(),
            None => offered.entry(line.clone()).or_default().push(last_word(one)),
        }
    }
    for words in offered.values_mut() {
        words.sort_unstable();
        words.dedup();
    }
    offered
}

#[test]
fn fish_completes_what_comes_next() {
    if !is_there("fish") {
        return;
    }
    let directory = surroundings();
    // The place that the command's help names; fish reads it when the command is first typed.
    let place = directory.path().join("home/.config/fish/completions");
    fs::create_dir_all(&place).expect("made");
    write_script("fish", &place.join("sigprof.fish"));
    let lines: String =
        LINES.iter().map(|(line, _)| format!("echo 'line:{line}'\ncomplete -C '{line}'\n")).collect();
    let output = shell("fish", directory.path()).args(["-c", &lines]).output().expect("is run");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("is text");
    // A word, a tab, and its description.
    assert_offers(&by_line(&text, |one| {
        let word = one.split('\t').next().unwrap_or_default().trim_end_matches('/');
        match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => value.into(),
            _ => word.into(),
        }
    }));
}

/// zsh only completes in its line editor. So this configuration goes through the lines before any
/// input, and records the matches that its functions add.
const ZSHRC: &str = r#"
fpath=($HOME/.zfunc $fpath)
autoload -U compinit
compinit -u -D
compadd() {
    # Asked for an array, the builtin offers nothing.
    if (( ! ${@[(I)-[OAD]]} )); then
        local -a found
        builtin compadd -O found "$@"
        (( ! $#found )) || print -rl -- $found >> $HOME/offered
    fi
    builtin compadd "$@"
}
offer() {
    _main_complete
    compstate[list]=
}
zle -C offer list-choices offer
zle-line-init() {
    local line
    for line in "${(@f)$(< $HOME/lines)}"; do
        BUFFER=$line
        CURSOR=$#BUFFER
        print -r -- "line:$line" >> $HOME/offered
        zle offer
    done
    exit
}
zle -N zle-line-init
"#;

#[test]
fn zsh_completes_what_comes_next() {
    if !is_there("zsh") {
        return;
    }
    let directory = surroundings();
    let home = directory.path().join("home");
    fs::create_dir(home.join(".zfunc")).expect("made");
    write_script("zsh", &home.join(".zfunc/_sigprof"));
    fs::write(home.join(".zshrc"), ZSHRC).expect("written");
    let lines: Vec<&str> = LINES.iter().map(|(line, _)| *line).collect();
    fs::write(home.join("lines"), lines.join("\n")).expect("written");
    // Reads the terminal of the inner shell until that exits.
    let terminal = "zmodload zsh/zpty; zpty inner zsh -d -i; while zpty -r inner; do :; done";
    // If the configuration fails, the inner shell waits for input: a timeout kills it.
    let mut command = shell("timeout", directory.path());
    let output = command.args(["300", "zsh", "-f", "-c", terminal]).output().expect("is run");
    let offered = fs::read_to_string(home.join("offered")).unwrap_or_else(|error| {
        panic!("nothing was offered: {error}: {}", String::from_utf8_lossy(&output.stdout))
    });
    let mut offered = by_line(&offered, str::to_owned);
    // If nothing else is left, zsh offers options for an empty word.
    let options = offered.remove("sigprof completions fish ").unwrap_or_default();
    assert!(options.iter().all(|one| one.starts_with('-')), "{options:?}");
    assert_offers(&offered);
}
