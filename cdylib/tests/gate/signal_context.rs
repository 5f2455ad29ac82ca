//! The signal handler must not allocate, lock, change `errno` or need much stack.

use std::path::Path;

use crate::support::{Finished, Linkage, Profile, Scratch, exit_code, plain, quietly_with_threads, run};

/// The exit status of a process in which `programs/detector.c` detects a call.
const DETECTED: i32 = 70;

/// The handler's limit of the interrupted stack, besides the kernel's signal frame. Rust programs
/// have alternate stacks of 8 KiB; on machines with AVX-512, the kernel's frame takes most of it.
const STACK_LIMIT: usize = 2048;

/// Runs a case of `programs/watched.c`, with the detecting allocator if `detected`.
fn run_watched(scratch: &Scratch, case: &str, detected: bool) -> Finished {
    let program = scratch.compile("watched.c", Linkage::Shared, &[]);
    let detector = scratch.compile_library("detector.c", &[]);
    let mut command = plain(program);
    // The program sends itself all ticks.
    quietly_with_threads(&mut command).arg(case).arg(scratch.path("prof"));
    if detected {
        command.env("LD_PRELOAD", detector);
    }
    run(&mut command)
}

/// Panics unless the profile has all ticks that the program reports, and at most one other for each
/// second of CPU time that it reports.
#[track_caller]
fn expect_all_ticks(scratch: &Scratch, finished: &Finished) {
    let figures: Vec<usize> =
        finished.text().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [sent, seconds_begun] = figures[..] else { panic!("{finished:?}") };
    let samples = Profile::read(&scratch.path("prof")).samples();
    assert!((sent..=sent + seconds_begun).contains(&samples), "{samples} samples, {sent} ticks sent");
}

/// At hundreds of new code addresses, in callbacks from libc, on new threads and during flushes.
#[test]
fn a_tick_neither_allocates_nor_locks() {
    let scratch = Scratch::new();
    let finished = run_watched(&scratch, "everywhere", true);
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    expect_all_ticks(&scratch, &finished);
}

/// A filter callback runs in the handler: the detector finds its calls.
#[test]
fn the_detector_sees_allocations_locks_and_waits_in_the_handler() {
    for (case, function) in
        [("allocating", "malloc"), ("locking", "pthread_mutex_lock"), ("waiting", "syscall(SYS_futex)")]
    {
        let scratch = Scratch::new();
        let finished = run_watched(&scratch, case, true);
        assert_eq!(exit_code(finished.status), DETECTED, "{case}: {}", finished.stderr);
        let expected = format!("detector: called in the signal handler: {function}");
        assert!(finished.stderr.contains(&expected), "{case}: {}", finished.stderr);
    }
}

#[test]
fn a_tick_keeps_errno() {
    let scratch = Scratch::new();
    let finished = run_watched(&scratch, "errno", false);
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    expect_all_ticks(&scratch, &finished);
}

/// The handler uses little of the interrupted stack, at new addresses and at known ones.
#[test]
fn a_tick_needs_little_of_the_interrupted_stack() {
    let scratch = Scratch::new();
    let program = scratch.compile("stack_use.c", Linkage::Shared, &[]);
    let baseline = stack_use(&program, Path::new("baseline"));
    let profiled = stack_use(&program, &scratch.path("prof"));
    for (when, used, empty) in [("first", profiled[0], baseline[0]), ("again", profiled[1], baseline[1])] {
        let needed = used.saturating_sub(empty);
        println!("{when}: {needed} bytes beyond an empty handler's {empty}");
        assert!(needed < STACK_LIMIT, "{when}: {used} bytes, an empty handler {empty}");
    }
    // 256 functions and some comparisons, twice: proves that the profiler's handler was measured.
    assert!(Profile::read(&scratch.path("prof")).samples() > 512);
}

/// Ticks do not overflow an alternate stack with exactly that much room above a guard page.
#[test]
fn a_tick_fits_an_alternate_stack_with_little_room() {
    let scratch = Scratch::new();
    let program = scratch.compile("alternate_stack.c", Linkage::Shared, &[]);
    let mut command = plain(program);
    command.arg(scratch.path("prof")).arg(STACK_LIMIT.to_string()).env("CPUPROFILE_FREQUENCY", "1");
    let finished = run(&mut command);
    assert_eq!(exit_code(finished.status), 0, "{}", finished.stderr);
    expect_all_ticks(&scratch, &finished);
}

/// The most bytes that a tick used: at new addresses, and at the same addresses again.
#[track_caller]
fn stack_use(program: &Path, argument: &Path) -> [usize; 2] {
    let finished = run(plain(program).arg(argument).env("CPUPROFILE_FREQUENCY", "1")).expect_success();
    let figures: Vec<usize> =
        finished.text().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    figures.try_into().expect("two figures")
}
