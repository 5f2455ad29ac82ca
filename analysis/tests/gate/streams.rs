//! Standard input and output instead of files, and messages about numbers that do not fit.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn recursion() -> PathBuf {
    data("recursion.pb.gz")
}

/// Runs the command with `input` as its standard input.
fn sigprof<S: AsRef<std::ffi::OsStr>>(arguments: &[S], input: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sigprof"))
        .args(arguments)
        .stdin(File::open(input).expect("is there"))
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the command's output; stderr must be empty.
fn printed<S: AsRef<std::ffi::OsStr>>(arguments: &[S], input: &Path) -> String {
    let output = sigprof(arguments, input);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

const NOTHING: &str = "/dev/null";

#[test]
fn a_profile_may_come_from_standard_input() {
    let file = recursion();
    let name = file.to_str().unwrap();
    let expected = printed(&["top", name], Path::new(NOTHING));
    assert!(expected.contains("Showing nodes accounting for"), "{expected}");
    assert_eq!(printed(&["top", "-"], &file), expected);
    // A pipe that is still empty when it is opened.
    let mut cat = Command::new("cat").arg(&file).stdout(Stdio::piped()).spawn().expect("cat starts");
    let piped = Command::new(env!("CARGO_BIN_EXE_sigprof"))
        .args(["top", "-"])
        .stdin(cat.stdout.take().expect("is piped"))
        .output()
        .expect("the command starts");
    assert!(cat.wait().expect("ends").success());
    assert_eq!(text(&piped.stdout), expected);

    let twice = printed(&["top", name, name], Path::new(NOTHING));
    assert_eq!(printed(&["top", name, "-"], &file), twice);
    let base = printed(&["top", "--base", name, name], Path::new(NOTHING));
    assert_eq!(printed(&["top", "--base", "-", name], &file), base);
    let compared = printed(&["diff", name, name], Path::new(NOTHING));
    assert_eq!(printed(&["diff", "-", name], &file), compared);
    assert_eq!(printed(&["top", "--diff-base", name, "-"], &file), compared);
    let folded = printed(&["convert", "--to", "folded", name], Path::new(NOTHING));
    assert_eq!(printed(&["convert", "--to", "folded", "-"], &file), folded);
    let picture = printed(&["flamegraph", "--title", "t", "--diff-base", name, name], Path::new(NOTHING));
    assert_eq!(printed(&["flamegraph", "--title", "t", "--diff-base", "-", name], &file), picture);
}

#[test]
fn errors_name_standard_input() {
    let output = sigprof(&["top", "-"], Path::new(NOTHING));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("sigprof: standard input: the file is empty"), "{output:?}");
    // Not a file of that name.
    let scratch = tempfile::tempdir().unwrap();
    fs::copy(recursion(), scratch.path().join("-")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
    let named = command.args(["top", "./-"]).current_dir(scratch.path()).output().unwrap();
    assert_eq!(text(&named.stdout), printed(&["top", "-"], &recursion()));
}

#[test]
fn standard_input_is_read_once() {
    for arguments in [
        &["top", "-", "-"][..],
        &["top", "--base", "-", "-"],
        &["convert", "--to", "folded", "-", "-"],
        &["flamegraph", "--diff-base", "-", "-"],
        &["diff", "-", "-"],
    ] {
        let output = sigprof(arguments, &recursion());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("can be read only once"), "{output:?}");
    }
}

/// Each command that writes a file treats `-` as standard output, and creates no such file.
#[test]
fn output_may_be_standard_output() {
    let scratch = tempfile::tempdir().unwrap();
    let file = recursion();
    for arguments in [
        &["convert", "--to", "pprof"][..],
        &["convert", "--to", "folded"],
        &["flamegraph"],
        &["report"],
        &["callgraph"],
        &["callgraph", "--format", "dot"],
    ] {
        let run = |more: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sigprof"));
            let output =
                command.args(arguments).args(more).arg(&file).current_dir(scratch.path()).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
            output.stdout
        };
        let written = run(&[]);
        assert!(!written.is_empty(), "{arguments:?}");
        assert!(run(&["-o", "-"]) == written, "{arguments:?}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "{arguments:?}");
        // A file gets the same.
        assert!(run(&["-o", "file"]).is_empty(), "{arguments:?}");
        assert!(fs::read(scratch.path().join("file")).unwrap() == written, "{arguments:?}");
        fs::remove_file(scratch.path().join("file")).unwrap();
    }
}

/// Writes a CPU profile with records of one address each.
fn cpu_profile(path: &Path, records: &[(u64, u64)], period_micros: u64) {
    let mut words = vec![0, 3, 0, period_micros, 0];
    words.extend(records.iter().flat_map(|&(count, pc)| [count, 1, pc]));
    words.extend([0, 1, 0]);
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    fs::write(path, bytes).unwrap();
}

#[test]
fn reports_numbers_that_exceed_64_bits() {
    const MOST: u64 = i64::MAX as u64 / 1000;
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let profile = |name: &str, records: &[(u64, u64)], period: u64| {
        cpu_profile(Path::new(&path(name)), records, period);
        path(name)
    };
    let fits = profile("fits", &[(MOST, 0x1000)], 1);
    let count = profile("count", &[(u64::MAX, 0x1000)], 1);
    let period = profile("period", &[(1, 0x1000)], u64::MAX);
    let two = profile("two", &[(MOST, 0x1000), (MOST, 0x2000)], 1);
    let messages = |arguments: &[&str]| {
        let output = sigprof(arguments, Path::new(NOTHING));
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let messages = text(&output.stderr);
        messages.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let is_cut = |line: &str, name: &str| {
        line.starts_with(&format!("sigprof: {name}: a value, period or duration exceeds 64 bits"))
    };
    let is_sum = |line: &str| line.starts_with("sigprof: the total of cpu in nanoseconds exceeds 64 bits");

    assert_eq!(messages(&["top", &fits]), [""; 0]);
    // On reading, in all kinds of commands: one line, unless sums are too large, too.
    for command in [
        &["top", "--sample-type", "samples"][..],
        &["raw", "--sample-type", "samples"],
        &["convert", "--to", "pprof"],
    ] {
        for name in [&count, &period] {
            let said = messages(&[command, &[name.as_str()]].concat());
            assert!(said.len() == 1 && is_cut(&said[0], name), "{command:?} {said:?}");
        }
    }
    // The sum of samples that fit; without a sum there is no message.
    for command in [&["top"][..], &["flamegraph"], &["report"], &["convert", "--to", "callgrind"]] {
        let said = messages(&[command, &[two.as_str()]].concat());
        assert!(said.len() == 1 && is_sum(&said[0]), "{command:?} {said:?}");
    }
    assert_eq!(messages(&["convert", "--to", "pprof", &two]), [""; 0]);
    assert_eq!(messages(&["top", "--sample-type", "samples", &two]), [""; 0]);
    // The merge of profiles that fit.
    let said = messages(&["convert", "--to", "pprof", &fits, &fits]);
    assert!(said.len() == 1 && said[0].starts_with("sigprof: integer overflow while merging"), "{said:?}");
    // The difference of the largest numbers fits.
    assert_eq!(messages(&["top", "--base", &fits, &fits]), [""; 0]);
}
