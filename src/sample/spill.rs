//! The half of a table that was left, on its way to a file: by the handlers that follow, one at a time, a slice each.
//!
//! A slice is two of the longest records (64 KiB), or four times as many bytes that are set to zero. So no tick takes
//! long, and a half is moved and cleared before the other can be full, however long its records are. Nothing is written
//! before every slot has been seen free once, since handlers may still be adding (`table/spilling.rs`); one that never
//! comes back keeps the half where it is, and what then finds both halves full is lost and counted.
//!
//! What cannot be written (no room, no right, a limit) stays in memory for the rest of the session.
//!
//! # Safety
//! Hands out what only one may use at a time to who has set the flag that says so.
#![allow(unsafe_code)]

use super::table::{Memory, Moving, RECORD_HEAD, Table};
use crate::{
    config::MAX_DEPTH,
    format::halves::{MOST_MOVED_WORDS, Other, Stand},
    sync::{AtomicI32, Ordering, modelled::AtomicBool},
    sys::{clock, errno, thread},
};
use core::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
};

/// Words that are written at once.
pub(crate) const SLICE_WORDS: usize = 2 * (RECORD_HEAD + MAX_DEPTH);
/// Words that are set to zero at once.
const CLEARED_WORDS: usize = 4 * SLICE_WORDS;
/// More than there are slots.
const MAX_SLOTS: usize = 128;

/// Where records go. Signal-safe.
pub(crate) trait SpillSink {
    /// Writes the first `words` words of the buffer behind the first `place` words of the file.
    ///
    /// # Errors
    /// An error number; the words are not in the file then.
    fn append(&mut self, place: u64, words: usize) -> Result<(), i32>;
    /// The file's name in its directory, before it is created.
    fn name(&mut self) -> &[u8];
    /// Removes a file that holds nothing.
    fn give_up(&mut self);
    /// Room for a slice.
    ///
    /// # Errors
    /// An error number.
    fn buffer(&mut self) -> Result<&mut [usize], i32>;
}

/// Who else may be in a half.
pub(crate) trait Slots {
    fn count(&self) -> usize;
    /// True for a slot that has been seen free, or whose holder asks.
    fn is_free(&self, i: usize) -> bool;
}

/// See the module.
pub(crate) struct Spiller<S> {
    is_busy: AtomicBool,
    /// Why records stay in memory, as an error number; 0 while they need not.
    failure: AtomicI32,
    progress: UnsafeCell<Progress<S>>,
}

/// How far the half has come, but for what its stand says.
pub(crate) struct Progress<S> {
    /// One bit for each slot that has been seen free since the halves changed places.
    seen_free: [u64; MAX_SLOTS / 64],
    /// Words that were set to zero.
    cleared: usize,
    /// Sum of the counts in the file.
    pub(crate) periods: u64,
    pub(crate) sink: S,
}

// SAFETY: the progress is touched only through `SpillGuard`, of which there is one at a time.
unsafe impl<S: Send> Sync for Spiller<S> {}

/// Shows that nobody else moves records.
pub(crate) struct SpillGuard<'d, S> {
    spiller: &'d Spiller<S>,
}

impl<S> Spiller<S> {
    /// The right to move records, for who reads all of them; None where it cannot be had within half a second. For
    /// ordinary context, or an end of the program.
    pub(crate) fn lock(&self) -> Option<SpillGuard<'_, S>> {
        const PATIENCE: u64 = 500_000_000;
        let start = clock::monotonic_nanos();
        loop {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            // A handler has it for one slice, unless its file system hangs.
            if clock::monotonic_nanos().saturating_sub(start) > PATIENCE {
                return None;
            }
            thread::pause();
        }
    }

    pub(crate) fn new(sink: S) -> Self {
        Self {
            is_busy: AtomicBool::new(false),
            failure: AtomicI32::new(0),
            progress: UnsafeCell::new(Progress {
                seen_free: [0; MAX_SLOTS / 64],
                cleared: 0,
                periods: 0,
                sink,
            }),
        }
    }

    /// True while somebody moves records.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Why records stay in memory, as an error number.
    pub(crate) fn failure(&self) -> Option<i32> {
        Some(self.failure.load(Ordering::Relaxed)).filter(|errno| *errno != 0)
    }

    /// The right to move records, if nobody has it. Signal-safe.
    pub(crate) fn try_lock(&self) -> Option<SpillGuard<'_, S>> {
        // Acquire: what the last holder did is seen.
        let is_ours =
            self.is_busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Not made before that is known: its drop would end another's guard.
        is_ours.then(|| SpillGuard { spiller: self })
    }
}

