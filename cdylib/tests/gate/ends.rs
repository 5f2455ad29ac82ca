//! Ends of a process: with the status and the output that it has without the library, and a complete profile wherever
//! the process can still act.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::support::{
    Linkage, Profile, Scratch, expect_status, is_full, plain, profiled, program_source, quietly,
    repository_root, rounds, run, shared_library, start, tool, wait,
};

/// Ticks that `programs/ends.c` sends itself before it ends.
const TICKS: usize = 5;
/// What it ends with.
const STATUS: i32 = 7;

fn ends(scratch: &Scratch, linkage: Linkage) -> PathBuf {
    // Bound at once: a lazy binding takes more of a handler's stack than all else.
    scratch.compile("ends.c", linkage, &["-Wl,-z,now"])
}

/// Runs a case without the library and with it; panics unless both end with the status and print the same, and the
/// profile, announced by one line, holds all ticks that the application sent.
#[track_caller]
fn expect_complete_profile(case: &str, ticks: usize) {
    expect_complete_profiles(case, ticks, 1);
}

/// Does so as many times as `rounds` says.
#[track_caller]
fn expect_complete_profiles(case: &str, ticks: usize, rounds: usize) {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let path = scratch.path("prof");
    for _ in 0..rounds {
        let alone = run(plain(&program).arg(case));
        expect_status(&alone, STATUS);
        let finished = run(quietly(&mut profiled(&program, &path)).arg(case));
        expect_status(&finished, STATUS);
        assert_eq!(finished.text(), alone.text(), "{case}: the output");
        expect_samples(&scratch, case, ticks);
        assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{case}");
        std::fs::remove_file(&path).expect("our own file");
    }
}

/// Cases in which threads compute, however long the scheduler takes to let the program end: the timer adds what they use.
const COMPUTING: [&str; 2] = ["with-threads-running", "by-another-thread"];

/// Panics unless the only profile is complete and holds so many samples, and no more than a timer that fires once in a
/// second of CPU time may have added.
#[track_caller]
fn expect_samples(scratch: &Scratch, case: &str, ticks: usize) {
    let path = scratch.path("prof");
    let bytes = std::fs::metadata(&path).map(|file| file.len()).unwrap_or(0);
    assert!(bytes > 0, "{case}: the application lost its whole profile");
    let samples = Profile::read(&path).samples();
    let most = if COMPUTING.contains(&case) { usize::MAX } else { ticks + 1 };
    assert!((ticks..=most).contains(&samples), "{case}: {samples} samples, {ticks} ticks were sent");
    assert_eq!(scratch.names("prof"), ["prof"], "{case}");
    assert_eq!(scratch.names(".sigprof"), [""; 0], "{case}: a file was left behind");
}

/// The application calls `_exit` or `_Exit`: the profile is complete.
#[test]
fn a_program_may_end_by_underscore_exit() {
    for case in ["_exit", "_Exit"] {
        expect_complete_profile(case, TICKS);
    }
}

/// The application calls `_exit` in a signal handler: the profile is complete.
#[test]
fn a_signal_handler_may_end_the_program() {
    expect_complete_profile("in-handler", TICKS);
}

/// The handler has an alternate stack with 768 bytes beside the kernel's frame: `_exit` writes the profile all the same.
#[test]
fn a_handler_on_a_small_stack_may_end_the_program() {
    expect_complete_profile("on-small-stack", TICKS);
}

/// The application calls `_exit`: nothing is allocated and no lock of libc taken, since a handler may have interrupted those.
#[test]
fn underscore_exit_neither_allocates_nor_locks() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::Shared);
    let detector = scratch.compile_library("detector.c", &[]);
    let mut command = plain(program);
    command.env("LD_PRELOAD", detector);
    let finished = run(quietly(&mut command).arg("watched-exit").arg(scratch.path("prof")));
    expect_status(&finished, STATUS);
    expect_samples(&scratch, "watched-exit", TICKS);
}

/// Four threads call `_exit` at once: one of them completes the profile, and the others do not end it midway.
#[test]
fn several_threads_may_end_the_program_at_once() {
    expect_complete_profiles("by-threads-at-once", TICKS, rounds(5, 100));
}

/// A thread calls `_exit` while another is inside `exit`, in a function of the application's: the profile is complete.
#[test]
fn underscore_exit_may_come_beside_exit() {
    expect_complete_profile("beside-exit", TICKS);
}

/// The thread that calls `_exit` is to be cancelled: it ends the program all the same, with a complete profile.
#[test]
fn a_cancelled_thread_may_end_the_program() {
    expect_complete_profile("cancelled", TICKS);
}

/// The thread that calls `_exit` is cancelled while the profile is being written: it ends the program all the same.
#[test]
fn a_thread_that_ends_the_program_is_not_cancelled() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    // Never read: opened so that opening it waits for nobody.
    let _both_ends = File::options().read(true).write(true).open(&path).expect("our own pipe");
    let mut command = profiled(&program, &path);
    let finished = run(quietly(&mut command).env("CPUPROFILE_MAX_DEPTH", "4096").arg("cancelled-midway"));
    expect_status(&finished, STATUS);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
}

/// The application calls `quick_exit`: its own function for that runs as before, and its time is in the profile.
#[test]
fn a_program_may_end_quickly() {
    expect_complete_profile("quick_exit", TICKS + 1);
}

/// A program that is linked with the shared or the static library, and starts the profiler itself, ends by `_exit` or
/// `quick_exit`: the profile is complete.
#[test]
fn a_linked_program_may_end_without_exit() {
    for linkage in [Linkage::Shared, Linkage::Static] {
        for (case, ticks) in [("_exit", TICKS), ("_Exit", TICKS), ("quick_exit", TICKS + 1)] {
            let scratch = Scratch::new();
            let finished =
                run(quietly(&mut plain(ends(&scratch, linkage))).arg(case).arg(scratch.path("prof")));
            expect_status(&finished, STATUS);
            expect_samples(&scratch, &format!("{linkage:?} {case}"), ticks);
        }
    }
}

