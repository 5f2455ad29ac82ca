//! What the host may expect of its own ITIMER_PROF while our ticks have the same signal.
//!
//! The kernel drops a signal of an interval timer while the same signal is pending, be it a tick of ours. It is pending
//! for as long as all threads block it, so a host that blocks SIGPROF and waits for its timer could wait for ever. Each tick
//! of ours therefore looks whether one of the host's is missing, and makes up for it. And a tick of ours that was already
//! on its way when the host armed its timer must not be taken for the host's.
//!
//! Readers and writers: any context. The words are looked at one by one; what a reader can mix up is a tick that comes
//! while the host arms its timer anew.

use crate::{
    sync::{AtomicBool, AtomicU64, Ordering},
    sys::{
        clock, signal,
        timer::{IntervalTimer, Itimerval},
    },
};

/// Nanoseconds by which the kernel's sampled time may differ from the CPU clock: some of its ticks.
const SLACK: u64 = 12_000_000;

/// The host waits for a signal of its timer.
static IS_EXPECTED: AtomicBool = AtomicBool::new(false);
/// Nanoseconds between two expiries; 0 for one alone.
static INTERVAL: AtomicU64 = AtomicU64::new(0);
/// The CPU clock at the first expiry, 0 once it was there.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// The CPU clock at the last signal of the host's timer, or one interval before the first expiry.
static LAST: AtomicU64 = AtomicU64::new(0);
/// A single expiry was found without its signal once.
static IS_MISS_SUSPECTED: AtomicBool = AtomicBool::new(false);

/// The host is about to arm its timer, or has.
pub(crate) fn on_armed(setting: &Itimerval) {
    let first = clock::process_cpu_nanos().saturating_add(setting.value());
    IS_EXPECTED.store(false, Ordering::SeqCst);
    INTERVAL.store(setting.interval(), Ordering::Relaxed);
    FIRST.store(first, Ordering::Relaxed);
    LAST.store(first.saturating_sub(setting.interval()), Ordering::Relaxed);
    IS_MISS_SUSPECTED.store(false, Ordering::Relaxed);
    IS_EXPECTED.store(true, Ordering::SeqCst);
}

/// The host has disarmed its timer.
pub(crate) fn on_disarmed() {
    IS_EXPECTED.store(false, Ordering::SeqCst);
    FIRST.store(0, Ordering::Relaxed);
}

/// True for an interval timer's signal that came before the host's timer can have sent one: a late tick of ours.
/// Signal-safe: `clock_gettime`.
pub(crate) fn is_too_early() -> bool {
    let first = FIRST.load(Ordering::Relaxed);
    first != 0 && clock::process_cpu_nanos().saturating_add(SLACK) < first
}

/// The host gets a signal of its timer. Signal-safe, likewise.
pub(crate) fn mark_delivered() {
    FIRST.store(0, Ordering::Relaxed);
    LAST.store(clock::process_cpu_nanos(), Ordering::Relaxed);
    if INTERVAL.load(Ordering::Relaxed) == 0 {
        IS_EXPECTED.store(false, Ordering::SeqCst);
    }
}

/// True when the kernel has dropped a signal of the host's timer, since a tick of ours was pending: the caller makes up
/// for it. Signal-safe: `clock_gettime`, and system calls.
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

/// A timer that has run out, and no signal of it at two ticks in a row: at the first it may be about to be delivered.
fn is_single_expiration_missed() -> bool {
    let has_run_out = IntervalTimer::Cpu.get().is_ok_and(|setting| !setting.is_armed());
    has_run_out && IS_MISS_SUSPECTED.swap(true, Ordering::SeqCst)
}

/// Two intervals, and more than the clocks differ by.
fn is_periodic_expiration_missed(interval: u64) -> bool {
    let since = clock::process_cpu_nanos().saturating_sub(LAST.load(Ordering::Relaxed));
    since > interval.saturating_mul(2).saturating_add(4 * SLACK)
}
