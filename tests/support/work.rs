//! Work to profile.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Waits take one or two seconds of CPU time, twenty if emulated; other processes may take most
/// of the machine. Shorter than the watchdog's limit (`own_process.rs`).
const LIMIT: Duration = Duration::from_secs(540);

/// Repeats `work` until `is_done`.
#[track_caller]
pub(crate) fn repeat_until(mut is_done: impl FnMut() -> bool, mut work: impl FnMut()) {
    let start = Instant::now();
    while !is_done() {
        work();
        assert!(start.elapsed() < LIMIT, "what the test waits for did not come in {LIMIT:?}");
    }
}

/// Uses some milliseconds of CPU time in [`spin`], called by [`calls_spin`].
pub(crate) fn spin_for_a_while() {
    black_box(calls_spin(1 << 21));
}

/// Calls [`spin`]. Not a tail call, so this function is in its chains.
#[inline(never)]
pub(crate) fn calls_spin(rounds: u64) -> u64 {
    black_box(spin(rounds)) ^ 1
}

/// Uses time in its own frame: the loop contains no call, even without optimization.
#[inline(never)]
pub(crate) fn spin(rounds: u64) -> u64 {
    let mut state = rounds | 1;
    let mut round = 0;
    while round < rounds {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        round += 1;
    }
    state
}

pub(crate) fn process_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the process's clock").into()
}

pub(crate) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread's clock").into()
}
