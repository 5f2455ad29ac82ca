//! Pipes that are full or have no reader, as stderr or for the profile, and profiles that would
//! overwrite the program's output.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Linkage, Profile, Scratch, assignment, expect_one_line, expect_status, in_shell, plain, profiled,
    quietly, run, samples_at, shared_library, tool,
};

/// Makes a profile larger than a pipe: different stacks, each half as large.
const LARGE_PROFILE: [&str; 15] =
    ["deep", "4000", "1", "deep", "3999", "1", "deep", "3998", "1", "deep", "3997", "1", "deep", "3996", "1"];

fn app(scratch: &Scratch) -> PathBuf {
    scratch.compile("app.c", Linkage::None, &[])
}

/// Runs `program` under the profiler with a pipe as `descriptor`, which is `full` or `closed`.
fn with_pipe(scratch: &Scratch, state: &str, descriptor: u32, program: &Path, profile: &Path) -> Command {
    let mut command = plain(scratch.compile("with_pipe.c", Linkage::None, &[]));
    command.args([state, &descriptor.to_string(), "env"]);
    command
        .arg(assignment("LD_PRELOAD", shared_library()))
        .arg(assignment("CPUPROFILE", profile))
        .arg(program);
    command
}

/// Stderr has no reader: the line that cannot be written raises no SIGPIPE.
#[test]
fn a_missing_reader_of_stderr_changes_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let finished =
        run(with_pipe(&scratch, "closed", 2, &app(&scratch), &path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    Profile::read(&path);
}

/// Stderr is a full pipe: the line is dropped, and the program exits.
#[test]
fn a_full_pipe_on_stderr_is_not_waited_for() {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let finished =
        run(with_pipe(&scratch, "full", 2, &app(&scratch), &path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    Profile::read(&path);
}

/// `CPUPROFILE` names a full pipe by its descriptor: the write times out, with a diagnostic.
#[test]
fn a_full_pipe_for_a_profile_is_given_up() {
    let scratch = Scratch::new();
    let path = Path::new("/dev/fd/9");
    let finished =
        run(with_pipe(&scratch, "full", 9, &app(&scratch), path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, path, "timed out");
}

/// A named pipe that the test holds open at both ends, so that neither opening nor reading blocks.
fn named_pipe(scratch: &Scratch) -> (PathBuf, File) {
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    let both_ends = OpenOptions::new().read(true).write(true).open(&path).expect("the pipe is ours");
    (path, both_ends)
}

/// `CPUPROFILE` names a FIFO that is not read: the write times out when it is full.
#[test]
fn a_named_pipe_that_is_never_read_is_given_up() {
    let scratch = Scratch::new();
    let (path, _never_read) = named_pipe(&scratch);
    let mut command = profiled(app(&scratch), &path);
    let finished = run(quietly(&mut command)
        .env("CPUPROFILE_MAX_DEPTH", "4096")
        .args(LARGE_PROFILE)
        .args(["exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, &path, "timed out");
}

/// `CPUPROFILE` names a FIFO without a reader: refused immediately, because opening it would block.
#[test]
fn a_named_pipe_without_a_reader_is_given_up() {
    let scratch = Scratch::new();
    let (path, both_ends) = named_pipe(&scratch);
    drop(both_ends);
    let finished = run(profiled(app(&scratch), &path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, &path, "no such device");
}

/// `CPUPROFILE` names a FIFO with a reader: it gets the complete profile, which exceeds the pipe.
#[test]
fn a_named_pipe_with_a_reader_gets_the_complete_profile() {
    let scratch = Scratch::new();
    let (path, both_ends) = named_pipe(&scratch);
    let mut reader = File::open(&path).expect("the pipe is ours");
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut command = profiled(app(&scratch), &path);
    let finished = run(quietly(&mut command)
        .env("CPUPROFILE_MAX_DEPTH", "4096")
        .args(LARGE_PROFILE)
        .args(["exit", "3"]));
    // The last writer closes it: the reader finds the end.
    drop(both_ends);
    let bytes = reading.join().expect("the reader does not panic").expect("a pipe can be read");
    expect_status(&finished, 3);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert!(bytes.len() > 1 << 16, "{} bytes fit into a pipe", bytes.len());
    assert_eq!(samples_at(&scratch.write("prof", bytes)), 5);
}

/// `CPUPROFILE` names the file of the program's output: refused, and the output is complete.
#[test]
fn the_programs_own_output_is_not_overwritten() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    let output = scratch.path("output");
    for path in [Path::new("/dev/stdout"), Path::new("/dev/fd/1"), &output] {
        let preparation = format!("exec > '{}'", output.display());
        let mut command = in_shell(&preparation, &program, path);
        let finished = run(command.args(["print", "before", "burn", "60", "print", "after", "exit", "3"]));
        expect_status(&finished, 3);
        expect_one_line(&finished, path, "output");
        assert_eq!(fs::read_to_string(&output).expect("the output is there"), "before\nafter\n");
        assert_eq!(scratch.names(""), ["app", "output"]);
    }
}
