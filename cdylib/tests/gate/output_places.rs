//! Programs that change root, directory, user, descriptors or limits, on which the path depends.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::{
    ffi::OsStrExt,
    fs::{PermissionsExt, chown},
};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Linkage, Profile, Scratch, exit_code, expect_profile, expect_unharmed, expect_words, is_root,
    lacks_mounts, plain, profiled, run, shared_library,
};

/// A user that owns no files.
const NOBODY: u32 = 65534;

/// A directory that each user may enter, with `places.c` in it, and the library at a path that each
/// user may read.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).expect("our own directory");
    scratch.compile("places.c", Linkage::None, &["-Wl,-z,now"]);
    scratch
}

/// The program under the profiler. In the first second of CPU time, it sends itself the only ticks.
fn places(scratch: &Scratch, profile: &Path, orders: &[&str]) -> Command {
    let mut command = profiled(scratch.path("places"), profile);
    command.env("CPUPROFILE_FREQUENCY", "1").args(orders);
    command
}

/// The program with the privileges to change root and user.
fn privileged(scratch: &Scratch, profile: &Path, orders: &[&str]) -> Command {
    if nix::unistd::geteuid().is_root() {
        return places(scratch, profile, orders);
    }
    let mut command = plain("unshare");
    command.args(["--map-root-user", "env"]);
    command.arg(assignment("LD_PRELOAD", shared_library())).arg(assignment("CPUPROFILE", profile));
    command.arg("CPUPROFILE_FREQUENCY=1").arg(scratch.path("places")).args(orders);
    command
}

