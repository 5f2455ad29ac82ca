//! What happened to every tick, and how walks went.
//!
//! Each scratch slot has its own set, written by the handler that holds the slot, so that counting costs no
//! exchange between processors. Readers add the sets up; a session's figures are differences to its start.

use crate::sync::{AtomicU64, Ordering};

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Sum of the counts in the table.
    Samples,
    /// Ticks of our timer that are in the table.
    TimerTicks,
    /// Signals from elsewhere that are in the table.
    ForeignTicks,
    /// Ticks of our timer that came before half a period was used.
    Early,
    /// Ticks that the filter refused.
    Filtered,
    /// Ticks in an excluded object.
    Excluded,
    /// Weight of ticks that the full table refused.
    TableFull,
    /// Ticks whose interrupted PC is no address.
    NoPc,
    /// Walks by their end.
    Complete,
    Depth,
    Unreadable,
    NoRule,
    Loop,
    Unloading,
    /// Frames whose rule was in the cache.
    RuleHits,
    /// Frames whose rule was not.
    RuleMisses,
    /// Frames whose cached rule says that the call frame information has to be evaluated each time.
    RulesEvaluated,
    /// Frames that had no call frame information.
    FramesWithoutRule,
    /// Objects that were met but could not be noted.
    ObjectsMissed,
}

/// How many counters there are.
pub(crate) const COUNTERS: usize = Counter::ObjectsMissed as usize + 1;

/// A set of counters with one writer at a time.
pub(crate) struct Counters([AtomicU64; COUNTERS]);

impl Counters {
    /// Adds to a counter. Signal-safe. Only for who holds the slot.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if let Some(word) = self.0.get(counter as usize) {
            // Relaxed, and no exchange: the holder of the slot is the only writer, and the slot's hand-over orders
            // one holder's writes before the next one's.
            word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Adds this set to `totals`.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        for (total, word) in totals.0.iter_mut().zip(&self.0) {
            *total = total.wrapping_add(word.load(Ordering::Relaxed));
        }
    }
}

/// Counters of all slots together, or the difference of two such sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals([u64; COUNTERS]);

impl Totals {
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// What was added since `start`.
    pub(crate) fn since(&self, start: &Self) -> Self {
        let mut difference = *self;
        for (value, before) in difference.0.iter_mut().zip(&start.0) {
            *value = value.wrapping_sub(*before);
        }
        difference
    }
}
