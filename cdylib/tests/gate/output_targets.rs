//! Devices, pipes, links and others' files as `CPUPROFILE`; file systems that refuse files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Linkage, Profile, Scratch, expect_profile, expect_unharmed, expect_words, is_root,
    lacks_mounts, plain, profiled, run, shared_library, tool,
};

/// A user that owns no other file, and another user.
const NOBODY: u32 = 65534;
const STRANGER: u32 = 1234;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o755)).expect("our own directory");
    scratch.compile("places.c", Linkage::None, &[]);
    scratch
}

/// The program under the profiler. In the first second of CPU time, it sends itself the only ticks.
fn places(scratch: &Scratch, profile: &Path, orders: &str) -> Command {
    let mut command = profiled(scratch.path("places"), profile);
    command.env("CPUPROFILE_FREQUENCY", "1").args(orders.split_whitespace());
    command
}

#[track_caller]
fn content(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("the file is there")).into_owned()
}

/// Runs `script` in its own mount namespace. The script has the program and its variables as "$@"
/// and a mount point as $0, and must exit with the program's status.
#[track_caller]
fn with_own_mounts(
    script: &str,
    directory: &Path,
    profile: &Path,
    scratch: &Scratch,
    orders: &str,
) -> Option<Finished> {
    let mut command = plain("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c"]);
    command.arg(format!("mount -t tmpfs none \"$0\" && umount \"$0\" || exit 77; {script}")).arg(directory);
    command.arg("env").arg(assignment("LD_PRELOAD", shared_library())).arg(assignment("CPUPROFILE", profile));
    command.arg("CPUPROFILE_FREQUENCY=1").arg(scratch.path("places")).args(orders.split_whitespace());
    let finished = run(&mut command);
    (!lacks_mounts(&finished)).then_some(finished)
}

fn assignment(name: &str, value: &Path) -> OsString {
    [OsStr::new(name), value.as_os_str()].join(OsStr::new("="))
}

/// `CPUPROFILE` is /dev/null: ticks are counted, and no process writes a file.
#[test]
fn the_null_device_takes_the_profile() {
    let scratch = scratch();
    let before = devices();
    let finished = run(&mut places(&scratch, Path::new("/dev/null"), "tick 2 fork tick 1 exec exit 3"));
    // Cleans the shared directory first.
    let unexpected: Vec<String> = devices().into_iter().filter(|name| !before.contains(name)).collect();
    unexpected.iter().for_each(|name| fs::remove_file(Path::new("/dev").join(name)).expect("our own file"));
    assert_eq!(unexpected, Vec::<String>::new(), "files were made in /dev");
    expect_unharmed(&finished);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{}", finished.stderr);
    assert!(finished.stderr.contains("= 2/0/"), "{}", finished.stderr);
}

fn devices() -> Vec<String> {
    let entries = fs::read_dir("/dev").expect("/dev is there");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("null") || name.starts_with(".sigprof")).collect()
}

/// `CPUPROFILE` is /dev/full: a diagnostic states the reason.
#[test]
fn reports_the_full_device() {
    let path = Path::new("/dev/full");
    let finished = run(&mut places(&scratch(), path, "tick 2 exit 3"));
    expect_words(&finished, path, &["No space left on device"]);
}

/// `CPUPROFILE` is /dev/stdout or /dev/stderr, a pipe: it gets the complete profile.
#[test]
fn a_pipe_on_standard_output_gets_the_profile() {
    let scratch = scratch();
    let finished = run(&mut places(&scratch, Path::new("/dev/stdout"), "tick 2 exit 3"));
    let prof = scratch.write("prof", &finished.stdout);
    expect_profile(&finished, &prof, 2);
    let mut command = plain("sh");
    command.args(["-c", "exec 2>&1; exec \"$@\"", "sh", "env"]);
    command
        .arg(assignment("LD_PRELOAD", shared_library()))
        .args(["CPUPROFILE=/dev/stderr", "CPUPROFILE_FREQUENCY=1"]);
    let finished = run(command.arg(scratch.path("places")).args(["tick", "3", "exit", "3"]));
    expect_unharmed(&finished);
    let end = b"PROFILE: interrupts/evictions/bytes = 3/0/";
    let at = finished.stdout.windows(end.len()).position(|window| window == end).expect("an end line");
    assert_eq!(
        Profile::read(&scratch.write("prof", &finished.stdout[..at])).samples(),
        3,
        "samples were lost"
    );
}

