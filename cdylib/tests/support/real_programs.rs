//! Runs programs of Debian without and with the profiler, and generates their input.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::checker::check;
use super::process::{Finished, exit_code, plain, profiled, run, tool};
use super::profile::Profile;
use super::scratch::{Scratch, program_source};

/// Runs a program without and with the profiler. Panics if the exit status, output or standard
/// error differ, except for the profiler's own lines. `configure` adds the same arguments to both
/// runs. The profile is in the file `prof`.
#[track_caller]
pub(crate) fn run_both(
    scratch: &Scratch,
    program: impl AsRef<OsStr>,
    frequency: u32,
    configure: impl Fn(&mut Command) -> &mut Command,
) -> Finished {
    let expected = run(configure(&mut plain(&program)));
    let mut with = profiled(&program, &scratch.path("prof"));
    let finished = run(configure(with.env("CPUPROFILE_FREQUENCY", frequency.to_string())));
    let printed = format!("stdout: {}\nstderr: {}", finished.text(), finished.stderr);
    assert_eq!(
        exit_code(finished.status),
        exit_code(expected.status),
        "another status than without: {printed}"
    );
    assert!(finished.stdout == expected.stdout, "another output than without: {printed}");
    let is_profilers = |line: &&str| line.starts_with("PROFILE: ") || line.starts_with("sigprof: ");
    let own: Vec<&str> = finished.stderr.lines().filter(|line| !is_profilers(line)).collect();
    assert_eq!(own, expected.stderr.lines().collect::<Vec<_>>(), "another standard error than without");
    let profile = scratch.path("prof");
    if profile.exists() {
        check(&profile);
    }
    finished
}

/// Runs a program as [`run_both`] at 1000 Hz. It must succeed and print something.
#[track_caller]
pub(crate) fn run_both_busily(
    scratch: &Scratch,
    program: impl AsRef<OsStr>,
    configure: impl Fn(&mut Command) -> &mut Command,
) -> Finished {
    let finished = run_both(scratch, program, 1000, configure);
    let printed = format!("stdout: {}\nstderr: {}", finished.text(), finished.stderr);
    assert_eq!(exit_code(finished.status), 0, "the program itself fails: {printed}");
    assert!(!finished.text().is_empty(), "a program that prints nothing: {printed}");
    finished
}

/// Text that takes work to compress and sort, the same every time.
pub(crate) fn generated_lines(count: u32) -> String {
    let mut state = 12345_u32;
    let mut text = String::new();
    for _ in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(text, "{:08x} {} record", state, state % 1000).expect("a string takes all");
    }
    text
}

/// A C file that keeps an optimising compiler busy.
pub(crate) fn generated_c(functions: u32) -> String {
    let mut text = String::from("#include <stddef.h>\n");
    for i in 0..functions {
        let divisor = i + 3;
        write!(
            text,
            "int f{i}(int *a, size_t n, int k) {{\n  int s = {i};\n  for (size_t j = 0; j < n; j++) {{\n    \
             if (a[j] % {divisor} == k) s += a[j] * {i}; else s ^= a[n - 1 - j] >> (k & 7);\n  }}\n  \
             switch (s & 7) {{ case 0: return s * 3; case 1: return a[0]; default: return s / {divisor}; }}\n}}\n"
        )
        .expect("a string takes all");
    }
    text
}

/// A repository with a history that is the same every time.
pub(crate) fn generated_repository(scratch: &Scratch, commits: usize) -> PathBuf {
    let git = Path::new("/usr/bin/git");
    let repository = scratch.path("repository");
    run(plain(git).args(["init", "--quiet", "--bare"]).arg(&repository)).expect_success();
    let history = scratch.write("history", generated_history(commits));
    let mut import = plain("sh");
    import
        .args(["-c", "exec \"$0\" -C \"$1\" fast-import --quiet < \"$2\""])
        .arg(git)
        .arg(&repository)
        .arg(history);
    run(&mut import).expect_success();
    repository
}

/// A history for `git fast-import`: each commit changes some lines of a large file.
fn generated_history(commits: usize) -> String {
    const LINES: usize = 3000;
    let mut lines: Vec<String> = (0..LINES).map(|i| format!("line {i}, value {}", i * i % 7919)).collect();
    let mut stream = String::new();
    for commit in 0..commits {
        for change in 0..40 {
            lines[(commit * 131 + change * 71) % LINES] =
                format!("line changed by commit {commit}, {change}");
        }
        let body = lines.join("\n");
        let (date, file, length) = (1_700_000_000 + commit, commit % 3, body.len());
        write!(
            stream,
            "commit refs/heads/main\ncommitter T <t@example.org> {date} +0000\ndata 6\nchange\n\
             M 100644 inline directory{file}/file.txt\ndata {length}\n{body}\n"
        )
        .expect("a string takes all");
    }
    stream
}

pub(crate) fn compile_c<'a>(command: &'a mut Command, source: &Path, object: &Path) -> &'a mut Command {
    command.args(["-O2", "-c"]).arg(source).arg("-o").arg(object)
}

/// `programs/collatz.rs`, optimised and without frame pointers.
pub(crate) fn compile_rust(scratch: &Scratch) -> PathBuf {
    let executable = scratch.path("collatz");
    let mut compiler = tool("rustc");
    compiler.args(["--edition=2024", "-O", "-g", "-Cforce-frame-pointers=no"]);
    // Go 1.19's pprof treats the start of the code segment as the start of its page, and then names
    // wrong functions. With code on its own pages both are the same.
    compiler.arg("-Clink-arg=-Wl,-z,separate-code");
    compiler.arg("-o").arg(&executable).arg(program_source("collatz.rs"));
    run(&mut compiler).expect_success();
    executable
}

pub(crate) fn compiler_proper() -> PathBuf {
    let finished = run(tool("/usr/bin/gcc").arg("-print-prog-name=cc1")).expect_success();
    PathBuf::from(finished.text().trim()).canonicalize().expect("gcc knows its compiler proper")
}

/// The only file `prof_PID` of a process that ran `program`.
#[track_caller]
pub(crate) fn profile_of_child(scratch: &Scratch, program: &Path) -> PathBuf {
    let names = scratch.names("prof_");
    let ran = |name: &&String| {
        let mappings = Profile::read(&scratch.path(name)).mappings;
        name["prof_".len()..].parse::<u32>().is_ok()
            && mappings.iter().any(|mapping| Path::new(&mapping.path) == program)
    };
    let found: Vec<_> = names.iter().filter(ran).collect();
    assert_eq!(found.len(), 1, "profiles of {} among {names:?}", program.display());
    scratch.path(found[0])
}
