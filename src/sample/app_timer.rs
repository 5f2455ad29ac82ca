//! Signals of the application's ITIMER_PROF while ticks share them. Signal-safe: system calls.
//!
//! The kernel drops an interval timer's signal while the same signal, even a tick, is pending: as
//! long as all threads block it. An application that waits for its timer could wait for ever. So
//! each tick checks for a missing signal, and replaces it. A late tick must not act as one.
//!
//! Any context reads and writes words, which may be mixed while the application arms its timer.

use crate::{
    sync::{AtomicBool, AtomicU64, Ordering},
    sys::{
        clock, signal,
        timer::{IntervalTimer, Itimerval},
    },
};

/// Nanoseconds by which the kernel's sampled time may differ from the CPU clock: some kernel ticks.
const SLACK: u64 = 12_000_000;

static IS_EXPECTED: AtomicBool = AtomicBool::new(false);
/// Nanoseconds between two expiries; 0 for a single one.
static INTERVAL: AtomicU64 = AtomicU64::new(0);
/// The CPU clock at the first expiry; 0 after that.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// The CPU clock at the last signal of the application's timer, or one interval before the first.
static LAST: AtomicU64 = AtomicU64::new(0);
/// A single expiry was once found without its signal.
static IS_MISS_SUSPECTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn on_armed(setting: &Itimerval) {
    let first = clock::process_cpu_nanos().saturating_add(setting.value());
    IS_EXPECTED.store(false, Ordering::SeqCst);
    INTERVAL.store(setting.interval(), Ordering::Relaxed);
    FIRST.store(first, Ordering::Relaxed);
    LAST.store(first.saturating_sub(setting.interval()), Ordering::Relaxed);
    IS_MISS_SUSPECTED.store(false, Ordering::Relaxed);
    IS_EXPECTED.store(true, Ordering::SeqCst);
}

pub(crate) fn on_disarmed() {
    IS_EXPECTED.store(false, Ordering::SeqCst);
    FIRST.store(0, Ordering::Relaxed);
}

/// True for a signal before the first expiry of the application's timer: a late tick.
pub(crate) fn is_too_early() -> bool {
    let first = FIRST.load(Ordering::Relaxed);
    first != 0 && clock::process_cpu_nanos().saturating_add(SLACK) < first
}

pub(crate) fn mark_delivered() {
    FIRST.store(0, Ordering::Relaxed);
    LAST.store(clock::process_cpu_nanos(), Ordering::Relaxed);
    if INTERVAL.load(Ordering::Relaxed) == 0 {
        IS_EXPECTED.store(false, Ordering::SeqCst);
    }
}

/// True if the kernel has dropped a signal of the application's timer. The caller must replace it.
pub(crate) fn has_missed_expiration() -> bool {
    if !IS_EXPECTED.load(Ordering::SeqCst) {
        return false;
    }
    let interval = INTERVAL.load(Ordering::Relaxed);
    let is_missing =
        if interval == 0 { is_single_expiration_missed() } else { is_periodic_expiration_missed(interval) };
    if is_missing && !signal::is_pending(IntervalTimer::Cpu.signal()) {
        mark_delivered();
        return true;
    }
    false
}

/// Expired at two ticks in a row without a signal: at the first, it may be about to be delivered.
fn is_single_expiration_missed() -> bool {
    let has_run_out = IntervalTimer::Cpu.get().is_ok_and(|setting| !setting.is_armed());
    has_run_out && IS_MISS_SUSPECTED.swap(true, Ordering::SeqCst)
}

/// After two intervals, and more than the clocks differ by.
fn is_periodic_expiration_missed(interval: u64) -> bool {
    let since = clock::process_cpu_nanos().saturating_sub(LAST.load(Ordering::Relaxed));
    since > interval.saturating_mul(2).saturating_add(4 * SLACK)
}