/// `CPUPROFILE` names a descriptor that the application reuses: its file is not written.
#[test]
fn does_not_write_to_a_named_descriptor_that_was_replaced() {
    let scratch = scratch();
    let own = scratch.path("own");
    let mut command = plain("sh");
    command.args(["-c", "exec 9>&1; exec \"$@\"", "sh", "env"]);
    command
        .arg(assignment("LD_PRELOAD", shared_library()))
        .args(["CPUPROFILE=/dev/fd/9", "CPUPROFILE_FREQUENCY=1"]);
    let finished =
        run(command.arg(scratch.path("places")).args(["tick", "2", "take"]).arg(&own).args(["exit", "3"]));
    assert_eq!(content(&own), "mine", "the application's file was written to");
    expect_words(&finished, Path::new("/dev/fd/9"), &["taken its place"]);
}

/// `CPUPROFILE` names a FIFO: it gets the first program's profile, and no file is created.
#[test]
fn a_named_pipe_gets_one_profile() {
    let scratch = scratch();
    let (path, reading) = read_pipe(&scratch, usize::MAX);
    let finished = run(&mut places(&scratch, &path, "tick 2 fork tick 1 exit 3"));
    expect_unharmed(&finished);
    let bytes = reading.join().expect("the reader does not panic");
    assert_eq!(Profile::read(&scratch.write("prof", bytes)).samples(), 2, "samples were lost");
    assert_eq!(scratch.names("pipe"), ["pipe"]);
}

/// The FIFO's reader exits during the profile: a diagnostic reports it, without SIGPIPE.
#[test]
fn reports_a_reader_that_exits() {
    let scratch = Scratch::new();
    let (path, reading) = read_pipe(&scratch, 1000);
    let mut command = profiled(scratch.compile("app.c", Linkage::None, &[]), &path);
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_MAX_DEPTH", "4096");
    // Five stacks of 32 kB each, of which a pipe holds two.
    for depth in ["4000", "4001", "4002", "4003", "4004"] {
        command.args(["deep", depth, "1"]);
    }
    let finished = run(command.args(["exit", "3"]));
    reading.join().expect("the reader does not panic");
    expect_words(&finished, &path, &["Broken pipe", "keep a reader connected until"]);
}

/// A FIFO, and a thread that reads at most `most` bytes of it.
fn read_pipe(scratch: &Scratch, most: usize) -> (PathBuf, std::thread::JoinHandle<Vec<u8>>) {
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    let opened = path.clone();
    // Both ends, so that opening does not block; then only the reading one.
    let both = File::options().read(true).write(true).open(&path).expect("the pipe is ours");
    let reader = File::open(&opened).expect("the pipe is ours");
    drop(both);
    let reading = std::thread::spawn(move || {
        // Until a writer opens it, reading returns the end immediately.
        let mut bytes = Vec::new();
        while bytes.is_empty() {
            (&reader).take(most as u64).read_to_end(&mut bytes).expect("a pipe can be read");
            std::thread::yield_now();
        }
        bytes
    });
    (path, reading)
}

/// `CPUPROFILE` names a socket, which cannot be opened: a diagnostic at the start reports it.
#[test]
fn reports_a_socket() {
    let scratch = scratch();
    let path = scratch.path("socket");
    let _listener = UnixListener::bind(&path).expect("our own directory");
    let finished = run(&mut places(&scratch, &path, "exit 3"));
    expect_words(&finished, &path, &["socket", "No such device or address"]);
}