impl<S: SpillSink> Spiller<S> {
    /// Moves a slice, if there is one to move and nobody else does. For a handler, when it has added its own record.
    /// Signal-safe.
    #[inline]
    pub(crate) fn step<M: Memory>(&self, table: &Table<M>, slots: &impl Slots) {
        if table.stand().other != Other::Clean && self.failure().is_none() {
            self.spill_slice(table, slots);
        }
    }

    #[cold]
    fn spill_slice<M: Memory>(&self, table: &Table<M>, slots: &impl Slots) {
        let Some(mut guard) = self.try_lock() else { return };
        if let Err(errno) = guard.spill_slice(table, slots) {
            self.failure.store(errno, Ordering::Relaxed);
            table.keep_other();
        }
    }
}

impl<S> Deref for SpillGuard<'_, S> {
    type Target = Progress<S>;
    fn deref(&self) -> &Progress<S> {
        // SAFETY: the holder alone touches it, and the guard is borrowed.
        unsafe { &*self.spiller.progress.get() }
    }
}

impl<S> DerefMut for SpillGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut Progress<S> {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.spiller.progress.get() }
    }
}

impl<S> Drop for SpillGuard<'_, S> {
    fn drop(&mut self) {
        // Release: see `try_lock`.
        self.spiller.is_busy.store(false, Ordering::Release);
    }
}

impl<S: SpillSink> Progress<S> {
    /// # Errors
    /// Why a slice could not be written, as an error number.
    fn spill_slice<M: Memory>(&mut self, table: &Table<M>, slots: &impl Slots) -> Result<(), i32> {
        // Nobody else changes it from now on, unless it is clean.
        let stand = table.stand();
        let half = 1 - stand.active;
        match stand.other {
            Other::Clean => {}
            Other::Clearing => match table.clear(half, self.cleared, CLEARED_WORDS) {
                Some(cleared) => self.cleared = cleared,
                None => {
                    (self.cleared, self.seen_free) = (0, [0; MAX_SLOTS / 64]);
                    table.set_other(Stand { other: Other::Clean, ..stand });
                }
            },
            Other::Records(place) if self.has_grace_period_passed(slots) => {
                let buffer = self.sink.buffer()?;
                let gathered = table.gather(half, place, buffer);
                let moved = stand.moved.saturating_add(gathered.words as u64);
                if moved > MOST_MOVED_WORDS {
                    return Err(errno::EFBIG);
                }
                if gathered.words > 0 {
                    let (periods_before, periods) = (self.periods, self.periods + gathered.periods);
                    // Whatever becomes of the process, who recovers it knows of the file.
                    table.memory().note_moving(&Moving {
                        name: self.sink.name(),
                        periods_before,
                        words: moved,
                        periods,
                    });
                    if let Err(errno) = self.sink.append(stand.moved, gathered.words) {
                        if stand.moved == 0 {
                            self.sink.give_up();
                        }
                        return Err(errno);
                    }
                    self.periods = periods;
                }
                let other = if gathered.is_all { Other::Clearing } else { Other::Records(gathered.next) };
                // From here on the slice is in the file and nowhere else, whatever becomes of the process.
                table.set_other(Stand { other, moved, ..stand });
            }
            Other::Records(_) => {}
        }
        Ok(())
    }

    /// True once every slot has been seen free since the halves changed places.
    fn has_grace_period_passed(&mut self, slots: &impl Slots) -> bool {
        let mut has_grace_period_passed = true;
        for i in 0..slots.count() {
            let Some(word) = self.seen_free.get_mut(i / 64) else { return false };
            let bit = 1 << (i % 64);
            if *word & bit == 0 {
                if slots.is_free(i) {
                    *word |= bit;
                } else {
                    has_grace_period_passed = false;
                }
            }
        }
        has_grace_period_passed
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_models;
