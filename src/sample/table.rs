//! The sample table: lock-free, filled by concurrent handlers ([`Table::add`]), read by them, and
//! by ordinary context that holds the right to spill ([`Table::records`]).
//!
//! A table may have two *halves*. If the active one is full and the other is clean, one
//! compare-exchange on the state word ([`BufferState`]) swaps them; the full one is spilled and
//! cleared in slices (`spilling.rs`). A half loses nothing before all handlers left it, so no ABA.
//!
//! The *arena* has records as in the file. A record belongs to one handler until it is published;
//! then only its count, 0 until then, changes. The depth has a mark, by which records are found
//! without the index in a spool of a killed process (`format/spool.rs`).
//!
//! ```text
//! arena | count | mark + depth | pc 0 | pc 1 | ... | count | mark + depth | pc 0 | ...
//! index | word | word | ... 8 words to a bucket, buckets in levels of growing size
//! word  | tag: 32 high bits of the chain's hash | 1 + place of its record in the arena: 32 bits |
//! ```
//!
//! | index word | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | any other value, by one compare-exchange |
//! | else | published: its record's depth and PCs are final | 0, after its half was spilled |
//!
//! A hash selects one bucket in each level. A chain goes to the first free word, and no word of
//! an active half becomes free, so a search ends there. Small levels come first: few chains touch
//! few pages.

mod hash;
pub(crate) mod spilling;

use crate::{
    format::{
        double_buffer::BufferState,
        spool::{DEPTH_MASK, RECORD_MARK},
    },
    sync::{Ordering, modelled::AtomicBool, modelled::AtomicU64, modelled::AtomicUsize},
};
use core::sync::atomic::compiler_fence;
use hash::hash;

/// Words in a bucket: one cache line.
const BUCKET: usize = if cfg!(loom) { 2 } else { 8 };
/// Buckets of the first level; each further one has four times as many.
const FIRST_LEVEL: usize = if cfg!(loom) { 1 } else { 512 };
/// Words of a record before its PCs.
pub(super) const RECORD_HEAD: usize = 2;

