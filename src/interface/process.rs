//! The process as the shared library has to know it.

use crate::sys::{
    loader, process,
    signal::{self, AllBlocked},
};

/// True when the environment is not to be trusted.
pub fn is_privileged() -> bool {
    process::is_privileged()
}

/// The calling process's id. Signal-safe.
pub fn process() -> u32 {
    process::id()
}

/// The number of a signal, by number or name.
pub fn signal_number(name: &[u8]) -> Option<i32> {
    signal::number(name)
}

/// True where nobody else uses the environment now, as far as libc knows. Not for signal context.
pub fn is_single_threaded() -> bool {
    loader::is_single_threaded()
}

/// Calls `f` with every signal blocked and cancellation put off.
pub fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    let _blocked = AllBlocked::new();
    f()
}

/// Calls `child` in each child that `fork` makes. For ordinary context.
pub fn at_fork_in_child(child: unsafe extern "C" fn()) {
    let _ = process::at_fork(None, None, Some(child));
}
