//! Profiles that cannot be written, and programs that must not be profiled, which run undisturbed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, expect_one_line, is_root, lacks_mounts, plain, profiled,
    run, shared_library,
};

fn app(scratch: &Scratch) -> PathBuf {
    scratch.compile("app.c", Linkage::None, &[])
}

/// Panics unless the application prints and exits as without the profiler.
#[track_caller]
fn run_unharmed(mut command: Command) -> Finished {
    let finished = run(command.args(["print", "hello", "burn", "60", "exit", "3"]));
    assert_eq!((exit_code(finished.status), finished.text().as_str()), (3, "hello\n"), "{}", finished.stderr);
    finished
}

/// `CPUPROFILE` names a directory: a diagnostic reports it.
#[test]
fn a_directory_is_refused() {
    let scratch = Scratch::new();
    let directory = scratch.directory("prof");
    let finished = run_unharmed(profiled(app(&scratch), &directory));
    expect_one_line(&finished, &directory, "directory");
    assert_eq!(scratch.names(""), ["app", "prof"]);
    assert_eq!(fs::read_dir(&directory).expect("still a directory").count(), 0);
}

/// `CPUPROFILE` names a file in a missing directory: a diagnostic reports it.
#[test]
fn a_missing_directory_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.path("missing/prof");
    let finished = run_unharmed(profiled(app(&scratch), &path));
    expect_one_line(&finished, &path, "no such file");
    assert_eq!(scratch.names(""), ["app"]);
}

/// `CPUPROFILE` names a file below a regular file: a diagnostic reports it.
#[test]
fn a_path_below_a_regular_file_is_refused() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let path = scratch.path("file/prof");
    let finished = run_unharmed(profiled(app(&scratch), &path));
    expect_one_line(&finished, &path, "not a directory");
}

/// `CPUPROFILE` has a name that is longer than a file system permits: a diagnostic reports it.
#[test]
fn an_overlong_name_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.path(&"n".repeat(300));
    let finished = run_unharmed(profiled(app(&scratch), &path));
    expect_one_line(&finished, &path, "name too long");
    assert_eq!(scratch.names(""), ["app"]);
}

/// `CPUPROFILE` names a file in a directory that is not writable: a diagnostic reports it.
#[test]
fn an_unwritable_directory_is_refused() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    let directory = scratch.directory("closed");
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).expect("our own directory");
    fs::set_permissions(&directory, Permissions::from_mode(0o555)).expect("our own directory");
    let path = directory.join("prof");
    let finished = run_unharmed(as_ordinary_user(&scratch, &program, &path));
    expect_one_line(&finished, &path, "permission denied");
    assert_eq!(fs::read_dir(&directory).expect("the directory is there").count(), 0);
}

/// The program under the profiler, run by an unprivileged user (65534 if the tests run as root).
fn as_ordinary_user(scratch: &Scratch, program: &Path, profile: &Path) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return profiled(program, profile);
    }
    // A copy: other users may have no access to the build's directory.
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = plain("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]);
    command.arg(assignment("LD_PRELOAD", &library)).arg(assignment("CPUPROFILE", profile)).arg(program);
    command
}

fn assignment(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}

/// Runs `program` under the profiler in a shell that may write at most `blocks` half kilobytes to a
/// file: writes fail as on a full disk, with another error.
fn with_file_size_limit(program: &Path, profile: &Path, blocks: u32) -> Command {
    let mut command = plain("sh");
    let script = "trap '' XFSZ; ulimit -f \"$1\"; LD_PRELOAD=$2 CPUPROFILE=$3; export LD_PRELOAD CPUPROFILE; shift 3; exec \"$@\"";
    command.args(["-c", script, "sh", &blocks.to_string()]).arg(shared_library()).arg(profile).arg(program);
    command
}

/// The profile exceeds the file size limit: no file remains under the final or any other name.
#[test]
fn a_profile_that_does_not_fit_leaves_no_file() {
    for blocks in [0, 1, 2] {
        let scratch = Scratch::new();
        let path = scratch.path("prof");
        let finished = run_unharmed(with_file_size_limit(&app(&scratch), &path, blocks));
        expect_one_line(&finished, &path, "file too large");
        assert_eq!(scratch.names(""), ["app"], "{blocks}");
    }
}

