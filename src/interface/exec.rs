//! Actions before and after `exec`. Signal-safe, on nearly full stacks: see `control::exit_hooks`.
//!
//! # Safety
//! Reads the path of the next program.
#![allow(unsafe_code)]

use crate::{
    control,
    sample::app_disposition,
    sys::{entry, errno},
};
use core::ffi::c_char;

#[derive(Clone, Copy)]
pub struct PendingExec {
    had_session: bool,
    ignores: bool,
}

/// Stops the ticks, and writes the profile if it has samples. Makes the new program ignore the
/// profiling signal if the application does. Waits at most 2 s. `path` is the program, null if
/// unknown. If it cannot be executed, nothing is written: a search of `PATH` calls this often.
///
/// # Safety
/// * `path` is as for `execve(2)`, or null.
pub unsafe fn before_exec(path: *const c_char) -> PendingExec {
    // SAFETY: `path` is a C string, guaranteed by the caller.
    let will_fail = !path.is_null() && unsafe { entry::is_not_executable(path) };
    let had_session = control::pause_for_exec(will_fail);
    PendingExec { had_session, ignores: app_disposition::ignore_across_exec() }
}

/// Reverts [`before_exec`] if `exec` failed. Keeps errno.
pub fn after_failed_exec(pending: PendingExec) {
    let _errno = errno::ErrnoGuard::new();
    if pending.ignores {
        app_disposition::handle_after_failed_exec();
    }
    if pending.had_session {
        control::resume_after_failed_exec();
    }
}
