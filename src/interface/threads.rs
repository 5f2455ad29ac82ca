//! The calling thread: its timer and its sandbox. Signal-safe: system calls, atomics, and a lock
//! that is held with all signals blocked.

use crate::{
    control,
    sample::{caller, thread_timers, tick_source},
    sys::{errno, signal::AllBlocked},
};

pub fn register_thread() {
    let _errno = errno::ErrnoGuard::new();
    let _blocked = AllBlocked::new();
    thread_timers::adopt_caller();
}

/// Whether a new thread should call [`register_thread`] when it starts.
pub fn claim_new_thread() -> bool {
    thread_timers::claim_new_thread()
}

/// Deletes per-thread timers and stops system calls about threads, before a sandbox. Does nothing
/// in a child that shares the memory. Keeps errno.
pub fn app_enters_sandbox() {
    if thread_timers::is_other_process() {
        return;
    }
    let _errno = errno::ErrnoGuard::new();
    tick_source::leave_threads();
    // Last: a handler that sees this sees no timers either.
    caller::forbid_clock_reads();
    control::wait_for_running_handlers();
}
