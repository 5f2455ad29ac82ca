//! The calling thread: its timer, and whether it may be asked who it is.

use crate::{
    control,
    sample::{caller, thread_timers, tick_source},
    sys::{errno, signal::AllBlocked},
};

/// Gives the calling thread its own timer now. Signal-safe.
pub fn register_thread() {
    let _errno = errno::ErrnoGuard::new();
    let _blocked = AllBlocked::new();
    thread_timers::adopt_caller();
}

/// True if a thread that is about to be created should call [`register_thread`] when it begins. Signal-safe.
pub fn claim_new_thread() -> bool {
    thread_timers::claim_new_thread()
}

/// The application is about to forbid itself system calls. Threads' timers end, and handlers do not ask the kernel for the thread
/// any more. Does nothing in a child that shares the memory: it is not the child's session. Keeps errno. Signal-safe.
pub fn app_enters_sandbox() {
    if thread_timers::is_other_process() {
        return;
    }
    let _errno = errno::ErrnoGuard::new();
    tick_source::leave_threads();
    // Behind it: a handler that finds this said finds no timers either.
    caller::forbid();
    control::wait_for_running_handlers();
}
