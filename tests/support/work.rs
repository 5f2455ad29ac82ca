//! Work to profile.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// CPU time. What a test waits for comes in a second or two of it, in twenty where the processor is emulated; longer than this, and it
/// does not come. How much passes meanwhile is the business of others on the machine.
const LIMIT: Duration = Duration::from_secs(90);
/// Elapsed time, below that of `own_process.rs`, for who waits without work.
const LONGEST: Duration = Duration::from_secs(540);

/// Does `work` again and again until `is_done` says so.
#[track_caller]
pub(crate) fn repeat_until(mut is_done: impl FnMut() -> bool, mut work: impl FnMut()) {
    let (start, used_before) = (Instant::now(), process_cpu());
    while !is_done() {
        work();
        let is_long = process_cpu() - used_before >= LIMIT || start.elapsed() >= LONGEST;
        assert!(!is_long, "what the test waits for did not come in {LIMIT:?} of CPU time, or {LONGEST:?}");
    }
}

/// Some milliseconds of CPU time, all in [`spin`], called by [`calls_spin`].
pub(crate) fn spin_for_a_while() {
    black_box(calls_spin(1 << 21));
}

/// Calls [`spin`], and is found in its chains: the call is not the last thing it does.
#[inline(never)]
pub(crate) fn calls_spin(rounds: u64) -> u64 {
    black_box(spin(rounds)) ^ 1
}

/// Uses time in its own frame: without optimization, too, nothing in the loop is a call.
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

/// CPU time that this process has used.
pub(crate) fn process_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the process's clock").into()
}