/// The profile exceeds the file size limit: an older one is not replaced by a part of it.
#[test]
fn a_profile_that_does_not_fit_does_not_replace_an_older_one() {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let program = app(&scratch);
    run_unharmed(profiled(&program, &path));
    run_unharmed(with_file_size_limit(&program, &path, 1));
    if path.exists() {
        Profile::read(&path);
    }
    let names = scratch.names("");
    assert!(names == ["app", "prof"] || names == ["app"], "{names:?}");
}

/// The file system is full: a diagnostic reports it, and no file remains.
#[test]
fn a_full_file_system_leaves_no_file() {
    let scratch = Scratch::new();
    let directory = scratch.directory("small");
    let path = directory.join("prof");
    let script = "mount -t tmpfs -o size=64k none \"$0\" || exit 77
        dd if=/dev/zero of=\"$0/filler\" bs=4k 2> /dev/null
        LD_PRELOAD=$1 CPUPROFILE=$2 \"$3\" print hello burn 60 exit 3
        status=$?; ls \"$0\" >&2; exit $status";
    let mut command = plain("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).arg(&directory);
    let finished = run(command.arg(shared_library()).arg(&path).arg(app(&scratch)));
    if lacks_mounts(&finished) {
        return;
    }
    assert_eq!((exit_code(finished.status), finished.text().as_str()), (3, "hello\n"), "{}", finished.stderr);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let [complaint, "filler"] = lines[..] else {
        panic!("not one line and no other file: {}", finished.stderr)
    };
    assert!(complaint.contains(path.to_str().expect("UTF-8")), "{complaint}");
    assert!(complaint.to_lowercase().contains("no space left"), "{complaint}");
}

/// A set-user-ID program has the library linked in: it is not profiled, and nothing is printed.
#[test]
fn a_setuid_program_is_not_profiled() {
    if !is_root("make a program of another user") {
        return;
    }
    let scratch = Scratch::new();
    // Linked, because the loader ignores LD_PRELOAD for such a program.
    let program = scratch.compile("app.c", Linkage::Shared, &[]);
    std::os::unix::fs::chown(&program, Some(65534), None).expect("root may");
    let path = scratch.path("prof");
    let run_linked = || {
        let mut command = plain(&program);
        command.env("CPUPROFILE", &path);
        run_unharmed(command)
    };
    // First without the set-user-ID bit: it is profiled. The directory is open to both users.
    scratch.open_to_all();
    assert_eq!(run_linked().end_lines(), 1);
    fs::remove_file(&path).expect("a profile was written");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("our own program");
    assert_eq!(run_linked().stderr, "");
    assert_eq!(scratch.names("prof"), Vec::<String>::new());
}

/// Another library handles SIGPROF before ours is loaded: a diagnostic states the reason, there is
/// no profile, and that library's handler still runs.
#[test]
fn an_earlier_handler_of_the_signal_is_kept() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    let early = scratch.compile_library("early_handler.c", &[]);
    let mut command = profiled(&program, &scratch.path("prof"));
    // Of libraries that do not need each other the last is initialised first.
    command.env("LD_PRELOAD", format!("{} {}", shared_library().display(), early.display()));
    let finished = run(command.args(["raise", "3", "PROF", "exit", "3"]));
    assert_eq!(exit_code(finished.status), 3, "{}", finished.stderr);
    assert_eq!(finished.text(), "early handler called 3 times\n");
    let [line] = finished.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("not one line: {}", finished.stderr)
    };
    assert!(line.contains("SIGPROF") || line.contains("signal"), "{line}");
    assert_eq!(scratch.names("prof"), Vec::<String>::new());
}

/// The application handles SIGPROF and starts the profiler: it is refused; the handler still runs.
#[test]
fn a_start_is_refused_while_the_program_handles_the_signal() {
    let scratch = Scratch::new();
    let program = scratch.compile("signals.c", Linkage::Shared, &[]);
    let finished = run(plain(program).arg("start-refused").arg(scratch.path("prof")));
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    assert_eq!(scratch.names("prof"), Vec::<String>::new());
}
