//! Failing system calls of the profiler: the application runs and exits as without the profiler.
//! The profile is complete, or missing with a line that states the reason.
//!
//! The calls are not listed here. The kernel reports each call to `programs/fault_injector.c`,
//! which finds them in a first run. Then each call fails at its first, second, third ...
//! occurrence: only that one, or all from there. The gate tests the first few occurrences and one
//! error of each call, the full check all.

use std::collections::BTreeMap;
use std::fs;

use crate::faults::{
    ABRUPT, Answer, Bench, CALLS, Case, Fault, REPLACED, SESSION, TIMEOUT_SECONDS, TOGGLE, check,
};
use crate::support::{Scratch, is_full, rounds, shared_library};
use nix::errno::Errno;

/// Calls without errors for valid arguments, and the one by which the application toggles. The
/// profiler calls `rt_sigprocmask` with invalid arguments on purpose, to get the error.
const CANNOT_FAIL: &[i64] = &[
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_tgkill,
];

/// Errors that a call can have, each of another kind. For a call that is not listed: errors of a
/// sandbox and of a system that lacks a resource.
fn errors_of(call: i64) -> &'static [Errno] {
    use Errno::*;
    match call {
        libc::SYS_openat => &[EACCES, EMFILE, ENOSPC, EROFS],
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_close => &[EIO],
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev => &[ENOSPC, EIO, EDQUOT],
        libc::SYS_renameat | libc::SYS_renameat2 => &[EACCES, EPERM, EIO, ENOSPC],
        libc::SYS_mmap | libc::SYS_mprotect | libc::SYS_munmap | libc::SYS_mremap => &[ENOMEM, EPERM],
        libc::SYS_madvise => &[EINVAL, ENOMEM],
        libc::SYS_ftruncate | libc::SYS_fallocate => &[ENOSPC, EIO, EPERM],
        libc::SYS_unlinkat | libc::SYS_mkdirat => &[EACCES, EIO, EROFS],
        libc::SYS_newfstatat | libc::SYS_fstat | libc::SYS_statx => &[EACCES, ENOMEM],
        libc::SYS_readlinkat | libc::SYS_readlink => &[EACCES, EIO],
        libc::SYS_clone | libc::SYS_clone3 => &[EAGAIN, ENOMEM],
        libc::SYS_execve => &[EACCES, ENOMEM],
        libc::SYS_timer_create | libc::SYS_timer_settime => &[EAGAIN, ENOMEM],
        _ => &[EPERM, ENOSYS, ENOMEM],
    }
}

/// How many occurrences of a call fail.
#[derive(Clone, Copy)]
enum Reach {
    One,
    AllFromThere,
    /// As many as a program has that gets signal after signal.
    Hundred,
}

/// Runs `case` with `answer` for the first, second, third ... of `calls`, until there are fewer.
/// Returns the failures.
fn sweep(
    bench: &Bench,
    case: &Case,
    calls: &[i64],
    answer: Answer,
    reach: Reach,
    hits_lines: bool,
) -> Vec<String> {
    let undisturbed = bench.undisturbed(case);
    let mut wrong = Vec::new();
    for first in 1..=rounds(3, 100_000) as u64 {
        let last = match reach {
            Reach::One => first,
            Reach::AllFromThere => u64::from(u32::MAX),
            Reach::Hundred => first + 99,
        };
        let fault = Fault { calls: calls.to_vec(), answer, first, last, hits_lines };
        let outcome = bench.run(case, &fault, first % 2 == 0);
        let answered = outcome.report.answered;
        if let Err(what) = check(case, &fault, &undisturbed, &outcome) {
            wrong.push(format!("{}, {fault}: {what}", case.name));
        }
        bench.clear();
        if answered == 0 {
            break;
        }
    }
    wrong
}

/// Returns the calls of the profiler in `case`, with their numbers, from a run without faults.
#[track_caller]
fn calls_of(bench: &Bench, case: &Case, hits_lines: bool) -> BTreeMap<i64, u64> {
    let none =
        Fault { calls: Vec::new(), answer: Answer::Error(Errno::EPERM), first: 0, last: 0, hits_lines };
    let outcome = bench.run(case, &none, false);
    let result = check(case, &none, &bench.undisturbed(case), &outcome);
    assert_eq!(result, Ok(()), "without any fault: {}", outcome.finished.stderr);
    bench.clear();
    assert!(outcome.report.calls.contains_key(&libc::SYS_openat), "the calls are not seen");
    outcome.report.calls.into_iter().filter(|(call, _)| !CANNOT_FAIL.contains(call)).collect()
}

#[track_caller]
fn expect_nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} runs went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Makes each call of `case` fail with each of its errors.
#[track_caller]
fn expect_unharmed(case: &Case) {
    let bench = Bench::new(shared_library());
    let mut wrong = Vec::new();
    for call in calls_of(&bench, case, false).into_keys() {
        for &error in errors_of(call).iter().take(rounds(1, usize::MAX)) {
            for reach in [Reach::One, Reach::AllFromThere] {
                wrong.extend(sweep(&bench, case, &[call], Answer::Error(error), reach, false));
            }
        }
    }
    expect_nothing(&wrong);
}

/// A program that is profiled by the environment, forks, has threads, flushes, and fails to replace
/// itself. It and its child run as before; each profile exists, or a line says why not. A failing
/// fork or exec fails with the same error for the program.
#[test]
fn a_session_survives_every_failing_call() {
    expect_unharmed(&SESSION);
}

