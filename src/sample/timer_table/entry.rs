//! A thread's timer in the timer table, and how far its ticks represent its time.

use crate::sync::{
    Ordering,
    modelled::{AtomicI32, AtomicU32, AtomicU64},
};

/// A thread and its clock, for the timer table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickThread {
    pub(crate) thread: u32,
    pub(crate) generation: u32,
    pub(crate) now: u64,
}

impl TickThread {
    pub(super) fn key(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.thread)
    }
}

#[repr(C, align(64))]
pub(crate) struct TimerEntry {
    pub(super) key: AtomicU64,
    /// The timer's ID plus one; or 0.
    pub(super) timer: AtomicI32,
    // The thread writes these fields after its adoption. Its ticks do not interrupt each other.
    /// Wrapping.
    pub(super) ticks: AtomicU32,
    /// The thread's clock at its adoption.
    pub(super) since: AtomicU64,
    /// The thread's clock at the next expiry.
    pub(super) due: AtomicU64,
    /// Periods of a cell.
    pub(super) periods: AtomicU32,
    /// The expiry's place in the cell, from 1 to its length.
    pub(super) place: AtomicU64,
    /// Nanoseconds, as an `i64`, when the clock was read last. Surveys write it, too.
    pub(super) unaccounted: AtomicU64,
}

impl TimerEntry {
    /// The clock at the end of the last tick's cell.
    pub(super) fn represented_until(&self) -> u64 {
        self.due.load(Ordering::Relaxed).wrapping_sub(self.place.load(Ordering::Relaxed))
    }

    /// Whether the entry can be of a thread with the clock `now`; false for a new thread with the
    /// same ID. The clock may lag: a tick represents its whole cell, and may be half a period
    /// early.
    pub(super) fn may_be_of(&self, now: u64, period: u64) -> bool {
        let cell = period.saturating_mul(u64::from(self.periods.load(Ordering::Relaxed)));
        let latest = now.saturating_add(cell).saturating_add(period / 2);
        now >= self.since.load(Ordering::Relaxed) && latest >= self.represented_until()
    }

    #[cfg(test)]
    pub(super) fn unused() -> Self {
        Self {
            key: AtomicU64::new(0),
            timer: AtomicI32::new(0),
            ticks: AtomicU32::new(0),
            since: AtomicU64::new(0),
            due: AtomicU64::new(0),
            periods: AtomicU32::new(0),
            place: AtomicU64::new(0),
            unaccounted: AtomicU64::new(0),
        }
    }
}
