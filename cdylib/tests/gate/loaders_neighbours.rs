//! Other libraries in the program: initialised before ours and behind it, with all that a constructor may do, and those that
//! people preload. The application runs and ends as it would, and its profile is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Lack, Linkage, Profile, Scratch, exit_code, plain, profiled, run, shared_library, skip, tool,
};

/// Ticks that the application sends itself; the timer is silent for the first second of CPU time.
const ORDERS: [&str; 6] = ["tick", "5", "print", "hello", "exit", "3"];

fn loading(scratch: &Scratch) -> PathBuf {
    scratch.compile("loading.c", Linkage::None, &[])
}

/// `programs/loading.c` with both libraries preloaded: the last is initialised first.
fn beside(scratch: &Scratch, neighbour: &Path, is_neighbour_first: bool) -> Command {
    let (ours, theirs) = (shared_library().display(), neighbour.display());
    let pair = if is_neighbour_first { format!("{ours} {theirs}") } else { format!("{theirs} {ours}") };
    let mut command = plain(loading(scratch));
    command.args(ORDERS).env("LD_PRELOAD", pair).env("CPUPROFILE_FREQUENCY", "1");
    command.env("CPUPROFILE", scratch.path("prof"));
    command
}

#[track_caller]
fn expect_unharmed(finished: &Finished, what: &str) {
    let ended = (exit_code(finished.status), finished.text());
    assert_eq!(ended, (3, "hello\n".to_owned()), "{what}: the application was harmed: {}", finished.stderr);
    assert_eq!(finished.complaints(), Vec::<&str>::new(), "{what}");
}

/// The samples of all profiles, which are valid.
#[track_caller]
fn samples(scratch: &Scratch) -> usize {
    let names = scratch.names("prof");
    names.iter().map(|name| Profile::read(&scratch.path(name)).samples()).sum()
}

/// A library starts threads, forks, opens a library or asks for handlers in its constructor, before ours is initialised or after it: the application is profiled as before.
#[test]
fn constructors_before_and_behind() {
    for action in ["threads", "fork", "open", "signal"] {
        for is_first in [true, false] {
            let scratch = Scratch::new();
            let neighbour = scratch.compile_library("neighbour.c", &[]);
            let plugin = scratch.compile_library("plugin_tick.c", &[]);
            let mut command = beside(&scratch, &neighbour, is_first);
            let finished = run(command.env("EARLY", action).env("NEIGHBOUR", plugin));
            let what = format!("{action}, first: {is_first}");
            expect_unharmed(&finished, &what);
            let found = samples(&scratch);
            assert!(found >= 5 && (found == 5 || action == "threads"), "{what}: {found} of 5 samples");
        }
    }
}

/// A library replaces the program in its constructor: the new one is profiled.
#[test]
fn a_constructor_that_replaces_the_program() {
    for is_first in [true, false] {
        let scratch = Scratch::new();
        let neighbour = scratch.compile_library("neighbour.c", &[]);
        let finished = run(beside(&scratch, &neighbour, is_first).env("EARLY", "exec"));
        expect_unharmed(&finished, &format!("first: {is_first}"));
        assert_eq!(samples(&scratch), 5, "first: {is_first}: the application lost its profile");
    }
}

/// A library ends the program in its constructor, before ours is initialised or after it: with its status, and what is written
/// is valid.
#[test]
fn a_constructor_that_ends_the_program() {
    for (is_first, names) in [(true, &[][..]), (false, &["prof"])] {
        let scratch = Scratch::new();
        let neighbour = scratch.compile_library("neighbour.c", &[]);
        let finished = run(beside(&scratch, &neighbour, is_first).env("EARLY", "exit"));
        expect_unharmed(&finished, &format!("first: {is_first}"));
        assert_eq!(
            (scratch.names("prof"), samples(&scratch)),
            (names.iter().map(ToString::to_string).collect(), 0)
        );
    }
}

/// A library starts the profiler in its constructor and stops it in its destructor, or leaves that to the end of the program.
#[test]
fn constructors_that_start_the_profiler() {
    for (is_first, late) in [(true, "stop"), (false, "stop"), (true, ""), (false, "")] {
        let scratch = Scratch::new();
        let neighbour = scratch.compile_library("neighbour.c", &[]);
        let mut command = beside(&scratch, &neighbour, is_first);
        command.env_remove("CPUPROFILE").env("STARTED", scratch.path("prof"));
        let finished = run(command.env("EARLY", "start").env("LATE", late));
        let what = format!("first: {is_first}, then {late:?}");
        expect_unharmed(&finished, &what);
        assert_eq!((samples(&scratch), finished.end_lines()), (5, 1), "{what}");
    }
}