#[test]
fn a_toggle_survives_every_failing_call() {
    expect_unharmed(&TOGGLE);
}

#[test]
fn starts_and_stops_survive_every_failing_call() {
    expect_unharmed(&CALLS);
}

#[test]
fn underscore_exit_survives_every_failing_call() {
    expect_unharmed(&ABRUPT);
}

/// A program that replaces itself by another, which runs as before.
#[test]
fn a_replaced_program_survives_every_failing_call() {
    expect_unharmed(&REPLACED);
}

/// From some call on, there are no new mappings, and the heap does not grow.
#[test]
fn a_session_survives_a_lack_of_memory() {
    let bench = Bench::new(shared_library());
    let calls = [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk];
    let answer = Answer::Error(Errno::ENOMEM);
    expect_nothing(&sweep(&bench, &SESSION, &calls, answer, Reach::AllFromThere, false));
}

#[test]
fn interrupted_calls_are_repeated() {
    const INTERRUPTIBLE: &[i64] = &[
        libc::SYS_openat,
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
    ];
    let bench = Bench::new(shared_library());
    let mut wrong = Vec::new();
    for case in [&SESSION, &TOGGLE, &REPLACED] {
        for call in calls_of(&bench, case, false).into_keys().filter(|call| INTERRUPTIBLE.contains(call)) {
            wrong.extend(sweep(&bench, case, &[call], Answer::Error(Errno::EINTR), Reach::Hundred, false));
        }
    }
    expect_nothing(&wrong);
}

/// The kernel reads or writes less than requested, once or always: the rest follows.
#[test]
fn partial_reads_and_writes_are_continued() {
    let bench = Bench::new(shared_library());
    let mut wrong = Vec::new();
    for case in [&SESSION, &TOGGLE, &REPLACED] {
        for call in [libc::SYS_read, libc::SYS_write, libc::SYS_pwrite64] {
            for reach in [Reach::One, Reach::AllFromThere] {
                wrong.extend(sweep(&bench, case, &[call], Answer::Half, reach, false));
            }
        }
    }
    expect_nothing(&wrong);
}

/// Lines to standard error cannot be written, or their target is unknown: all else is as before.
#[test]
fn lines_that_fail_change_nothing() {
    let bench = Bench::new(shared_library());
    let work = calls_of(&bench, &SESSION, false);
    let mut wrong = Vec::new();
    let mut tried = 0;
    for (call, times) in calls_of(&bench, &SESSION, true) {
        if times == work.get(&call).copied().unwrap_or(0) && call != libc::SYS_ppoll {
            continue;
        }
        tried += 1;
        for error in [Errno::EPERM, Errno::EIO].into_iter().take(rounds(1, 2)) {
            for reach in [Reach::One, Reach::AllFromThere] {
                wrong.extend(sweep(&bench, &SESSION, &[call], Answer::Error(error), reach, true));
            }
        }
    }
    expect_nothing(&wrong);
    assert!(tried > 1, "the profiler writes no line, or nothing tells where it goes");
}

/// Finds each fault in a profiler that has it, and none in a profiler without.
#[test]
fn detects_each_fault_of_a_careless_profiler() {
    use Errno::{EACCES, EINTR, ENOSPC};
    let open = (libc::SYS_openat, Answer::Error(EACCES), Reach::One);
    let write = (libc::SYS_write, Answer::Error(ENOSPC), Reach::One);
    let none = (libc::SYS_rt_sigreturn, Answer::Error(EACCES), Reach::One);
    let traps = [
        ("ends the application", open, "the program ends with (134"),
        ("hangs", open, "the program hangs"),
        ("says nothing", open, "and no line says so"),
        ("hides the path", open, "does not name the path"),
        ("hides the cause", open, "does not name the path and \"Permission denied\""),
        ("leaves files", write, "the file prof.new is left"),
        ("leaves files open", none, "files are left open"),
        ("writes in place", write, "prof: the"),
        ("loses ticks", none, "has 9 of 10 ticks"),
        ("blocks signals", none, "signals are blocked"),
        ("changes errno", none, "changed errno"),
        ("is content with less", (libc::SYS_write, Answer::Half, Reach::One), "prof: the"),
        ("gives up", (libc::SYS_write, Answer::Error(EINTR), Reach::Hundred), "no reason to give up"),
    ];
    let scratch = Scratch::new();
    let library = scratch.compile_library("fault_careless.c", &[]);
    let profiler = scratch.path("libprofiler.so.0");
    fs::rename(library, &profiler).expect("our own file");
    let mut bench = Bench::new(&profiler);
    for (fault, (call, answer, reach), expected) in traps {
        // An application "hangs" after the time limit, which may be too short for a busy machine.
        if fault == "hangs" && !is_full() {
            continue;
        }
        (bench.variables, bench.timeout_seconds) = (vec![], TIMEOUT_SECONDS);
        expect_nothing(&sweep(&bench, &CALLS, &[call], answer, reach, false));
        bench.variables = vec![("CARELESS", fault)];
        if fault == "hangs" {
            bench.timeout_seconds = 2;
        }
        let wrong = sweep(&bench, &CALLS, &[call], answer, reach, false);
        assert!(wrong.iter().any(|what| what.contains(expected)), "{fault}: not seen in {wrong:?}");
    }
}
