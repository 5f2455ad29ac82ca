//! From one half of a table to the other, and what becomes of the half that was left.
//!
//! | the other half | who changes it | to |
//! | --- | --- | --- |
//! | clean | any handler whose half is full, by compare-exchange | records, from place 0, the halves changing places |
//! | records from a place on | who moves them | records from a later place on, or clearing |
//! | clearing | who clears it | clean |
//!
//! One at a time moves and clears (`spill.rs`). Records are moved only once nobody adds to them: a handler claims its slot
//! first and then looks which half is in use, so one whose slot has been seen free since the halves changed places is not
//! in the half that was left. Both sides write before they read, sequentially consistent.

use super::{Memory, RECORD_HEAD, Table};
use crate::{
    format::{
        halves::{Other, Stand},
        spool::{DEPTH_MASK, RECORD_MARK},
    },
    sync::{Ordering, modelled::AtomicU64},
};

/// Records that were taken from a half, as they stand in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gathered {
    /// Words that were filled.
    pub(crate) words: usize,
    /// Sum of their counts.
    pub(crate) periods: u64,
    /// The half's first word that was not looked at.
    pub(crate) next: usize,
    /// Nothing is left behind it.
    pub(crate) is_all: bool,
}

impl<M: Memory> Table<M> {
    /// Leaves the half in use, which is full, as `now` says; false where the other one is not clean.
    pub(super) fn leave(&self, now: Stand) -> bool {
        if !self.memory.shape().is_halved || now.other != Other::Clean {
            return false;
        }
        let next = Stand { active: 1 - now.active, other: Other::Records(0), moved: now.moved };
        // SeqCst: before the looks at the slots, see the module. Who fails finds that another handler was first.
        let _ =
            self.memory.stand().compare_exchange(now.word(), next.word(), Ordering::SeqCst, Ordering::SeqCst);
        true
    }

    /// Tells how far the half that is not in use has come. For who moves it.
    pub(crate) fn set_other(&self, stand: Stand) {
        // Release: whoever finds the half clean finds it zeroed. Nobody else changes the word unless it is clean.
        self.memory.stand().store(stand.word(), Ordering::SeqCst);
    }

    /// The half that is not in use stays as it is from now on: chains that it has may still count.
    pub(crate) fn keep_other(&self) {
        // Release: it stays where it came to.
        self.keeps_other.store(true, Ordering::Release);
    }

    /// Copies records of `half` from its word `from` on into `buffer`, as many as fit, without those that nobody has
    /// counted. For who moves it, when nobody adds to it. Signal-safe.
    pub(crate) fn gather(&self, half: usize, from: usize, buffer: &mut [usize]) -> Gathered {
        let base = half * self.memory.shape().arena_words;
        let end = self.halves.get(half).map_or(0, |half| half.free.load(Ordering::Acquire));
        let mut gathered = Gathered { words: 0, periods: 0, next: from, is_all: false };
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

    /// Sets at most `most` words of `half` to zero, the first `done` of which were before: those of its index that were
    /// used, then those of its arena. Gives how many are done, or None when all are. Signal-safe.
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
