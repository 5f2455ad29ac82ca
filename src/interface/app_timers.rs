//! The host's own timer of CPU time, beside that of ticks.
//!
//! # Safety
//! Reads and writes the host's structures; each function says what they must be.
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

/// `setitimer(2)` for the host, where the timer is one that sends the signal that is ours: the host's timer and our ticks
/// share nothing. None for any other timer, which is the system's business. Sets errno. Signal-safe.
///
/// # Safety
/// * As for `setitimer(2)`.
pub unsafe fn app_setitimer(which: c_int, new: *const CItimerval, old: *mut CItimerval) -> Option<c_int> {
    if which != IntervalTimer::Cpu.which() || !owns_signal(IntervalTimer::Cpu.signal()) {
        return None;
    }
    // SAFETY: the caller's word: null or valid. Null disarms, as the kernel has it.
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
        // SAFETY: the caller's word: writable.
        unsafe { old.write(before.to_c()) };
    }
    Some(0)
}

/// `getitimer(2)`, likewise. Signal-safe.
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
            // SAFETY: the caller's word: writable.
            unsafe { present.write(setting.to_c()) };
            0
        }
    })
}

fn fail(number: i32) -> c_int {
    errno::set(number);
    -1
}
