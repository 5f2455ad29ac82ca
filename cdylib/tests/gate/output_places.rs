//! Programs that change what their profile's path depends on: root, directory, user, descriptors, limits.

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

/// A user who owns nothing.
const NOBODY: u32 = 65534;

/// A directory for a test that each user may enter, with `places.c` in it, and the library under a path that each user
/// may read.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).expect("our own directory");
    scratch.compile("places.c", Linkage::None, &["-Wl,-z,now"]);
    scratch
}

/// The program under the profiler with these orders, its timer silent: the only ticks are those it sends itself.
fn places(scratch: &Scratch, profile: &Path, orders: &[&str]) -> Command {
    let mut command = profiled(scratch.path("places"), profile);
    command.env("CPUPROFILE_FREQUENCY", "1").args(orders);
    command
}

/// The same with the rights that it takes to change root and user.
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

/// A program goes to another root: its profile is where it was meant to be, in the old one, and so is its child's.
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

/// A program goes to another root, and only there starts to be profiled, by a signal.
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

/// A program goes to another root and closes all descriptors, ours too: the path would lead to another file there. One
/// line, and nothing is written in that root.
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

/// A program changes its directory: a relative name belongs to the one it started in, though its descriptor is closed.
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

/// The directory gets another name while the program runs: the profile is in it.
#[test]
fn a_renamed_directory_gets_the_profile() {
    let scratch = scratch();
    let (before, after) = (scratch.directory("before"), scratch.path("after"));
    let orders = ["tick", "2", "rename", text(&before), text(&after), "exit", "3"];
    let finished = run(&mut places(&scratch, &before.join("prof"), &orders));
    expect_profile(&finished, &after.join("prof"), 2);
    assert_eq!(names(&after), ["prof"]);
}

/// A missing directory is reported by the first program, and not by those that it starts. They are profiled if it is there by then.
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

/// The directory is removed while the program runs: one line.
#[test]
fn a_removed_directory_is_one_line() {
    let scratch = scratch();
    let directory = scratch.directory("gone");
    let path = directory.join("prof");
    let finished = run(&mut places(&scratch, &path, &["tick", "2", "rmdir", text(&directory), "exit", "3"]));
    expect_words(&finished, &path, &["directory", "No such file or directory"]);
}

/// The directory is removed and made anew: the profile is in the new one.
#[test]
fn a_directory_made_anew_gets_the_profile() {
    let scratch = scratch();
    let directory = scratch.directory("gone");
    let orders = ["tick", "2", "rmdir", text(&directory), "mkdir", text(&directory), "exit", "3"];
    let finished = run(&mut places(&scratch, &directory.join("prof"), &orders));
    expect_profile(&finished, &directory.join("prof"), 2);
}

/// A directory takes the name while the program runs: one line, and it stays empty.
#[test]
fn a_directory_in_the_profiles_place_is_one_line() {
    let scratch = scratch();
    let path = scratch.path("prof");
    let finished = run(&mut places(&scratch, &path, &["tick", "2", "mkdir", text(&path), "exit", "3"]));
    expect_words(&finished, &path, &["Is a directory"]);
    assert_eq!(names(&path), Vec::<String>::new());
    assert_eq!(scratch.names(""), ["places", "prof"]);
}

/// A program gives its rights up, and may not write where its profile goes: one line that says so.
#[test]
fn a_user_who_may_not_write_there_is_one_line() {
    let Some(scratch) = root_scratch() else { return };
    let out = scratch.directory("out");
    let path = out.join("prof");
    let finished =
        run(&mut as_library_of_all(&scratch, &path, &["tick", "2", "setuid", "65534", "exit", "3"]));
    expect_words(&finished, &path, &["user that the program has become", "Permission denied"]);
    assert_eq!(names(&out), Vec::<String>::new());
}

/// A program gives its rights up, and its profile is a file of the user that it becomes: that is written.
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

/// The program with a copy of the library, since the build's own folder may be closed to others.
fn as_library_of_all(scratch: &Scratch, profile: &Path, orders: &[&str]) -> Command {
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = places(scratch, profile, orders);
    command.env("LD_PRELOAD", library);
    command
}

/// A program closes every descriptor but the standard ones: the profile is there.
#[test]
fn closed_descriptors_are_not_missed() {
    let scratch = scratch();
    let path = scratch.path("prof");
    expect_profile(&run(&mut places(&scratch, &path, &["tick", "2", "close", "exit", "3"])), &path, 2);
}

/// A program replaces every descriptor by its own file: nothing is written to that.
#[test]
fn a_file_of_the_apps_in_our_descriptors_place_is_left_alone() {
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

/// Sessions that the program starts leave no descriptor behind, here and in forked children.
#[test]
fn no_descriptor_is_left_behind() {
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

/// Few descriptors are allowed, none of them high: the profile is there.
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

/// A program has opened all the files it may at its end: one line.
#[test]
fn no_descriptor_left_is_one_line() {
    let scratch = scratch();
    let path = scratch.path("prof");
    let mut command = places(&scratch, &path, &["tick", "2", "leak", "exit", "3"]);
    // With clock `perf`, the session closes a descriptor first.
    let finished = run(command.env("CPUPROFILE_CLOCK", "cpu"));
    expect_words(&finished, &path, &["Too many open files", "ulimit -n"]);
    assert_eq!(scratch.names(""), ["places"]);
}

/// A path as long as the kernel takes, which leaves no room for a longer name beside it, with and without our
/// descriptor.
#[test]
fn the_longest_path_is_written() {
    for orders in [&["tick", "2", "exit", "3"][..], &["tick", "2", "close", "exit", "3"]] {
        let scratch = scratch();
        // PATH_MAX counts the NUL: 4095 bytes are left, the last two for a slash and a name of one.
        let mut directory = scratch.root().canonicalize().expect("our own directory");
        while directory.as_os_str().len() < 4093 {
            let left = 4093 - directory.as_os_str().len() - 1;
            // No name of zero bytes may be left for the last step.
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

/// Names that are not UTF-8, and names with line breaks, are names like others; a message stays one line.
#[test]
fn a_name_may_hold_any_bytes() {
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

/// A daemon clears its umask, to set the permissions of its own files itself: the profile has those of the start.
#[test]
fn a_new_file_has_the_permissions_of_the_starts_umask() {
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
