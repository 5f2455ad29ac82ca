//! Other libraries in the program, with constructors and destructors that run before or after the
//! library's, and commonly preloaded libraries. The application runs as before and has a profile.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Lack, Linkage, Profile, Scratch, exit_code, plain, profiled, run, shared_library, skip, tool,
};

/// The application sends itself these ticks; the timer does not expire in the first second.
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

/// The number of samples in all profiles, which must be valid.
#[track_caller]
fn samples(scratch: &Scratch) -> usize {
    let names = scratch.names("prof");
    names.iter().map(|name| Profile::read(&scratch.path(name)).samples()).sum()
}

/// A constructor starts threads, forks, opens a library or sets handlers: the profile is complete.
#[test]
fn constructors_of_other_libraries_are_harmless() {
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

/// A constructor of another library replaces the program: the new one is profiled.
#[test]
fn a_constructor_can_replace_the_program() {
    for is_first in [true, false] {
        let scratch = Scratch::new();
        let neighbour = scratch.compile_library("neighbour.c", &[]);
        let finished = run(beside(&scratch, &neighbour, is_first).env("EARLY", "exec"));
        expect_unharmed(&finished, &format!("first: {is_first}"));
        assert_eq!(samples(&scratch), 5, "first: {is_first}: the application lost its profile");
    }
}

/// A constructor of another library, before or after ours, exits: the status is unchanged, and
/// written profiles are valid.
#[test]
fn a_constructor_can_exit() {
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

/// A constructor starts the profiler; a destructor or the exit stops it: the profile is complete.
#[test]
fn a_constructor_can_start_the_profiler() {
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

/// A destructor stops the profiler, forks, or opens a library: the profile is complete.
#[test]
fn destructors_can_stop_fork_and_open_libraries() {
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

/// The allocator calls `dlsym` and `sigaction`, even during initialisation: none recurses.
#[test]
fn an_allocator_can_call_the_loader() {
    for is_first in [true, false] {
        let scratch = Scratch::new();
        let neighbour = scratch.compile_library("odd_malloc.c", &["-fno-builtin"]);
        let finished = run(&mut beside(&scratch, &neighbour, is_first));
        expect_unharmed(&finished, &format!("first: {is_first}"));
        assert_eq!(samples(&scratch), 5);
    }
}

/// Common allocators and libraries that change files and time are preloaded too, in either order:
/// the application is profiled as before. (Debian's libjemalloc2, libtcmalloc-minimal4,
/// libeatmydata1 and libfaketime, if installed.)
#[test]
fn works_with_commonly_preloaded_libraries() {
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
            // Time is shifted and passes ten times as fast.
            let finished = run(command.env("FAKETIME", "-15d x10"));
            let what = format!("{}, first: {is_first}", library.display());
            expect_unharmed(&finished, &what);
            assert_eq!((samples(&scratch), finished.end_lines()), (5, 1), "{what}");
        }
    }
}

/// stdbuf or fakeroot, which preload a library, start the application: it is profiled.
#[test]
fn works_under_tools_that_preload() {
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

/// The application runs under valgrind: it is profiled, and valgrind prints nothing.
#[test]
#[cfg(target_arch = "x86_64")]
fn works_under_valgrind() {
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