/// Memory for a table: the first half's words, then the second's. Words that are not usable are
/// None; `grow_` makes those below `to` usable. The index has all levels in sequence. Signal-safe.
pub(crate) trait Memory {
    fn shape(&self) -> Shape;
    fn buffer_state(&self) -> &AtomicU64;
    fn index(&self, from: usize, to: usize) -> Option<&[AtomicU64]>;
    fn grow_index(&self, to: usize) -> bool;
    fn arena(&self, from: usize, to: usize) -> Option<&[AtomicUsize]>;
    fn grow_arena(&self, to: usize) -> bool;
    /// Stores, for recovery, what is about to be spilled.
    fn note_spilling(&self, slice: &SpillSlice<'_>);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SpillSlice<'n> {
    pub(crate) name: &'n [u8],
    /// Sum of the counts that are already in the spill file.
    pub(crate) periods_before: u64,
    /// Words in the file, including these.
    pub(crate) words: u64,
    /// Sum of the counts, including these.
    pub(crate) periods: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// False for a single half, which is never spilled.
    pub(crate) is_halved: bool,
    pub(crate) index_words: usize,
    pub(crate) arena_words: usize,
}

/// No half has room for the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    NoRoom,
    /// Memory cannot be made usable.
    NoMemory,
}

pub(crate) struct Table<M> {
    memory: M,
    halves: [Half; 2],
    /// The inactive half keeps its records, because it cannot be spilled.
    keeps_other: AtomicBool,
}

struct Half {
    /// The first word of the arena that no record has claimed.
    free: AtomicUsize,
    /// Index words, in whole levels, that may hold a chain.
    used: AtomicUsize,
}

impl Half {
    fn new() -> Self {
        Self { free: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }
}

impl<M: Memory> Table<M> {
    /// `memory` must be zeroed.
    pub(crate) fn new(memory: M) -> Self {
        memory.buffer_state().store(BufferState::START.word(), Ordering::Release);
        Self { memory, halves: [Half::new(), Half::new()], keeps_other: AtomicBool::new(false) }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    pub(crate) fn into_memory(self) -> M {
        self.memory
    }

    pub(crate) fn buffer_state(&self) -> BufferState {
        // SeqCst: after the claim of the caller's slot, see `spilling.rs`.
        BufferState::from_word(self.memory.buffer_state().load(Ordering::SeqCst))
    }

    /// Adds `weight` to the count of the chain `pcs`. Signal-safe. The caller holds a slot: an
    /// inactive half is not spilled before a grace period.
    ///
    /// # Errors
    /// [`Full`]; nothing was changed.
    pub(crate) fn add(&self, pcs: &[usize], weight: usize) -> Result<(), Full> {
        let hash = hash(pcs);
        let mut state = self.buffer_state();
        let mut is_short = false;
        loop {
            let refused = match self.add_to(state.active, hash, pcs, weight) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            let now = self.buffer_state();
            let has_changed = now.active != state.active;
            // The other half may have usable memory; each is tried once.
            let is_hopeless = is_short && refused == Refused::NoMemory;
            if !has_changed && (is_hopeless || !self.leave(now)) {
                return self.add_to_other(now, hash, pcs, weight);
            }
            is_short |= refused == Refused::NoMemory;
            state = self.buffer_state();
        }
    }

    fn add_to(&self, half: usize, hash: u64, pcs: &[usize], weight: usize) -> Result<(), Refused> {
        let shape = self.memory.shape();
        let base = half * shape.index_words;
        let mut own_record = None;
        for (start, end) in levels() {
            if end > shape.index_words {
                break;
            }
            if !self.memory.grow_index(base + end) {
                return Err(Refused::NoMemory);
            }
            let level = self.memory.index(base + start, base + end).unwrap_or_default();
            for word in bucket(level, hash) {
                // Acquire: pairs with the release below, so that the record's words are visible.
                let mut present = word.load(Ordering::Acquire);
                if present == 0 {
                    let place = match own_record {
                        Some(place) => place,
                        None => *own_record.insert(self.write_record(half, pcs)?),
                    };
                    let published = pack(hash, place);
                    // Release: publishes the record. Acquire: we read the winner's.
                    match word.compare_exchange(0, published, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => {
                            if let Some(half) = self.halves.get(half) {
                                // Relaxed: `records` may miss it.
                                half.used.fetch_max(end, Ordering::Relaxed);
                            }
                            present = published;
                        }
                        // If the winner has our chain, our record stays unused with count 0.
                        Err(winner) => present = winner,
                    }
                }
                if let Some(count) = self.find_in(present, hash, pcs) {
                    self.count(count, weight);
                    return Ok(());
                }
            }
        }
        Err(Refused::NoRoom)
    }

    /// Adds to an existing record in the inactive half, if that is never spilled.
    fn add_to_other(&self, state: BufferState, hash: u64, pcs: &[usize], weight: usize) -> Result<(), Full> {
        // Acquire: pairs with the release in `freeze_other`.
        if !self.keeps_other.load(Ordering::Acquire) {
            return Err(Full);
        }
        let (half, shape) = (1 - state.active, self.memory.shape());
        let (index, arena) = (half * shape.index_words, half * shape.arena_words);
        let first = state.records_from(half).ok_or(Full)? + arena;
        for (start, end) in levels().take_while(|(_, end)| *end <= shape.index_words) {
            let level = self.memory.index(index + start, index + end).unwrap_or_default();
            for word in bucket(level, hash) {
                let present = word.load(Ordering::Acquire);
                // Records before `first` were spilled and do not count.
                if place_of(present).is_some_and(|place| place >= first) {
                    if let Some(count) = self.find_in(present, hash, pcs) {
                        self.count(count, weight);
                        return Ok(());
                    }
                }
            }
        }
        Err(Full)
    }

    fn count(&self, count: &AtomicUsize, weight: usize) {
        // A killed process leaves its stores in program order; this keeps the compiler from moving
        // the count before the record's words.
        compiler_fence(Ordering::SeqCst);
        // Relaxed: publishes only itself.
        count.fetch_add(weight, Ordering::Relaxed);
    }

    /// Returns count and chain of the records that were not spilled, while nothing is spilled.
    /// Concurrent additions may be missed.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &[AtomicUsize])> {
        let (state, shape) = (self.buffer_state(), self.memory.shape());
        self.halves.iter().enumerate().flat_map(move |(i, half)| {
            let (index, arena) = (i * shape.index_words, i * shape.arena_words);
            let from = state.records_from(i);
            let used = from.map_or(0, |_| half.used.load(Ordering::Acquire));
            let first = arena + from.unwrap_or(0);
            let words = self.memory.index(index, index + used).unwrap_or_default();
            // Acquire: pairs with the release in `add_to`.
            words.iter().filter_map(move |word| {
                let present = word.load(Ordering::Acquire);
                let (count, pcs) = self.record(present)?;
                // A record is published before it is counted.
                let count = Some(count.load(Ordering::Relaxed)).filter(|count| *count > 0)?;
                place_of(present).filter(|place| *place >= first).map(|_| (count, pcs))
            })
        })
    }