fn assignment(name: &str, value: &Path) -> std::ffi::OsString {
    [OsStr::new(name), OsStr::new("="), value.as_os_str()].join(OsStr::new(""))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[track_caller]
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A program changes its root: its profile and its child's are at the path in the old root.
#[test]
fn a_changed_root_changes_nothing() {
    let scratch = scratch();
    let (jail, out) = (scratch.directory("jail"), scratch.directory("out"));
    let path = out.join("prof");
    let orders = ["tick", "2", "chroot", text(&jail), "tick", "3", "fork", "tick", "4", "exit", "3"];
    let finished = run(&mut privileged(&scratch, &path, &orders));
    if lacks_mounts(&finished) {
        return;
    }
    expect_unharmed(&finished);
    assert_eq!((finished.end_lines(), finished.complaints()), (2, vec![]), "{}", finished.stderr);
    let profiles = names(&out);
    let [own, child] = &profiles[..] else { panic!("the application has {profiles:?} of two profiles") };
    assert_eq!(own, "prof");
    assert_eq!(Profile::samples_without_list(&path), 5, "samples were lost");
    assert_eq!(Profile::samples_without_list(&out.join(child)), 4, "samples were lost");
    assert_eq!(names(&jail), Vec::<String>::new());
}

/// A program changes its root and starts profiling by a signal: its profile is in the old root.
#[test]
fn a_changed_root_changes_nothing_for_toggled_profiles() {
    let scratch = scratch();
    let (jail, out) = (scratch.directory("jail"), scratch.directory("out"));
    let orders = ["chroot", text(&jail), "toggle", "tick", "3", "toggle", "exit", "3"];
    let mut command = privileged(&scratch, &out.join("prof"), &orders);
    let finished = run(command.env("CPUPROFILESIGNAL", "12"));
    expect_unharmed(&finished);
    assert_eq!(names(&out), ["prof.0"], "the application's profile is not there: {}", finished.stderr);
    assert_eq!(Profile::samples_without_list(&out.join("prof.0")), 3, "samples were lost");
    assert_eq!(names(&jail), Vec::<String>::new());
}

/// A program changes its root and closes all descriptors, also the profiler's: a diagnostic is
/// printed, and nothing is written at that path in the new root.
#[test]
fn nothing_is_written_at_the_same_path_of_another_root() {
    let scratch = scratch();
    let jail = scratch.directory("jail");
    let out = scratch.directory("out");
    let path = out.join("prof");
    let twin = jail.join(out.strip_prefix("/").expect("an absolute path"));
    fs::create_dir_all(&twin).expect("our own directory");
    let finished =
        run(&mut privileged(&scratch, &path, &["tick", "2", "chroot", text(&jail), "close", "exit", "3"]));
    if lacks_mounts(&finished) {
        return;
    }
    expect_words(&finished, &path, &["root", "No such file"]);
    assert_eq!((names(&twin), names(&out)), (vec![], vec![]));
}

/// A program changes its directory and closes all descriptors: a relative name is in the first one.
#[test]
fn a_changed_directory_changes_nothing() {
    for orders in
        [&["tick", "2", "chdir", "/", "exit", "3"][..], &["tick", "2", "chdir", "/", "close", "exit", "3"]]
    {
        let scratch = scratch();
        let mut command = places(&scratch, Path::new("prof"), orders);
        let finished = run(command.current_dir(scratch.root()));
        expect_profile(&finished, &scratch.path("prof"), 2);
    }
}

/// The directory is renamed while the program runs: the profile is in it.
#[test]
fn a_renamed_directory_gets_the_profile() {
    let scratch = scratch();
    let (before, after) = (scratch.directory("before"), scratch.path("after"));
    let orders = ["tick", "2", "rename", text(&before), text(&after), "exit", "3"];
    let finished = run(&mut places(&scratch, &before.join("prof"), &orders));
    expect_profile(&finished, &after.join("prof"), 2);
    assert_eq!(names(&after), ["prof"]);
}

/// A directory is missing: only the first program reports it. Later programs are profiled.
#[test]
fn a_missing_directory_is_reported_once() {
    let scratch = scratch();
    let (missing, profile) = (scratch.path("missing"), scratch.path("missing/prof"));
    let script = "sh -c '/bin/true; /bin/true' && /bin/true && mkdir \"$0\" && exec \"$1\" tick 2 exit 3";
    let mut command = profiled("/bin/sh", &profile);
    command.env("CPUPROFILE_FREQUENCY", "1").arg("-c").arg(script).arg(&missing).arg(scratch.path("places"));
    let finished = run(&mut command);
    assert_eq!(exit_code(finished.status), 3, "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("no profile at").count(), 1, "{}", finished.stderr);
    assert!(!names(&missing).is_empty(), "{}", finished.stderr);
}

/// The directory is removed while the program runs: a diagnostic reports it.
#[test]
fn reports_a_removed_directory() {
    let scratch = scratch();
    let directory = scratch.directory("gone");
    let path = directory.join("prof");
    let finished = run(&mut places(&scratch, &path, &["tick", "2", "rmdir", text(&directory), "exit", "3"]));
    expect_words(&finished, &path, &["directory", "No such file or directory"]);
}

/// The directory is removed and created again: the profile is in the new one.
#[test]
fn a_directory_that_is_created_again_gets_the_profile() {
    let scratch = scratch();
    let directory = scratch.directory("gone");
    let orders = ["tick", "2", "rmdir", text(&directory), "mkdir", text(&directory), "exit", "3"];
    let finished = run(&mut places(&scratch, &directory.join("prof"), &orders));
    expect_profile(&finished, &directory.join("prof"), 2);
}

/// A directory with the profile's name is created: a diagnostic reports it, and it stays empty.
#[test]
fn reports_a_directory_with_the_name_of_the_profile() {
    let scratch = scratch();
    let path = scratch.path("prof");
    let finished = run(&mut places(&scratch, &path, &["tick", "2", "mkdir", text(&path), "exit", "3"]));
    expect_words(&finished, &path, &["Is a directory"]);
    assert_eq!(names(&path), Vec::<String>::new());
    assert_eq!(scratch.names(""), ["places", "prof"]);
}

/// A program becomes a user that may not write the profile: a diagnostic reports it.
#[test]
fn reports_a_user_without_write_permission() {
    let Some(scratch) = root_scratch() else { return };
    let out = scratch.directory("out");
    let path = out.join("prof");
    let finished =
        run(&mut as_library_of_all(&scratch, &path, &["tick", "2", "setuid", "65534", "exit", "3"]));
    expect_words(&finished, &path, &["user that the program has become", "Permission denied"]);
    assert_eq!(names(&out), Vec::<String>::new());
}

/// A program becomes a user that owns the profile's file: it is written.
#[test]
fn a_file_of_the_user_that_the_program_becomes_is_written() {
    let Some(scratch) = root_scratch() else { return };
    let out = scratch.directory("out");
    let path = out.join("prof");
    fs::write(&path, "").expect("our own directory");
    chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may");
    let finished =
        run(&mut as_library_of_all(&scratch, &path, &["tick", "2", "setuid", "65534", "exit", "3"]));
    expect_profile(&finished, &path, 2);
    assert_eq!(names(&out), ["prof"]);
}

#[track_caller]
fn root_scratch() -> Option<Scratch> {
    is_root("become another user").then(scratch)
}

/// The program with a copy of the library: users may have no access to the build's directory.
fn as_library_of_all(scratch: &Scratch, profile: &Path, orders: &[&str]) -> Command {
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = places(scratch, profile, orders);
    command.env("LD_PRELOAD", library);
    command
}

/// A program closes all descriptors except the standard ones: the profile is complete.
#[test]
fn closed_descriptors_do_not_matter() {
    let scratch = scratch();
    let path = scratch.path("prof");
    expect_profile(&run(&mut places(&scratch, &path, &["tick", "2", "close", "exit", "3"])), &path, 2);
}

/// A program replaces all descriptors by its own file: nothing is written to it.
#[test]
fn does_not_write_to_an_application_file_with_its_descriptor() {
    let scratch = scratch();
    let (path, own) = (scratch.path("prof"), scratch.path("own"));
    let finished = run(&mut places(&scratch, &path, &["tick", "2", "take", text(&own), "exit", "3"]));
    assert_eq!(
        fs::read_to_string(&own).expect("it is there"),
        "mine",
        "the application's file was written to"
    );
    expect_profile(&finished, &path, 2);
}

/// Sessions that a program starts, and its forked children, leave no descriptors open.
#[test]
fn leaves_no_descriptors_open() {
    let scratch = Scratch::new();
    let program = scratch.compile("places.c", Linkage::Shared, &[]);
    let prof = scratch.path("prof");
    let run_with = |orders: &[&str]| {
        let finished = run(plain(&program).args(orders).env("CPUPROFILE_FREQUENCY", "1"));
        expect_unharmed(&finished);
        finished.text().lines().find(|line| line.ends_with("descriptors")).expect("a number").to_owned()
    };
    let before = run_with(&["descriptors", "exit", "3"]);
    let prof = text(&prof);
    assert_eq!(run_with(&["start", prof, "tick", "2", "stop", "descriptors", "exit", "3"]), before);
    assert_eq!(run_with(&["start", prof, "tick", "2", "fork", "descriptors", "exit", "3"]), before);
    assert_eq!(run_with(&["start", prof, "exec", "descriptors", "exit", "3"]), before);
}

/// The limit of descriptors is low: the profile is complete.
#[test]
fn a_low_limit_on_open_files_is_enough() {
    let scratch = scratch();
    let path = scratch.path("prof");
    let mut command = plain("sh");
    command.args(["-c", "ulimit -n 8; LD_PRELOAD=$0 CPUPROFILE=$1 CPUPROFILE_FREQUENCY=1; export LD_PRELOAD CPUPROFILE CPUPROFILE_FREQUENCY; shift; exec \"$@\""]);
    command
        .arg(shared_library())
        .arg(&path)
        .arg(scratch.path("places"))
        .args(["tick", "2", "chdir", "/", "exit", "3"]);
    expect_profile(&run(&mut command), &path, 2);
}

/// A program opens as many files as it may: a diagnostic reports it.
#[test]
fn reports_a_lack_of_descriptors() {
    let scratch = scratch();
    let path = scratch.path("prof");
    let mut command = places(&scratch, &path, &["tick", "2", "leak", "exit", "3"]);
    // With clock `perf`, the session closes a descriptor first.
    let finished = run(command.env("CPUPROFILE_CLOCK", "cpu"));
    expect_words(&finished, &path, &["Too many open files", "ulimit -n"]);
    assert_eq!(scratch.names(""), ["places"]);
}

/// The path is as long as the kernel permits, without room for a longer name, with and without the
/// profiler's descriptor: the profile is written.
#[test]
fn the_longest_path_is_written() {
    for orders in [&["tick", "2", "exit", "3"][..], &["tick", "2", "close", "exit", "3"]] {
        let scratch = scratch();
        // PATH_MAX includes the NUL: of 4095 bytes, the last two are a slash and a one-byte name.
        let mut directory = scratch.root().canonicalize().expect("our own directory");
        while directory.as_os_str().len() < 4093 {
            let left = 4093 - directory.as_os_str().len() - 1;
            // Leaves at least one byte for the last name.
            let length = if left <= 200 { left } else { 200.min(left - 2) };
            directory.push("d".repeat(length));
        }
        fs::create_dir_all(&directory).expect("our own directory");
        let path = directory.join("p");
        assert_eq!(path.as_os_str().len(), 4095);
        expect_profile(&run(&mut places(&scratch, &path, orders)), &path, 2);
        assert_eq!(names(&directory), ["p"]);
    }
}

/// Names are not UTF-8, or have line breaks: they work, and a diagnostic is still one line.
#[test]
fn a_name_can_have_any_bytes() {
    let scratch = scratch();
    for name in [&b"new\nline"[..], b"\xff\xfe not text", b"tab\tand space ", b"-"] {
        let path = scratch.path("").join(OsStr::from_bytes(name));
        expect_profile(&run(&mut places(&scratch, &path, &["tick", "2", "exit", "3"])), &path, 2);
        let finished = run(&mut places(&scratch, &path.join("below"), &["exit", "3"]));
        expect_unharmed(&finished);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        assert!(finished.stderr.contains("Not a directory"), "{}", finished.stderr);
    }
}

/// A daemon clears its umask: the profile has the permissions of the umask at the start.
#[test]
fn a_new_file_has_the_permissions_of_the_umask_at_the_start() {
    for (at_start, later, expected) in [("027", "0", 0o640), ("022", "0", 0o644), ("022", "077", 0o600)] {
        let scratch = scratch();
        let path = scratch.path("prof");
        let mut command = plain("sh");
        command.arg("-c").arg(format!("umask {at_start}; exec env \"$@\"")).arg("sh");
        command.arg(assignment("LD_PRELOAD", shared_library())).arg(assignment("CPUPROFILE", &path));
        command.arg("CPUPROFILE_FREQUENCY=1").arg(scratch.path("places"));
        let finished = run(command.args(["tick", "2", "umask", later, "exit", "3"]));
        expect_profile(&finished, &path, 2);
        assert_eq!(mode(&path), expected, "umask {at_start}, then {later}");
    }
}

fn mode(path: &PathBuf) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}
