//! The weight of a tick, in periods. Signal-safe: `clock_gettime` and atomics.
//!
//! The kernel sends at most one tick of a CPU timer per jiffy, and none while one is pending. So a
//! tick consumes all time since the last one: its weight is that time in periods, rounded, and the
//! signed rest is carried over. The sum of the weights is the time, to within half a period.
//!
//! ITIMER_PROF uses times that the kernel samples per jiffy, up to a fifth ahead if threads switch
//! often. A tick has weight 0 if less than half a period is not charged yet.
//!
//! Per-thread ticks represent the thread's time ([`timer_table`](super::timer_table)), process
//! ticks the [`remainder`](super::remainder). Both are charged here, also if filtered or lost.

use crate::{
    sync::{AtomicBool, AtomicU64, Ordering},
    sys::{clock, timer::IntervalTimer},
};

static IS_REAL: AtomicBool = AtomicBool::new(false);
/// Nanoseconds; at least 1 after the first session's start.
static PERIOD: AtomicU64 = AtomicU64::new(1);
/// The clock up to which time has been charged. It is at most half a period ahead, and up to a cell
/// for each thread with a timer.
static CHARGED: AtomicU64 = AtomicU64::new(0);

/// Starts charging from now. To be called before the timer is armed.
pub(crate) fn begin(timer: IntervalTimer, period_micros: u32) {
    IS_REAL.store(timer == IntervalTimer::Real, Ordering::Relaxed);
    PERIOD.store(u64::from(period_micros.max(1)) * 1000, Ordering::Relaxed);
    // Release: pairs with the acquire in `consume_until`, in a tick of a timer that is armed later.
    CHARGED.store(read_clock(), Ordering::Release);
}

pub(crate) fn timer() -> IntervalTimer {
    if IS_REAL.load(Ordering::Relaxed) { IntervalTimer::Real } else { IntervalTimer::Cpu }
}

/// Returns a tick's weight, 0 for an early one.
pub(crate) fn consume() -> usize {
    consume_until(read_clock())
}

/// The same for a tick that represents all time up to `now`.
pub(crate) fn consume_until(now: u64) -> usize {
    let mut charged = CHARGED.load(Ordering::Acquire);
    let period = PERIOD.load(Ordering::Relaxed).max(1);
    loop {
        let weight = weight(charged, now, period);
        let next = charged.wrapping_add(weight.wrapping_mul(period));
        // Relaxed: the value orders nothing.
        match CHARGED.compare_exchange_weak(charged, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return usize::try_from(weight).unwrap_or(usize::MAX),
            Err(other) => charged = other,
        }
    }
}

/// Charges a per-thread tick's weight, except of elapsed time, which passes for each thread.
pub(crate) fn charge(weight: u64) {
    if IS_REAL.load(Ordering::Relaxed) {
        return;
    }
    let period = PERIOD.load(Ordering::Relaxed);
    CHARGED.fetch_add(weight.wrapping_mul(period), Ordering::Relaxed);
}

/// Charges all time up to now, because other ticks represent it.
pub(crate) fn charge_all() {
    CHARGED.store(read_clock(), Ordering::Relaxed);
}

pub(crate) fn period() -> u64 {
    PERIOD.load(Ordering::Relaxed)
}

pub(crate) fn unaccounted_nanos(now: u64) -> u64 {
    now.saturating_sub(CHARGED.load(Ordering::Relaxed))
}

/// Whether half a period has passed since `then`, a value that this returned; and the clock now.
pub(crate) fn has_passed_since(then: u64) -> (bool, u64) {
    let now = read_clock();
    (are_apart(then, now, PERIOD.load(Ordering::Relaxed)), now)
}

fn are_apart(then: u64, now: u64, period: u64) -> bool {
    // An earlier value is of another clock, or of a forked child: its clock begins anew.
    now.checked_sub(then).is_none_or(|passed| passed >= period / 2)
}

fn read_clock() -> u64 {
    if IS_REAL.load(Ordering::Relaxed) { clock::monotonic_nanos() } else { clock::process_cpu_nanos() }
}

fn weight(charged: u64, now: u64, period: u64) -> u64 {
    (now + period / 2).saturating_sub(charged) / period
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the weights of these ticks, and checks that their sum is near the time.
    fn weights(ticks: impl IntoIterator<Item = u64>, period: u64) -> Vec<u64> {
        let mut charged = 0;
        let weights = ticks.into_iter().map(|now| {
            let weight = weight(charged, now, period);
            charged += weight * period;
            assert!(charged.abs_diff(now) <= period / 2 + 1, "charged {charged} ns of {now}");
            weight
        });
        weights.collect()
    }

    #[test]
    fn sums_weights_to_the_time() {
        // As with HZ=250, then three in a row, then a long gap.
        let ticks = (1..=50u64).map(|i| i * 4_000_000).chain([200_000_001, 200_000_002, 999_500_000]);
        assert!(weights(ticks, 1_000_000).iter().take(50).all(|&weight| weight == 4));
    }

    #[test]
    fn weighs_ticks_with_jitter_as_one() {
        let ticks = (1..=1000u64).map(|i| i * 10_000 + i * 7919 % 4000);
        assert!(weights(ticks, 10_000).iter().all(|&weight| weight == 1));
    }

    #[test]
    fn times_are_apart_after_half_a_period_or_a_clock_reset() {
        let then = 7_000_000_000;
        let later = [0, 4_999_999, 5_000_000, 1_000_000_000].map(|nanos| then + nanos);
        assert_eq!(later.map(|now| are_apart(then, now, 10_000_000)), [false, false, true, true]);
        assert_eq!([0, 1, then - 1].map(|now| are_apart(then, now, 10_000_000)), [true; 3]);
    }

    #[test]
    fn fast_timer_adds_no_time() {
        let ticks = (1..=1200u64).map(|i| i * 10_000 / 12 * 10);
        let weights = weights(ticks, 10_000);
        assert_eq!(weights.iter().sum::<u64>(), 1000);
        assert!(weights.iter().all(|&weight| weight <= 1));
    }
}
