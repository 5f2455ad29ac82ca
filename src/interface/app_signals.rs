//! What the host does with signals: how it handles them, waits for them and reads them.
//!
//! # Safety
//! Reads and writes the host's structures; each function says what they must be.
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

/// Tells which function is the C library's own `sigaction`.
///
/// # Safety
/// * It is that, or behaves like it.
pub unsafe fn set_real_sigaction(function: SigactionFunction) {
    signal::set_real_sigaction(function);
}

/// True for the signal whose handler is ours. Signal-safe.
pub fn owns_signal(number: c_int) -> bool {
    AppDisposition::of(number).is_some_and(AppDisposition::is_replaced)
}

/// `sigaction(2)` for the host: for the signal that is ours, the host's setting is kept aside. Signal-safe.
///
/// # Safety
/// * As for `sigaction(2)`.
pub unsafe fn app_sigaction(number: c_int, new: *const CAction, old: *mut CAction) -> c_int {
    let Some(host) = AppDisposition::of(number).filter(|host| host.is_replaced()) else {
        // SAFETY: the caller's word.
        return unsafe { signal::real_sigaction()(number, new, old) };
    };
    // SAFETY: the caller's word: null or valid.
    let new = unsafe { new.as_ref() }.map(|new| Disposition::from_c(new).without_unblockable());
    let before = host.exchange(new);
    if new.is_some_and(|new| new.is_handler()) {
        tick_source::leave_threads_to_handler(number);
    }
    if !old.is_null() {
        // SAFETY: the caller's word: writable.
        unsafe { old.write(before.to_c()) };
    }
    0
}

/// True when a host that waits for one of these signals could be woken by a tick of ours. Signal-safe.
///
/// # Safety
/// * `set` is null or valid.
pub unsafe fn may_contain_tick_signal(set: *const SignalSet) -> bool {
    // SAFETY: the caller's word.
    unsafe { set.as_ref() }.is_some_and(|set| {
        app_disposition::signals().iter().any(|&number| owns_signal(number) && signal::contains(set, number))
    })
}

/// True when what the host has waited for is a tick of ours, so that it goes on waiting. The tick is lost, and its time is
/// charged to the next. Signal-safe.
pub fn is_tick(info: &mut SignalInfo) -> bool {
    let number = info.si_signo;
    // SAFETY: the kernel has filled it.
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

/// The host is about to read these signals by `signalfd(2)`, where ticks cannot be told apart: they end, and one line says
/// so. Signal-safe.
///
/// # Safety
/// * `set` is null or valid.
pub unsafe fn app_reads_signals(set: *const SignalSet) {
    // SAFETY: the caller's word.
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

/// The host is about to register this alternate stack for a thread. Signal-safe.
///
/// # Safety
/// * `stack` is null or valid.
pub unsafe fn app_alternate_stack(stack: *const AlternateStack) {
    // SAFETY: the caller's word.
    if unsafe { stack.as_ref() }.is_some_and(|stack| !signal::is_large_enough(stack)) {
        handler::avoid_alternate_stacks();
    }
}
