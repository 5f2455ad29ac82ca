//! Spilling of a table's inactive half, by one handler at a time, after a grace period
//! (`table/spilling.rs`). A slice is two of the longest records (64 KiB), or four times as much
//! that is zeroed. So ticks are short, and a half is clean before the other is full. If a handler
//! never returns, the half stays; when both are full, samples are lost and counted. Records that
//! cannot be written stay in memory for the rest of the session.
//!
//! # Safety
//! Gives exclusive access to the thread that has set `is_busy`.
#![allow(unsafe_code)]

use super::table::{Memory, RECORD_HEAD, SpillSlice, Table};
use crate::{
    config::MAX_DEPTH,
    format::double_buffer::{BufferState, MAX_SPILLED_WORDS, Other},
    sync::{AtomicI32, Ordering, modelled::AtomicBool},
    sys::{clock, errno, thread},
};
use core::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
};

pub(crate) const SLICE_WORDS: usize = 2 * (RECORD_HEAD + MAX_DEPTH);
const CLEARED_WORDS: usize = 4 * SLICE_WORDS;
/// The most scratch slots. Each has a bit in a [`Progress`].
pub(super) const MAX_SLOTS: usize = 128;

/// The destination of records. Signal-safe.
pub(crate) trait SpillSink {
    /// Writes the first `words` words of the buffer after the first `place` words of the file.
    ///
    /// # Errors
    /// An `errno` value; the words are not in the file.
    fn append(&mut self, place: u64, words: usize) -> Result<(), i32>;
    /// The file's name in its directory.
    fn name(&mut self) -> &[u8];
    fn give_up(&mut self);
    /// # Errors
    /// An `errno` value.
    fn buffer(&mut self) -> Result<&mut [usize], i32>;
}

pub(crate) trait Slots {
    fn count(&self) -> usize;
    /// True for an idle slot, and for the caller's own.
    fn is_free(&self, i: usize) -> bool;
}

pub(crate) struct Spiller<S> {
    is_busy: AtomicBool,
    /// The `errno` value because of which records stay in memory, or 0.
    failure: AtomicI32,
    progress: UnsafeCell<Progress<S>>,
}

pub(crate) struct Progress<S> {
    /// A bit for each slot that was idle since the swap.
    was_idle: [u64; MAX_SLOTS / 64],
    cleared: usize,
    /// Sum of the counts in the file.
    pub(crate) periods: u64,
    pub(crate) sink: S,
}

// SAFETY: the progress is accessed only through `SpillGuard`, which exists once at a time.
unsafe impl<S: Send> Sync for Spiller<S> {}

pub(crate) struct SpillGuard<'d, S> {
    spiller: &'d Spiller<S>,
}

impl<S> Spiller<S> {
    /// Waits at most 0.5 s for the right to spill. For ordinary context and exit hooks.
    pub(crate) fn lock(&self) -> Option<SpillGuard<'_, S>> {
        const TIMEOUT_NANOS: u64 = 500_000_000;
        let start = clock::monotonic_nanos();
        loop {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            // Released after one slice, unless the file system hangs.
            if clock::monotonic_nanos().saturating_sub(start) > TIMEOUT_NANOS {
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
                was_idle: [0; MAX_SLOTS / 64],
                cleared: 0,
                periods: 0,
                sink,
            }),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<i32> {
        Some(self.failure.load(Ordering::Relaxed)).filter(|errno| *errno != 0)
    }

    /// Acquires the right to spill, if it is free. Signal-safe.
    pub(crate) fn try_lock(&self) -> Option<SpillGuard<'_, S>> {
        // Acquire: pairs with the release in the guard's drop.
        let is_ours =
            self.is_busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        // Created only on success, because its drop releases the right.
        is_ours.then(|| SpillGuard { spiller: self })
    }
}

impl<S: SpillSink> Spiller<S> {
    /// Spills a slice, if the right is free. For a handler that has added its sample. Signal-safe.
    #[inline]
    pub(crate) fn step<M: Memory>(&self, table: &Table<M>, slots: &impl Slots) {
        if table.buffer_state().other != Other::Clean && self.failure().is_none() {
            self.spill_slice(table, slots);
        }
    }

    #[cold]
    fn spill_slice<M: Memory>(&self, table: &Table<M>, slots: &impl Slots) {
        let Some(mut guard) = self.try_lock() else { return };
        if let Err(errno) = guard.spill_slice(table, slots) {
            self.failure.store(errno, Ordering::Relaxed);
            table.freeze_other();
        }
    }
}

impl<S> Deref for SpillGuard<'_, S> {
    type Target = Progress<S>;
    fn deref(&self) -> &Progress<S> {
        // SAFETY: the guard has exclusive access and is borrowed.
        unsafe { &*self.spiller.progress.get() }
    }
}

impl<S> DerefMut for SpillGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut Progress<S> {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.spiller.progress.get() }
    }
}

impl<S> Drop for SpillGuard<'_, S> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `try_lock`.
        self.spiller.is_busy.store(false, Ordering::Release);
    }
}

impl<S: SpillSink> Progress<S> {
    /// # Errors
    /// The `errno` value of a failed write.
    fn spill_slice<M: Memory>(&mut self, table: &Table<M>, slots: &impl Slots) -> Result<(), i32> {
        // Only this thread changes it now, unless it is clean.
        let state = table.buffer_state();
        let half = 1 - state.active;
        match state.other {
            Other::Clean => {}
            Other::Clearing => match table.clear(half, self.cleared, CLEARED_WORDS) {
                Some(cleared) => self.cleared = cleared,
                None => {
                    (self.cleared, self.was_idle) = (0, [0; MAX_SLOTS / 64]);
                    table.set_other(BufferState { other: Other::Clean, ..state });
                }
            },
            Other::Records(place) if self.has_grace_period_passed(slots) => {
                let buffer = self.sink.buffer()?;
                let gathered = table.gather(half, place, buffer);
                let spilled = state.spilled.saturating_add(gathered.words as u64);
                if spilled > MAX_SPILLED_WORDS {
                    return Err(errno::EFBIG);
                }
                if gathered.words > 0 {
                    let (periods_before, periods) = (self.periods, self.periods + gathered.periods);
                    // If the process is killed now, recovery finds the file.
                    table.memory().note_spilling(&SpillSlice {
                        name: self.sink.name(),
                        periods_before,
                        words: spilled,
                        periods,
                    });
                    if let Err(errno) = self.sink.append(state.spilled, gathered.words) {
                        if state.spilled == 0 {
                            self.sink.give_up();
                        }
                        return Err(errno);
                    }
                    self.periods = periods;
                }
                let other = if gathered.is_all { Other::Clearing } else { Other::Records(gathered.next) };
                // From now on the slice counts only in the file.
                table.set_other(BufferState { other, spilled, ..state });
            }
            Other::Records(_) => {}
        }
        Ok(())
    }

    /// Whether every slot was idle once since the swap.
    fn has_grace_period_passed(&mut self, slots: &impl Slots) -> bool {
        let mut has_grace_period_passed = true;
        for i in 0..slots.count() {
            let Some(word) = self.was_idle.get_mut(i / 64) else { return false };
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