/// A program without the dynamic loader has no next definition: it ends all the same, with a complete profile.
#[test]
fn a_static_program_may_end_without_exit() {
    for (case, ticks) in
        [("_exit", TICKS), ("_Exit", TICKS), ("quick_exit", TICKS + 1), ("in-handler", TICKS)]
    {
        let scratch = Scratch::new();
        let program = scratch.path("ends");
        let mut compiler = tool("gcc");
        compiler.args(["-std=c11", "-O2", "-static", "-I"]).arg(repository_root().join("include"));
        compiler.arg(program_source("ends.c")).arg(shared_library().with_file_name("libprofiler.a"));
        compiler.args(["-lutil", "-lrt", "-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
        run(&mut compiler).expect_success();
        let finished = run(quietly(&mut plain(program)).arg(case).arg(scratch.path("prof")));
        expect_status(&finished, STATUS);
        expect_samples(&scratch, case, ticks);
    }
}

/// The application calls `exit` inside a function that `exit` runs: its second status counts, and the profile is complete.
#[test]
fn exit_may_be_called_inside_exit() {
    expect_complete_profile("inside-exit", TICKS + 1);
}

/// The application returns from `main` while its threads compute: the profile is complete.
#[test]
fn main_may_return_while_threads_run() {
    expect_complete_profile("with-threads-running", TICKS);
}

/// A thread that is not the first calls `exit` while others compute and wait: the profile is complete.
#[test]
fn any_thread_may_exit() {
    expect_complete_profile("by-another-thread", TICKS + 1);
}

/// The first thread ends by `pthread_exit`, and the last one to end ends the program, with status 0.
#[test]
fn the_last_thread_may_end_the_program() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    expect_status(&run(plain(&program).arg("by-the-last-thread")), 0);
    let finished = run(quietly(&mut profiled(&program, &scratch.path("prof"))).arg("by-the-last-thread"));
    expect_status(&finished, 0);
    expect_samples(&scratch, "by-the-last-thread", TICKS + 1);
}

/// Children of `vfork`, of `_Fork` and of a raw `clone` call `_exit`: the parent's session continues, and its profile
/// holds all ticks.
#[test]
fn children_that_run_no_fork_hook_may_end() {
    expect_complete_profile("after-children", TICKS + 1);
}

/// The application stops the profiler and calls `_exit`: there is one profile and one line.
#[test]
fn underscore_exit_after_a_stop_adds_nothing() {
    expect_complete_profile("after-a-stop", TICKS);
}

/// The application is ended by the default action of a signal, or aborts: with the status that it has without the library.
#[test]
fn a_signal_ends_the_program_as_ever() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let signals = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGKILL,
        libc::SIGUSR1,
        libc::SIGSEGV,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGXCPU,
        libc::SIGSYS,
    ];
    let cases = signals.map(|signal| (format!("SIG{signal}"), signal));
    for (case, signal) in cases.into_iter().chain([("abort".to_owned(), libc::SIGABRT)]) {
        expect_status(&run(plain(&program).arg(&case)), 128 + signal);
        let finished = run(quietly(&mut profiled(&program, &scratch.path("prof"))).arg(&case));
        expect_status(&finished, 128 + signal);
        assert_eq!((finished.text().as_str(), finished.complaints()), ("", vec![]), "{case}");
    }
}

/// A thread writes the profile to a pipe whose reader has taken a little of it, and another calls `_exit`: the program ends
/// although nobody reads the rest. In the full check the reader reads on slowly, and the program ends long before all is
/// written.
#[test]
fn underscore_exit_does_not_wait_for_a_slow_reader() {
    // A thousand words and more in each of the longer half of 500 chains.
    const LEAST: usize = 500 * 500 / 2 * size_of::<usize>();
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    // Opened at both ends, so that it waits for nobody; the writing end goes before the program starts.
    let both_ends = File::options().read(true).write(true).open(&path).expect("our own pipe");
    let mut reader = File::open(&path).expect("our own pipe");
    let mut command = profiled(&program, &path);
    let child = start(quietly(&mut command).env("CPUPROFILE_MAX_DEPTH", "4096").arg("beside-a-flush"));
    let reading = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut total = 0;
        // So slow that the writer needs a minute, and never so slow that it gives up.
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            total += read;
            if total >= LEAST || !is_full() {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        (total, reader)
    });
    let finished = wait(child);
    drop(both_ends);
    expect_status(&finished, STATUS);
    let (total, _) = reading.join().expect("the reader does not panic");
    assert!(total < LEAST, "all was written before the program ended");
}

/// The library handles only the profiling signal and the toggle signal.
#[test]
fn no_other_signal_is_caught() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let caught = |command: &mut Command| {
        let finished = run(quietly(command).arg("print-caught-signals"));
        expect_status(&finished, STATUS);
        let text = finished.text();
        let bits = text.trim().strip_prefix("SigCgt:").expect("the kernel tells it").trim().to_owned();
        u64::from_str_radix(&bits, 16).expect("a number of base 16")
    };
    let bit = |signal: i32| 1u64 << (signal - 1);
    assert_eq!(caught(&mut plain(&program)), 0);
    assert_eq!(caught(&mut profiled(&program, &scratch.path("prof"))), bit(libc::SIGPROF));
    let mut toggled = profiled(&program, &scratch.path("prof"));
    assert_eq!(caught(toggled.env("CPUPROFILESIGNAL", "SIGUSR2")), bit(libc::SIGUSR2));
}
