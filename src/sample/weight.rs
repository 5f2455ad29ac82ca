//! What a tick weighs: how many periods of time it stands for.
//!
//! The kernel sends at most one tick of a CPU timer per jiffy, and none while one is pending, so at high rates
//! most are never sent. A tick of our timer therefore consumes all time since the one before: its weight is that
//! time over the period, rounded, and the signed remainder is carried on. Over a session the weights times the
//! period are the time used, to within half a period.
//!
//! The kernel may also send too many: ITIMER_PROF runs on times that it samples once per jiffy, and they can be ahead
//! of the time used by a fifth where threads change places often. A tick with less than half a period behind it
//! weighs nothing; it is counted and left out.
//!
//! If threads have timers of their own, a thread's tick represents the thread's time ([`threads`](super::threads)), and the
//! process's ticks represent the [`remainder`](super::remainder). So both are charged here.
//!
//! Any tick consumes, whether it is recorded, filtered or lost: otherwise the next one would be charged for it.

use crate::{
    sync::{AtomicBool, AtomicU64, Ordering},
    sys::{clock, timer::IntervalTimer},
};

static IS_REAL: AtomicBool = AtomicBool::new(false);
/// Nanoseconds; at least 1 once a session has run.
static PERIOD: AtomicU64 = AtomicU64::new(1);
/// The clock's value up to which time has been charged; ahead of the clock by at most half a period.
static CHARGED: AtomicU64 = AtomicU64::new(0);

/// Begins to count from now. For ordinary context, before the timer is armed.
pub(crate) fn begin(timer: IntervalTimer, period_micros: u32) {
    IS_REAL.store(timer == IntervalTimer::Real, Ordering::Relaxed);
    PERIOD.store(u64::from(period_micros.max(1)) * 1000, Ordering::Relaxed);
    // Release: pairs with the acquire in `consume`, which runs in a tick of a timer armed behind this.
    CHARGED.store(read_clock(), Ordering::Release);
}

/// The timer that [`begin`] was called for last. Signal-safe.
pub(crate) fn timer() -> IntervalTimer {
    if IS_REAL.load(Ordering::Relaxed) { IntervalTimer::Real } else { IntervalTimer::Cpu }
}

/// The weight of a tick of our timer, 0 for one that came early. Signal-safe: `clock_gettime` and atomics.
pub(crate) fn consume() -> usize {
    consume_until(read_clock())
}

/// The same, for a tick that represents all time up to `now`, which the clock has passed.
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

/// Charges the weight of a thread's own tick, where the process's clock counts its time as well: elapsed time passes for each
/// thread. Signal-safe.
pub(crate) fn charge(weight: u64) {
    if IS_REAL.load(Ordering::Relaxed) {
        return;
    }
    let period = PERIOD.load(Ordering::Relaxed);
    CHARGED.fetch_add(weight.wrapping_mul(period), Ordering::Relaxed);
}

/// Charges all time up to now to nobody, since others have. Signal-safe.
pub(crate) fn charge_all() {
    CHARGED.store(read_clock(), Ordering::Relaxed);
}

/// Nanoseconds of a period. Signal-safe.
pub(crate) fn period() -> u64 {
    PERIOD.load(Ordering::Relaxed)
}

/// Nanoseconds that no tick stands for, when the clock is at `now`.
pub(crate) fn unaccounted_nanos(now: u64) -> u64 {
    now.saturating_sub(CHARGED.load(Ordering::Relaxed))
}

/// True where half a period or more has gone by since `then`, which this gave, by the clock that time is charged by; and the
/// clock's value then. Signal-safe: `clock_gettime` and atomics.
pub(crate) fn has_passed_since(then: u64) -> (bool, u64) {
    let now = read_clock();
    (are_apart(then, now, PERIOD.load(Ordering::Relaxed)), now)
}

fn are_apart(then: u64, now: u64, period: u64) -> bool {
    // Before `then` it is another clock's value, or that of a forked child, whose clock begins anew.
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

    /// The weights of ticks at these times, with their sum's distance from the time checked throughout.
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
    fn weights_add_up_to_the_time_whatever_the_ticks() {
        // Ticks every 4 ms as with HZ=250, then three in a row, then a long gap.
        let ticks = (1..=50u64).map(|i| i * 4_000_000).chain([200_000_001, 200_000_002, 999_500_000]);
        assert!(weights(ticks, 1_000_000).iter().take(50).all(|&weight| weight == 4));
    }

    #[test]
    fn ticks_at_the_period_weigh_one_though_they_jitter() {
        let ticks = (1..=1000u64).map(|i| i * 10_000 + i * 7919 % 4000);
        assert!(weights(ticks, 10_000).iter().all(|&weight| weight == 1));
    }

    /// A moment that is before the last one is one of another clock, and far from it.
    #[test]
    fn moments_are_apart_from_half_a_period_on_and_where_the_clock_began_anew() {
        let then = 7_000_000_000;
        let later = [0, 4_999_999, 5_000_000, 1_000_000_000].map(|nanos| then + nanos);
        assert_eq!(later.map(|now| are_apart(then, now, 10_000_000)), [false, false, true, true]);
        assert_eq!([0, 1, then - 1].map(|now| are_apart(then, now, 10_000_000)), [true; 3]);
    }

    #[test]
    fn a_timer_that_runs_fast_adds_no_time() {
        let ticks = (1..=1200u64).map(|i| i * 10_000 / 12 * 10);
        let weights = weights(ticks, 10_000);
        assert_eq!(weights.iter().sum::<u64>(), 1000);
        assert!(weights.iter().all(|&weight| weight <= 1));
    }
}
