//! Process exits: status and output are as without the library, and the profile is complete if the
//! process can still act.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::support::{
    Linkage, Profile, Scratch, expect_status, is_full, plain, profiled, program_source, quietly,
    repository_root, rounds, run, shared_library, start, tool, wait,
};

/// Ticks that `programs/ends.c` sends itself before it exits.
const TICKS: usize = 5;
/// The exit status of `programs/ends.c`.
const STATUS: i32 = 7;

fn ends(scratch: &Scratch, linkage: Linkage) -> PathBuf {
    // Bound at load time: lazy binding takes more of a handler's stack than all else.
    scratch.compile("ends.c", linkage, &["-Wl,-z,now"])
}

/// Runs a case without and with the library. Panics unless both have the same status and output,
/// and the profile, announced by one line, holds all ticks that the application sent.
#[track_caller]
fn expect_complete_profile(case: &str, ticks: usize) {
    expect_complete_profiles(case, ticks, 1);
}

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

/// Cases in which threads compute; the scheduler decides how many ticks the timer adds.
const COMPUTING: [&str; 2] = ["with-threads-running", "by-another-thread"];

/// Panics unless the only profile is complete and has `ticks` samples. A timer with a period of a
/// second may add one.
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
fn underscore_exit_leaves_a_complete_profile() {
    for case in ["_exit", "_Exit"] {
        expect_complete_profile(case, TICKS);
    }
}

/// The application calls `_exit` in a signal handler: the profile is complete.
#[test]
fn a_signal_handler_can_call_underscore_exit() {
    expect_complete_profile("in-handler", TICKS);
}

/// A handler on an alternate stack with 768 spare bytes calls `_exit`: the profile is complete.
#[test]
fn a_handler_on_a_small_stack_can_call_underscore_exit() {
    expect_complete_profile("on-small-stack", TICKS);
}

/// The application calls `_exit`: nothing is allocated or locked, because handlers may call it.
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

/// Four threads call `_exit` simultaneously: one completes the profile, undisturbed.
#[test]
fn several_threads_can_call_underscore_exit_simultaneously() {
    expect_complete_profiles("by-threads-at-once", TICKS, rounds(5, 100));
}

/// A thread calls `_exit` while another is in an `atexit` function: the profile is complete.
#[test]
fn underscore_exit_can_run_during_exit() {
    expect_complete_profile("beside-exit", TICKS);
}

/// A thread with a pending cancellation calls `_exit`: the process exits with a complete profile.
#[test]
fn a_thread_with_a_pending_cancellation_can_call_underscore_exit() {
    expect_complete_profile("cancelled", TICKS);
}

/// The thread that calls `_exit` is cancelled while it writes the profile: the process exits.
#[test]
fn a_thread_in_underscore_exit_is_not_cancelled() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    // Never read. Opened at both ends, because opening one end would block.
    let _both_ends = File::options().read(true).write(true).open(&path).expect("our own pipe");
    let mut command = profiled(&program, &path);
    let finished = run(quietly(&mut command).env("CPUPROFILE_MAX_DEPTH", "4096").arg("cancelled-midway"));
    expect_status(&finished, STATUS);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
}

/// The application calls `quick_exit`: the profile has the time of its `at_quick_exit` function.
#[test]
fn quick_exit_leaves_a_complete_profile() {
    expect_complete_profile("quick_exit", TICKS + 1);
}

/// A program that is linked with the shared or the static library, and starts the profiler itself,
/// calls `_exit` or `quick_exit`: the profile is complete.
#[test]
fn a_linked_program_can_call_underscore_exit() {
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

/// A static program, which has no next definitions, calls `_exit`: the profile is complete.
#[test]
fn a_static_program_can_call_underscore_exit() {
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

/// An `atexit` function calls `exit`: the second status counts, and the profile is complete.
#[test]
fn exit_can_be_called_inside_exit() {
    expect_complete_profile("inside-exit", TICKS + 1);
}

/// The application returns from `main` while its threads compute: the profile is complete.
#[test]
fn main_can_return_while_threads_run() {
    expect_complete_profile("with-threads-running", TICKS);
}

/// A thread calls `exit` while the main and other threads run: the profile is complete.
#[test]
fn any_thread_can_call_exit() {
    expect_complete_profile("by-another-thread", TICKS + 1);
}

/// The main thread calls `pthread_exit`; the last thread exits the process with status 0.
#[test]
fn the_last_thread_can_exit_the_process() {
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    expect_status(&run(plain(&program).arg("by-the-last-thread")), 0);
    let finished = run(quietly(&mut profiled(&program, &scratch.path("prof"))).arg("by-the-last-thread"));
    expect_status(&finished, 0);
    expect_samples(&scratch, "by-the-last-thread", TICKS + 1);
}

/// Children of `vfork`, of `_Fork` and of a raw `clone` call `_exit`: the parent's session
/// continues, and its profile holds all ticks.
#[test]
fn children_without_fork_hooks_can_exit() {
    expect_complete_profile("after-children", TICKS + 1);
}

/// The application stops the profiler and calls `_exit`: there is one profile and one summary line.
#[test]
fn underscore_exit_after_a_stop_adds_nothing() {
    expect_complete_profile("after-a-stop", TICKS);
}

/// A signal or `abort` kills the application: the status is as without the library.
#[test]
fn a_signal_kills_the_program_as_without_the_library() {
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

/// A thread writes the profile to a pipe with a slow reader, and another calls `_exit`: the process
/// exits before all is written.
#[test]
fn underscore_exit_does_not_wait_for_a_slow_reader() {
    // At least a thousand words in each of the longer half of 500 stacks.
    const LEAST: usize = 500 * 500 / 2 * size_of::<usize>();
    let scratch = Scratch::new();
    let program = ends(&scratch, Linkage::None);
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    // Opened at both ends, so that it does not block; the writing end is closed before the start.
    let both_ends = File::options().read(true).write(true).open(&path).expect("our own pipe");
    let mut reader = File::open(&path).expect("our own pipe");
    let mut command = profiled(&program, &path);
    let child = start(quietly(&mut command).env("CPUPROFILE_MAX_DEPTH", "4096").arg("beside-a-flush"));
    let reading = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut total = 0;
        // So slow that the writer needs a minute, but not so slow that it gives up.
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
fn handles_no_other_signals() {
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
