//! The application's ITIMER_PROF, separate from the timers of ticks. Signal-safe: system calls, and
//! a lock held with all signals blocked.
//!
//! # Safety
//! Accesses structures of the application, under each function's preconditions.
#![allow(unsafe_code)]

use super::app_signals::owns_signal;
use crate::{
    control::{self, Diagnostic},
    sample::tick_source,
    sys::{
        errno,
        timer::{CItimerval, IntervalTimer, Itimerval},
    },
};
use core::ffi::c_int;

/// `setitimer(2)` for ITIMER_PROF if the handler is the profiler's, otherwise None. Sets errno.
///
/// # Safety
/// * As for `setitimer(2)`.
pub unsafe fn app_setitimer(which: c_int, new: *const CItimerval, old: *mut CItimerval) -> Option<c_int> {
    if which != IntervalTimer::Cpu.which() || !owns_signal(IntervalTimer::Cpu.signal()) {
        return None;
    }
    // SAFETY: `new` is null or valid, guaranteed by the caller. Null disarms, as in the kernel.
    let new = unsafe { new.as_ref() }.map_or(Itimerval::NONE, Itimerval::from_c);
    let before = match tick_source::set_for_app(new) {
        Err(number) => return Some(fail(number)),
        Ok((before, None)) => before,
        Ok((before, Some(refusal))) => {
            let _errno = errno::ErrnoGuard::new();
            control::report(&[], Diagnostic::NoTicks(refusal.into()));
            before
        }
    };
    if !old.is_null() {
        // SAFETY: `old` is writable, guaranteed by the caller.
        unsafe { old.write(before.to_c()) };
    }
    Some(0)
}

/// `getitimer(2)`, as [`app_setitimer`].
///
/// # Safety
/// * As for `getitimer(2)`.
pub unsafe fn app_getitimer(which: c_int, present: *mut CItimerval) -> Option<c_int> {
    if which != IntervalTimer::Cpu.which() || present.is_null() || !owns_signal(IntervalTimer::Cpu.signal()) {
        return None;
    }
    Some(match tick_source::get_for_app() {
        Err(number) => fail(number),
        Ok(setting) => {
            // SAFETY: `present` is writable, guaranteed by the caller.
            unsafe { present.write(setting.to_c()) };
            0
        }
    })
}

fn fail(number: i32) -> c_int {
    errno::set(number);
    -1
}
