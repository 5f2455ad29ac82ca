//! The application's dispositions, waits and reads of signals. Signal-safe: system calls, atomics,
//! and locks that are held with all signals blocked.
//!
//! # Safety
//! Accesses structures of the application, under each function's preconditions.
#![allow(unsafe_code)]

use crate::{
    control::{self, Diagnostic},
    sample::{
        app_disposition::{self, AppDisposition},
        app_timer, fork_guard,
        handler::{self, LIVE_TICKS},
        tick_source,
    },
    sync::Ordering,
    sys::{
        errno,
        signal::{
            self, AlternateStack, CAction, Disposition, Origin, SigactionFunction, SignalInfo, SignalSet,
        },
        timer::IntervalTimer,
    },
};
use core::ffi::c_int;

/// Sets the C library's own `sigaction`.
///
/// # Safety
/// * `function` behaves like `sigaction(2)`.
pub unsafe fn set_real_sigaction(function: SigactionFunction) {
    signal::set_real_sigaction(function);
}

/// Whether the signal's handler is the profiler's.
pub fn owns_signal(number: c_int) -> bool {
    AppDisposition::of(number).is_some_and(AppDisposition::is_replaced)
}

/// `sigaction(2)`; if the handler is the profiler's, only stores the application's disposition.
///
/// # Safety
/// * As for `sigaction(2)`.
pub unsafe fn app_sigaction(number: c_int, new: *const CAction, old: *mut CAction) -> c_int {
    let Some(app) = AppDisposition::of(number).filter(|app| app.is_replaced()) else {
        // SAFETY: the arguments are valid for `sigaction(2)`, guaranteed by the caller.
        return unsafe { signal::real_sigaction()(number, new, old) };
    };
    // SAFETY: `new` is null or valid, guaranteed by the caller.
    let new = unsafe { new.as_ref() }.map(|new| Disposition::from_c(new).without_unblockable());
    let before = app.exchange(new);
    if new.is_some_and(|new| new.is_handler()) {
        tick_source::leave_threads_to_handler(number);
    }
    if !old.is_null() {
        // SAFETY: `old` is writable, guaranteed by the caller.
        unsafe { old.write(before.to_c()) };
    }
    0
}

/// Whether a wait for these signals can return a tick.
///
/// # Safety
/// * `set` is null or valid.
pub unsafe fn may_contain_tick_signal(set: *const SignalSet) -> bool {
    // SAFETY: `set` is null or valid, guaranteed by the caller.
    unsafe { set.as_ref() }.is_some_and(|set| {
        app_disposition::signals().iter().any(|&number| owns_signal(number) && signal::contains(set, number))
    })
}

/// Whether the application's wait returned a tick and must continue. The next tick has its weight.
pub fn is_tick(info: &mut SignalInfo) -> bool {
    let number = info.si_signo;
    // SAFETY: `info` was filled by the kernel.
    let origin = unsafe { Origin::of(info) };
    if !AppDisposition::of(number).is_some_and(AppDisposition::is_replaced) {
        return false;
    }
    let is_cpu = number == IntervalTimer::Cpu.signal();
    if !tick_source::swallows(number, origin, fork_guard::running_signal()) {
        if is_cpu && origin == Origin::IntervalTimer {
            app_timer::mark_delivered();
        }
        return false;
    }
    if is_cpu && app_timer::has_missed_expiration() {
        *info = signal::interval_timer_info(number);
        return false;
    }
    if tick_source::count_swallowed_tick(number, LIVE_TICKS.load(Ordering::Relaxed)) {
        report_no_ticks();
    }
    true
}

/// Stops ticks that the application would read by `signalfd(2)`, which cannot distinguish them.
///
/// # Safety
/// * `set` is null or valid.
pub unsafe fn app_reads_signals(set: *const SignalSet) {
    // SAFETY: `set` is null or valid, guaranteed by the caller.
    let Some(set) = (unsafe { set.as_ref() }) else { return };
    for number in app_disposition::signals() {
        if number != 0 && signal::contains(set, number) && tick_source::yield_signal_to_readers(number) {
            report_no_ticks();
        }
    }
}

fn report_no_ticks() {
    let _errno = errno::ErrnoGuard::new();
    control::report(&[], Diagnostic::NoTicks(tick_source::StartError::ReadByApp.into()));
}

/// Avoids alternate stacks in handlers if the application registers one that is too small.
///
/// # Safety
/// * `stack` is null or valid.
pub unsafe fn app_alternate_stack(stack: *const AlternateStack) {
    // SAFETY: `stack` is null or valid, guaranteed by the caller.
    if unsafe { stack.as_ref() }.is_some_and(|stack| !signal::is_large_enough(stack)) {
        handler::avoid_alternate_stacks();
    }
}
