//! The calling thread.

use core::time::Duration;

/// Lets other threads run for about a millisecond. For ordinary context, while it waits for handlers to leave.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// How many processors the calling thread may run on, at least 1.
pub(crate) fn processors() -> usize {
    use nix::{
        sched::{CpuSet, sched_getaffinity},
        unistd::Pid,
    };
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return 1 };
    (0..CpuSet::count()).filter(|&processor| set.is_set(processor) == Ok(true)).count().max(1)
}
