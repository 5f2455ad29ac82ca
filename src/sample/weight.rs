//! What a tick weighs: how many periods of time it stands for.
//!
//! The kernel sends at most one tick of a CPU timer per jiffy, and none while one is pending, so at high rates
//! most are never sent. A tick of our timer therefore consumes all time since the one before: its weight is that
//! time over the period, at least 1, and the signed remainder is carried on. Over a session the weights times the
//! period are the time used, to within one period.
//!
//! Any tick consumes, whether it is recorded, filtered or lost: otherwise the next one would be charged for it.

use crate::{
    sync::{AtomicBool, AtomicU64, Ordering},
    sys::{clock, timer::IntervalTimer},
};

static IS_REAL: AtomicBool = AtomicBool::new(false);
/// Nanoseconds; at least 1 once a session has run.
static PERIOD: AtomicU64 = AtomicU64::new(1);
/// The clock's value up to which time has been charged. It may run ahead of the clock by less than a period for
/// each tick that came early, and is then behind again after the next ones.
static CHARGED: AtomicU64 = AtomicU64::new(0);

/// Begins to count from now. For ordinary context, before the timer is armed.
pub(crate) fn begin(timer: IntervalTimer, period_micros: u32) {
    IS_REAL.store(timer == IntervalTimer::Real, Ordering::Relaxed);
    PERIOD.store(u64::from(period_micros.max(1)) * 1000, Ordering::Relaxed);
    // Release: pairs with the acquire in `consume`, which runs in a tick of a timer armed behind this.
    CHARGED.store(read_clock(), Ordering::Release);
}

/// The weight of a tick of our timer. Signal-safe: `clock_gettime` and atomics.
pub(crate) fn consume() -> usize {
    let mut charged = CHARGED.load(Ordering::Acquire);
    let now = read_clock();
    let period = PERIOD.load(Ordering::Relaxed);
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

fn read_clock() -> u64 {
    if IS_REAL.load(Ordering::Relaxed) { clock::monotonic() } else { clock::process_cpu() }
}

fn weight(charged: u64, now: u64, period: u64) -> u64 {
    (now.saturating_sub(charged) / period).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_the_time_whatever_the_ticks() {
        let period = 1_000_000;
        // Ticks every 4 ms as with HZ=250, then three in a row, then a long gap.
        let ticks = (1..=50u64).map(|i| i * 4_000_000).chain([200_000_001, 200_000_002, 999_500_000]);
        let mut charged = 0;
        let mut sum = 0;
        let mut last = 0;
        for now in ticks {
            let weight = weight(charged, now, period);
            assert!(weight >= 1);
            charged += weight * period;
            sum += weight;
            last = now;
        }
        assert!((sum * period).abs_diff(last) <= period, "{sum} periods for {last} ns");
    }

    #[test]
    fn a_tick_that_comes_early_is_made_up_for() {
        let period = 100;
        let first = weight(0, 60, period) * period;
        assert_eq!(first, 100, "at least one period");
        assert_eq!(first + weight(first, 200, period) * period, 200);
    }
}
