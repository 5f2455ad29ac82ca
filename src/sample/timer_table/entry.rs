//! One thread in the table: its timer, and how far its ticks represent its time.

use crate::sync::{
    Ordering,
    modelled::{AtomicI32, AtomicU32, AtomicU64},
};

/// A thread that a tick has tick_thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TickThread {
    /// Its id, as the kernel has it.
    pub(crate) thread: u32,
    /// Of the session that the tick is of.
    pub(crate) generation: u32,
    /// Its clock.
    pub(crate) now: u64,
}

impl TickThread {
    pub(super) fn key(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.thread)
    }
}

/// A thread's place in the table.
#[repr(C, align(64))]
pub(crate) struct TimerEntry {
    pub(super) key: AtomicU64,
    /// The kernel's name of its timer, plus one; or 0.
    pub(super) timer: AtomicI32,
    // The fields below are written by the thread itself. Its ticks do not interrupt each other.
    /// Ticks so far, wrapping.
    pub(super) ticks: AtomicU32,
    /// Its CPU clock when it was adopted.
    pub(super) since: AtomicU64,
    /// Its CPU clock at the next expiry.
    pub(super) due: AtomicU64,
    /// Periods of its cells.
    pub(super) periods: AtomicU32,
    /// The expiry's place in the cell, 1 to its length.
    pub(super) place: AtomicU64,
    /// Nanoseconds, as an `i64`: its unaccounted time when its clock was read last. Part of the sum.
    pub(super) unaccounted: AtomicU64,
}

impl TimerEntry {
    /// The CPU clock up to which ticks represent the thread: the end of the last tick's cell.
    pub(super) fn represented_until(&self) -> u64 {
        self.due.load(Ordering::Relaxed).wrapping_sub(self.place.load(Ordering::Relaxed))
    }

    /// False if the entry's thread has ended, since the clock of a thread with its id is at `now`: a tick represents its cell up to
    /// the end, and may come half a period early.
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
