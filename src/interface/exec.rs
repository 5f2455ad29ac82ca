//! The process is about to replace its program, or was about to.
//!
//! # Safety
//! Hands the path of the next program on to where it is read.
#![allow(unsafe_code)]

use crate::{
    control,
    sample::app_disposition,
    sys::{entry, errno},
};
use core::ffi::c_char;

/// What [`before_exec`] has changed.
#[derive(Clone, Copy)]
pub struct PendingExec {
    had_session: bool,
    ignores: bool,
}

/// The process is about to replace its program: ends the ticks, and writes what was gathered, if that is anything; and lets
/// the next program inherit that the host ignores our signal. Waits for nobody for longer than two seconds
/// (`sys::thread::Backoff` says which). Signal-safe, on a stack of any size.
///
/// `path` is the program's, or null where it is not known. Where none can be started from it nothing is written: who looks
/// for a program in one directory after another calls often.
///
/// # Safety
/// * `path` is as for `execve(2)`, or null.
pub unsafe fn before_exec(path: *const c_char) -> PendingExec {
    // SAFETY: the caller's word.
    let will_fail = !path.is_null() && unsafe { entry::is_not_executable(path) };
    let had_session = control::pause_for_exec(will_fail);
    PendingExec { had_session, ignores: app_disposition::ignore_across_exec() }
}

/// The program was not replaced, as [`before_exec`] had been told: all is as it was before, and ticks come again. Keeps
/// errno. Signal-safe, likewise.
pub fn after_failed_exec(pending: PendingExec) {
    let _errno = errno::ErrnoGuard::new();
    if pending.ignores {
        app_disposition::handle_after_failed_exec();
    }
    if pending.had_session {
        control::resume_after_failed_exec();
    }
}
