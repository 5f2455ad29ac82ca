//! Work to profile.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// What a test waits for comes in a second or two of CPU time, in twenty where the processor is emulated, and others on the machine may
/// take most of it; longer than this, and it does not come. It is less than who watches this process waits (`own_process.rs`).
const LIMIT: Duration = Duration::from_secs(540);

/// Does `work` again and again until `is_done` says so.
#[track_caller]
pub(crate) fn repeat_until(mut is_done: impl FnMut() -> bool, mut work: impl FnMut()) {
    let start = Instant::now();
    while !is_done() {
        work();
        assert!(start.elapsed() < LIMIT, "what the test waits for did not come in {LIMIT:?}");
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

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread's clock").into()
}
