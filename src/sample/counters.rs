//! Counters of ticks by result, and of walks by end. Each scratch slot has a set, which only the
//! slot's holder writes: counting needs no exchange between processors. Readers add up the sets.

use crate::sync::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Sum of the weights in the table.
    Samples,
    /// Ticks of the profiler's timers that are in the table.
    TimerTicks,
    /// Signals of other senders that are in the table.
    ForeignTicks,
    /// Ticks of weight 0: early or late ones, or without a clock that may be read.
    Early,
    Filtered,
    Excluded,
    /// Weight of the ticks that the full table refused.
    TableFull,
    /// Weight of the ticks without a user address as PC.
    NoPc,
    /// Walks, by end.
    Complete,
    Depth,
    Unreadable,
    NoRule,
    Loop,
    Unloading,
    /// Frames, by whether the cache had their rule.
    RuleHits,
    RuleMisses,
    /// Frames with a cached rule by which their CFI is evaluated each time.
    RulesEvaluated,
    /// Frames without CFI.
    FramesWithoutRule,
    /// Sampled shared objects that could not be noted.
    ObjectsMissed,
}

pub(crate) const COUNTERS: usize = Counter::ObjectsMissed as usize + 1;

pub(crate) struct Counters([AtomicU64; COUNTERS]);

impl Counters {
    /// For the slot's holder. Signal-safe: atomics.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if let Some(word) = self.0.get(counter as usize) {
            // Relaxed, without exchange: only the slot's holder writes, and the slot's hand-over
            // orders the writes of successive holders.
            word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    pub(crate) fn add_to(&self, totals: &mut Totals) {
        for (total, word) in totals.0.iter_mut().zip(&self.0) {
            *total = total.wrapping_add(word.load(Ordering::Relaxed));
        }
    }
}

/// Sums of all slots' counters, or the differences of two such sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals([u64; COUNTERS]);

impl Totals {
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    pub(crate) fn since(&self, start: &Self) -> Self {
        let mut difference = *self;
        for (value, before) in difference.0.iter_mut().zip(&start.0) {
            *value = value.wrapping_sub(*before);
        }
        difference
    }
}
