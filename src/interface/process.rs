//! The process, for the shared library.

use crate::sys::{
    loader, process,
    signal::{self, AllBlocked},
};

/// Whether the environment must not be trusted (AT_SECURE).
pub fn is_privileged() -> bool {
    process::is_privileged()
}

/// Signal-safe: a system call.
pub fn process() -> u32 {
    process::id()
}

/// From its number or name.
pub fn signal_number(name: &[u8]) -> Option<i32> {
    signal::number(name)
}

/// Whether the process has one thread, as far as libc knows. Not for signal context.
pub fn is_single_threaded() -> bool {
    loader::is_single_threaded()
}

pub fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    let _blocked = AllBlocked::new();
    f()
}

/// Registers `child` to be called in forked children. Not for signal context.
pub fn at_fork_in_child(child: unsafe extern "C" fn()) {
    let _ = process::at_fork(None, None, Some(child));
}