/// A library stops the profiler in its destructor, though the environment has started it, or forks there.
#[test]
fn destructors() {
    for action in ["stop", "fork", "open"] {
        for is_first in [true, false] {
            let scratch = Scratch::new();
            let neighbour = scratch.compile_library("neighbour.c", &[]);
            let plugin = scratch.compile_library("plugin_tick.c", &[]);
            let mut command = beside(&scratch, &neighbour, is_first);
            let finished = run(command.env("LATE", action).env("NEIGHBOUR", plugin));
            let what = format!("{action}, first: {is_first}");
            expect_unharmed(&finished, &what);
            assert_eq!((samples(&scratch), finished.end_lines()), (5, 1), "{what}");
        }
    }
}

/// The program's allocator calls `dlsym` and `sigaction` each time, also while we are initialised: nothing recurses.
#[test]
fn an_allocator_that_asks_the_loader() {
    for is_first in [true, false] {
        let scratch = Scratch::new();
        let neighbour = scratch.compile_library("odd_malloc.c", &["-fno-builtin"]);
        let finished = run(&mut beside(&scratch, &neighbour, is_first));
        expect_unharmed(&finished, &format!("first: {is_first}"));
        assert_eq!(samples(&scratch), 5);
    }
}

/// Preloaded beside allocators and libraries that change what the application sees of files and of time, in either order: the
/// application is profiled as before. Debian's libjemalloc2, libtcmalloc-minimal4, libeatmydata1 and libfaketime; those that are not
/// installed are skipped.
#[test]
fn beside_what_people_preload() {
    let directory = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let libraries =
        ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libeatmydata.so", "faketime/libfaketime.so.1"];
    for library in libraries.map(|name| directory.join(name)) {
        if !library.exists() {
            skip(Lack::Tool, format_args!("no {}", library.display()));
            continue;
        }
        for is_first in [true, false] {
            let scratch = Scratch::new();
            let mut command = beside(&scratch, &library, is_first);
            // Time goes ten times as fast, and is another.
            let finished = run(command.env("FAKETIME", "-15d x10"));
            let what = format!("{}, first: {is_first}", library.display());
            expect_unharmed(&finished, &what);
            assert_eq!((samples(&scratch), finished.end_lines()), (5, 1), "{what}");
        }
    }
}

/// Started by tools that preload a library of their own: stdbuf and fakeroot, which is skipped if it is not installed.
#[test]
fn under_tools_that_preload() {
    for words in [&["stdbuf", "-oL"][..], &["fakeroot"]] {
        if tool(words[0]).arg("--version").output().is_err() {
            skip(Lack::Tool, format_args!("no {}", words[0]));
            continue;
        }
        let scratch = Scratch::new();
        let program = loading(&scratch);
        let mut command = profiled(words[0], &scratch.path("prof"));
        command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_QUIET", "1");
        let finished = run(command.args(&words[1..]).arg(program).args(ORDERS));
        expect_unharmed(&finished, words[0]);
        assert_eq!(samples(&scratch), 5, "{}: the application lost its profile", words[0]);
    }
}

/// Under valgrind, which runs the program's code itself and prints a line for each unusual system call. Skipped if it is not installed.
#[test]
#[cfg(target_arch = "x86_64")]
fn under_valgrind() {
    if tool("valgrind").arg("--version").output().is_err() {
        return skip(Lack::Tool, "no valgrind");
    }
    let scratch = Scratch::new();
    let program = loading(&scratch);
    let mut command = profiled("valgrind", &scratch.path("prof"));
    command.env("CPUPROFILE_QUIET", "1").env("CPUPROFILE_FREQUENCY", "1");
    let finished = run(command.args(["--tool=none", "-q"]).arg(program).args(ORDERS));
    let ended = (exit_code(finished.status), finished.text());
    assert_eq!(ended, (3, "hello\n".to_owned()), "the application was harmed: {}", finished.stderr);
    assert_eq!(finished.stderr, "", "valgrind reports what the profiler does");
    assert!(samples(&scratch) >= 5, "the application lost its profile");
}