    fn find_in(&self, present: u64, hash: u64, pcs: &[usize]) -> Option<&AtomicUsize> {
        if present >> 32 != hash >> 32 {
            return None;
        }
        let (count, words) = self.record(present)?;
        // Relaxed: published by the release that `present` was read from. To the end: equal tags
        // mostly mean equal chains, and a loop without branches is faster.
        let difference =
            |bits, (word, pc): (&AtomicUsize, &usize)| bits | (word.load(Ordering::Relaxed) ^ pc);
        let same = words.len() == pcs.len() && words.iter().zip(pcs).fold(0, difference) == 0;
        same.then_some(count)
    }

    fn record(&self, present: u64) -> Option<(&AtomicUsize, &[AtomicUsize])> {
        let place = place_of(present)?;
        let [count, depth] = self.memory.arena(place, place + RECORD_HEAD)? else { return None };
        let start = place + RECORD_HEAD;
        let depth = depth.load(Ordering::Relaxed) & DEPTH_MASK;
        let pcs = self.memory.arena(start, start + depth)?;
        Some((count, pcs))
    }

    /// Writes an unpublished record with count 0; returns its place in the arena.
    fn write_record(&self, half: usize, pcs: &[usize]) -> Result<usize, Refused> {
        let length = RECORD_HEAD + pcs.len();
        let room = self.memory.shape().arena_words;
        let base = half * room;
        let free = &self.halves.get(half).ok_or(Refused::NoRoom)?.free;
        let mut place = free.load(Ordering::Relaxed);
        loop {
            let end = place.checked_add(length).filter(|&end| end <= room).ok_or(Refused::NoRoom)?;
            if base + end >= u32::MAX as usize || !self.memory.grow_arena(base + end) {
                return Err(Refused::NoMemory);
            }
            // Relaxed: the index word publishes the record.
            match free.compare_exchange_weak(place, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => place = now,
            }
        }
        let place = base + place;
        let words = self.memory.arena(place, place + length).ok_or(Refused::NoMemory)?;
        let [_count, marked, places @ ..] = words else { return Err(Refused::NoMemory) };
        // The mark first: if the process is killed here, a reader can skip the record.
        marked.store(RECORD_MARK | pcs.len(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        for (place, pc) in places.iter().zip(pcs) {
            place.store(*pc, Ordering::Relaxed);
        }
        Ok(place)
    }
}

fn levels() -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    let mut length = FIRST_LEVEL * BUCKET;
    core::iter::from_fn(move || {
        let level = (start, start + length);
        start += length;
        length *= 4;
        Some(level)
    })
}

/// The number of buckets is a power of two.
fn bucket(level: &[AtomicU64], hash: u64) -> &[AtomicU64] {
    let buckets = level.len() / BUCKET;
    if buckets == 0 {
        return &[];
    }
    let start = (hash as usize & buckets.wrapping_sub(1)) * BUCKET;
    level.get(start..start + BUCKET).unwrap_or_default()
}

pub(crate) fn index_words(count: u32) -> usize {
    (0..count).map(|level| (FIRST_LEVEL * BUCKET) << (2 * level)).sum()
}

fn pack(hash: u64, place: usize) -> u64 {
    hash & !u64::from(u32::MAX) | (place as u64 + 1)
}

fn place_of(present: u64) -> Option<usize> {
    usize::try_from(present & u64::from(u32::MAX)).ok()?.checked_sub(1)
}

#[cfg(test)]
pub(crate) mod tests;
