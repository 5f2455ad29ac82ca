//! The swap of a table's halves, and spilling of the inactive one.
//!
//! | inactive half | changed by | to |
//! | --- | --- | --- |
//! | clean | any handler that finds its half full, by compare-exchange | active; the other has records |
//! | records from a place on | the spiller | records from a later place on, or clearing |
//! | clearing | the spiller | clean |
//!
//! The one spiller (`spill.rs`) first waits for a grace period. A handler claims its slot, then
//! reads which half is active: if its slot was idle since the swap, it is not in the inactive half.
//! Both sides write before they read, sequentially consistent.

use super::{Memory, RECORD_HEAD, Table};
use crate::{
    format::{
        double_buffer::{BufferState, Other},
        spool::{DEPTH_MASK, RECORD_MARK},
    },
    sync::{Ordering, modelled::AtomicU64},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatheredSlice {
    pub(crate) words: usize,
    /// Sum of their counts.
    pub(crate) periods: u64,
    /// The half's first word that was not read.
    pub(crate) next: usize,
    /// No records are left.
    pub(crate) is_all: bool,
}

impl<M: Memory> Table<M> {
    /// Swaps the halves, of which the active one is full; false if the other is not clean.
    pub(super) fn leave(&self, now: BufferState) -> bool {
        if !self.memory.shape().is_halved || now.other != Other::Clean {
            return false;
        }
        let next = BufferState { active: 1 - now.active, other: Other::Records(0), spilled: now.spilled };
        // SeqCst: before the reads of the slots. On failure, another handler was first.
        let _ = self.memory.buffer_state().compare_exchange(
            now.word(),
            next.word(),
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
        true
    }

    pub(crate) fn set_other(&self, state: BufferState) {
        // Release (SeqCst): a clean half is zeroed. Until then only the spiller writes.
        self.memory.buffer_state().store(state.word(), Ordering::SeqCst);
    }

    /// The inactive half is never spilled; its chains may still count.
    pub(crate) fn freeze_other(&self) {
        // Release: pairs with the acquire in `add_to_other`; the half's state is final.
        self.keeps_other.store(true, Ordering::Release);
    }

    /// Copies counted records, from word `from` of `half` on, that fit into `buffer`. For the
    /// spiller, after the grace period. Signal-safe.
    pub(crate) fn gather(&self, half: usize, from: usize, buffer: &mut [usize]) -> GatheredSlice {
        let base = half * self.memory.shape().arena_words;
        let end = self.halves.get(half).map_or(0, |half| half.free.load(Ordering::Acquire));
        let mut gathered = GatheredSlice { words: 0, periods: 0, next: from, is_all: false };
        while gathered.next < end {
            let place = base + gathered.next;
            let head = self.memory.arena(place, place + RECORD_HEAD);
            let Some([count, marked]) = head else { break };
            let (count, marked) = (count.load(Ordering::Relaxed), marked.load(Ordering::Relaxed));
            if marked & !DEPTH_MASK != RECORD_MARK {
                // Claimed and never filled.
                gathered.next += 1;
                continue;
            }
            let depth = marked & DEPTH_MASK;
            let length = RECORD_HEAD + depth;
            if count > 0 {
                let Some(room) = buffer.get_mut(gathered.words..gathered.words + length) else {
                    return gathered;
                };
                let Some(pcs) = self.memory.arena(place + RECORD_HEAD, place + length) else { break };
                let words = [count, depth].into_iter().chain(pcs.iter().map(|pc| pc.load(Ordering::Relaxed)));
                for (to, from) in room.iter_mut().zip(words) {
                    *to = from;
                }
                gathered.words += length;
                gathered.periods += count as u64;
            }
            gathered.next += length;
        }
        gathered.is_all = true;
        gathered
    }

    /// Zeroes up to `most` words of `half` after the first `done`: its used index, then its arena.
    /// Returns the new `done`, or None at the end. Signal-safe.
    pub(crate) fn clear(&self, half: usize, done: usize, most: usize) -> Option<usize> {
        let shape = self.memory.shape();
        let state = self.halves.get(half)?;
        let (used, free) = (state.used.load(Ordering::Acquire), state.free.load(Ordering::Acquire));
        let end = done.saturating_add(most).min(used + free);
        let (index, arena) = (half * shape.index_words, half * shape.arena_words);
        for word in self.memory.index(index + done.min(used), index + end.min(used)).unwrap_or_default() {
            AtomicU64::store(word, 0, Ordering::Relaxed);
        }
        let words = (done.max(used) - used, end.max(used) - used);
        for word in self.memory.arena(arena + words.0, arena + words.1).unwrap_or_default() {
            word.store(0, Ordering::Relaxed);
        }
        if end < used + free {
            return Some(end);
        }
        state.used.store(0, Ordering::Relaxed);
        state.free.store(0, Ordering::Relaxed);
        None
    }
}