/// Runs the program as nobody (65534) or root, in a directory like /tmp with another user's `prof`.
#[track_caller]
fn run_in_shared_directory(make: impl FnOnce(&Path), as_root: bool) -> Option<(Scratch, PathBuf, Finished)> {
    if !is_root("make a file of another user") {
        return None;
    }
    let scratch = scratch();
    let shared = scratch.directory("shared");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("our own directory");
    let path = shared.join("prof");
    make(&path);
    lchown(&path, Some(STRANGER), Some(STRANGER)).expect("root may");
    let mut command = if as_root { places(&scratch, &path, "") } else { as_nobody(&scratch, &path) };
    let finished = run(command.args(["tick", "2", "exit", "3"]));
    Some((scratch, path, finished))
}

fn as_nobody(scratch: &Scratch, profile: &Path) -> Command {
    // A copy: other users may have no access to the build's directory.
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = plain("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]);
    command.arg(assignment("LD_PRELOAD", &library)).arg(assignment("CPUPROFILE", profile));
    command.arg("CPUPROFILE_FREQUENCY=1").arg(scratch.path("places"));
    command
}

/// In a directory like /tmp, another user made a link to a file of root's, or to its directory:
/// root's profile does not overwrite the file.
#[test]
fn the_link_of_another_user_in_a_shared_directory_is_refused() {
    for link in ["prof", "prof/below"] {
        let scratch = scratch();
        if !is_root("make a link of another user") {
            return;
        }
        let (shared, far) = (scratch.directory("shared"), scratch.directory("far"));
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("our own directory");
        let precious = scratch.write("far/below", "precious");
        let target = if link == "prof" { &precious } else { &far };
        symlink(target, shared.join("prof")).expect("our own directory");
        lchown(shared.join("prof"), Some(STRANGER), Some(STRANGER)).expect("root may");
        let path = shared.join(link);
        let finished = run(&mut places(&scratch, &path, "exit 3"));
        assert_eq!(content(&precious), "precious", "a stranger's link led to it");
        expect_words(&finished, &path, &["another user's link"]);
    }
}

/// In a directory like /tmp, the user made a link: it is followed.
#[test]
fn the_link_of_the_user_in_a_shared_directory_is_followed() {
    let scratch = scratch();
    let (shared, far) = (scratch.directory("shared"), scratch.directory("far"));
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("our own directory");
    symlink(far.join("prof"), shared.join("prof")).expect("our own directory");
    expect_profile(&run(&mut places(&scratch, &shared.join("prof"), "tick 2 exit 3")), &far.join("prof"), 2);
}

/// In a directory like /tmp, another user's file is writable by all: it is not written.
#[test]
fn the_file_of_another_user_in_a_shared_directory_is_refused() {
    let make = |path: &Path| {
        fs::write(path, "theirs").expect("our own directory");
        fs::set_permissions(path, Permissions::from_mode(0o666)).expect("our own file");
    };
    let Some((_scratch, path, finished)) = run_in_shared_directory(make, false) else { return };
    assert_eq!(content(&path), "theirs", "a stranger's file was written into");
    // Unprofiled, the application is killed by its own tick.
    assert!(finished.stderr.contains("another user's file"), "{}", finished.stderr);
}

/// In a directory like /tmp, another user made a FIFO: a root profile is not written to it.
#[test]
fn the_pipe_of_another_user_in_a_shared_directory_is_refused() {
    let make = |path: &Path| {
        run(tool("mkfifo").args(["-m", "666"]).arg(path)).expect_success();
    };
    for as_root in [true, false] {
        let Some((_scratch, _path, finished)) = run_in_shared_directory(make, as_root) else { return };
        assert!(finished.stderr.contains("another user's file"), "{}", finished.stderr);
    }
}

/// The directory is not writable, and the existing file is the user's: it is overwritten in place.
#[test]
fn the_file_of_the_user_in_a_closed_directory_is_written() {
    let Some((scratch, path, finished)) = run_in_closed_directory(NOBODY) else { return };
    expect_profile(&finished, &path, 2);
    assert_eq!(names_of_closed(&scratch), ["prof"]);
}

/// The directory is not writable, and the existing file is another user's: it is refused.
#[test]
fn the_file_of_another_user_in_a_closed_directory_is_refused() {
    let Some((scratch, path, finished)) = run_in_closed_directory(STRANGER) else { return };
    assert_eq!(content(&path), "before", "a stranger's file was written into");
    assert!(finished.stderr.contains("another user's file"), "{}", finished.stderr);
    assert_eq!(names_of_closed(&scratch), ["prof"]);
}

#[track_caller]
fn run_in_closed_directory(owner: u32) -> Option<(Scratch, PathBuf, Finished)> {
    if !is_root("make a file of another user") {
        return None;
    }
    let scratch = scratch();
    let path = scratch.directory("closed").join("prof");
    fs::write(&path, "before").expect("our own directory");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("our own file");
    chown(&path, Some(owner), Some(owner)).expect("root may");
    let finished = run(as_nobody(&scratch, &path).args(["tick", "2", "exit", "3"]));
    Some((scratch, path, finished))
}

#[track_caller]
fn names_of_closed(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(scratch.path("closed")).expect("our own directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// The file is a mount point, which cannot be replaced: it is overwritten in place.
#[test]
fn a_mounted_file_is_written() {
    let scratch = scratch();
    let directory = scratch.directory("mounts");
    let (path, other) = (directory.join("prof"), scratch.write("other", "before"));
    fs::write(&path, "").expect("our own directory");
    let script = format!("mount --bind '{}' \"$0/prof\" && \"$@\"", other.display());
    let Some(finished) = with_own_mounts(&script, &directory, &path, &scratch, "tick 2 exit 3") else {
        return;
    };
    expect_profile(&finished, &other, 2);
    assert_eq!(fs::read_dir(&directory).expect("our own directory").count(), 1);
}

/// The file system is read-only, with or without an older profile: a diagnostic reports it.
#[test]
fn reports_a_read_only_file_system() {
    let scratch = scratch();
    let directory = scratch.directory("fixed");
    for name in ["old", "new"] {
        let path = directory.join(name);
        let script =
            "mount -t tmpfs none \"$0\" && echo old > \"$0/old\" && mount -o remount,ro \"$0\" && \"$@\"";
        let Some(finished) = with_own_mounts(script, &directory, &path, &scratch, "exit 3") else { return };
        expect_words(&finished, &path, &["Read-only file system"]);
    }
}

/// The file system has no space or no inodes: an older profile remains, and a diagnostic says why.
#[test]
fn a_full_file_system_keeps_the_older_profile() {
    let scratch = scratch();
    let directory = scratch.directory("small");
    let path = directory.join("prof");
    for (options, fill) in [
        ("size=64k", "dd if=/dev/zero of=\"$0/filler\" bs=4k 2> /dev/null"),
        ("nr_inodes=4", ": > \"$0/filler\""),
    ] {
        let script = format!(
            "mount -t tmpfs -o {options} none \"$0\" && echo older > \"$0/prof\" || exit 78
            {fill}; \"$@\"; status=$?; cat \"$0/prof\"; ls -A \"$0\"; exit $status"
        );
        // Another file is created after the program has started, so that the start finds room.
        let orders = format!("tick 2 take {} exit 3", directory.join("own").display());
        let orders = if options.starts_with("nr") { orders } else { "tick 2 exit 3".to_owned() };
        let Some(finished) = with_own_mounts(&script, &directory, &path, &scratch, &orders) else { return };
        expect_words(&finished, &path, &["No space left on device", "free some space"]);
        let text = finished.text();
        assert!(text.starts_with("older\n") && !text.contains(".sigprof"), "{options}: {text}");
    }
}

/// The file size limit is small, with and without a handler of SIGXFSZ: no signal is delivered.
#[test]
fn a_limit_on_the_size_of_files_raises_no_signal() {
    for orders in ["size 100 tick 2 exit 3", "handle-size size 100 tick 2 exit 3"] {
        for old in [None, Some("old")] {
            let scratch = scratch();
            let path = scratch.path("prof");
            old.map(|old| scratch.write("prof", old));
            let finished = run(&mut places(&scratch, &path, orders));
            expect_words(&finished, &path, &["File too large", "ulimit -f"]);
            assert_eq!(finished.text(), "", "the application got our signal");
            assert_eq!(path.exists().then(|| content(&path)).as_deref(), old);
            assert_eq!(scratch.names(".sigprof"), Vec::<String>::new());
        }
    }
}
