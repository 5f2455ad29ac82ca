//! The table of call chains: lock-free, filled by many handlers at once.
//!
//! Who writes: handlers ([`Table::add`]). Who reads: handlers, and ordinary context ([`Table::records`]), at any
//! time.
//!
//! A table may have two *halves*, each with an arena and an index of its own. Records are added to one; when it is full
//! the other, if it is clean, takes its place by one compare-exchange on the *stand*, and the full one is moved to a
//! file and cleared, slice after slice (`spilling.rs`). Within a half nothing is removed or moved before all handlers have
//! left it, so there is no ABA.
//!
//! The *arena* is an array of words that holds records laid out as in the file, one behind another. A record
//! belongs to one handler until it is published; after that only its count changes, which is 0 until then. The depth
//! carries a mark by which records are found without the index: the arena may be a spool file that outlives the process
//! (`format/spool.rs`).
//!
//! ```text
//! arena   | count | mark + depth | pc 0 | pc 1 | ... | count | mark + depth | pc 0 | ...
//! index   | word | word | ... 8 words to a bucket, buckets in levels of growing size
//! word    | tag: 32 high bits of the chain's hash | 1 + place of its record in the arena: 32 bits |
//! ```
//!
//! | index word | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | any other value, by one compare-exchange |
//! | else | published: its record's depth and PCs are final | nothing else |
//!
//! A chain's hash names one bucket in each level. A chain goes to the first free word of the first level whose
//! bucket has one. Words never become free again, so a search that meets a free word has passed every place where
//! the chain could be. Small levels come first: a profile of few chains touches few pages.
//!
//! When no half has room (arena or all levels), `add` says so, and the handler counts the tick as lost. Where the other
//! half could not be moved, its chains still count.

mod hash;
pub(crate) mod spilling;

use crate::{
    format::{
        halves::Stand,
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

/// Where a table keeps its words: those of its first half, then those of the second.
pub(crate) trait Memory {
    /// How large a half is.
    fn shape(&self) -> Shape;
    /// How the halves stand: see [`Stand`].
    fn stand(&self) -> &AtomicU64;
    /// Words `from..to` of the index, which holds all levels one behind another; None where they are not usable.
    fn index(&self, from: usize, to: usize) -> Option<&[AtomicU64]>;
    /// Makes the index's words below `to` usable. Signal-safe.
    fn grow_index(&self, to: usize) -> bool;
    /// Words `from..to` of the arena; None where they are not usable.
    fn arena(&self, from: usize, to: usize) -> Option<&[AtomicUsize]>;
    /// Makes the arena's words below `to` usable. Signal-safe.
    fn grow_arena(&self, to: usize) -> bool;
    /// Notes, for who recovers the records, those that are about to be in a file. Signal-safe.
    fn note_moving(&self, slice: &Moving<'_>);
}

/// Records on their way to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving<'n> {
    /// The file's.
    pub(crate) name: &'n [u8],
    /// Sum of the counts that are in the file already.
    pub(crate) periods_before: u64,
    /// Words that are in it with these.
    pub(crate) words: u64,
    /// Sum of the counts with these.
    pub(crate) periods: u64,
}

/// How a table's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// False for a table that is one half alone, which is never moved.
    pub(crate) is_halved: bool,
    /// Words of a half's index.
    pub(crate) index_words: usize,
    /// Words of a half's arena.
    pub(crate) arena_words: usize,
}

/// The table had no place for a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Why a half did not take a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// It is full.
    NoRoom,
    /// Its memory cannot be made usable.
    NoMemory,
}

/// See the module.
pub(crate) struct Table<M> {
    memory: M,
    halves: [Half; 2],
    /// The half that is not in use stays as it is: it cannot be moved.
    keeps_other: AtomicBool,
}

/// How far a half is filled.
struct Half {
    /// The first word of the half's arena that no record has claimed.
    free: AtomicUsize,
    /// How many words of the half's index, counted in whole levels, have ever held a chain.
    used: AtomicUsize,
}

impl Half {
    fn new() -> Self {
        Self { free: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }
}

impl<M: Memory> Table<M> {
    /// A table in `memory` that is all zeros.
    pub(crate) fn new(memory: M) -> Self {
        memory.stand().store(Stand::START.word(), Ordering::Release);
        Self { memory, halves: [Half::new(), Half::new()], keeps_other: AtomicBool::new(false) }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    pub(crate) fn into_memory(self) -> M {
        self.memory
    }

    /// How the halves stand.
    pub(crate) fn stand(&self) -> Stand {
        // SeqCst: behind the claim of the caller's slot, see `spilling.rs`.
        Stand::from_word(self.memory.stand().load(Ordering::SeqCst))
    }

    /// Adds `weight` to the count of the chain `pcs`. Signal-safe. For a slot's holder: a half that is left is not
    /// touched before all slots that were held then have been seen free.
    ///
    /// # Errors
    /// [`Full`]; nothing was changed then.
    pub(crate) fn add(&self, pcs: &[usize], weight: usize) -> Result<(), Full> {
        let hash = hash(pcs);
        let mut stand = self.stand();
        let mut is_short = false;
        loop {
            let refused = match self.add_to(stand.active, hash, pcs, weight) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            let now = self.stand();
            let has_changed = now.active != stand.active;
            // Where memory cannot be had the other half may have some already; both are tried, once.
            let is_hopeless = is_short && refused == Refused::NoMemory;
            if !has_changed && (is_hopeless || !self.leave(now)) {
                return self.add_to_other(now, hash, pcs, weight);
            }
            is_short |= refused == Refused::NoMemory;
            // Another round only when the halves have changed places.
            stand = self.stand();
        }
    }

    /// Adds to a half.
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
                // Acquire: pairs with the release below, so that the record's words are seen.
                let mut present = word.load(Ordering::Acquire);
                if present == 0 {
                    let place = match own_record {
                        Some(place) => place,
                        None => *own_record.insert(self.write_record(half, pcs)?),
                    };
                    let published = pack(hash, place);
                    // Release: publishes the record. Acquire on failure: we look at the winner's record.
                    match word.compare_exchange(0, published, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => {
                            if let Some(half) = self.halves.get(half) {
                                // Relaxed: `records` may miss a chain that is published while it runs.
                                half.used.fetch_max(end, Ordering::Relaxed);
                            }
                            present = published;
                        }
                        // Another handler was first. If it has our chain, our record stays in the arena with count 0.
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

    /// Adds to the record that the half which is not in use has of a chain, where that half stays as it is.
    fn add_to_other(&self, stand: Stand, hash: u64, pcs: &[usize], weight: usize) -> Result<(), Full> {
        // Acquire: pairs with the release in `keep_other`.
        if !self.keeps_other.load(Ordering::Acquire) {
            return Err(Full);
        }
        let (half, shape) = (1 - stand.active, self.memory.shape());
        let (index, arena) = (half * shape.index_words, half * shape.arena_words);
        let first = stand.records_from(half).ok_or(Full)? + arena;
        for (start, end) in levels().take_while(|(_, end)| *end <= shape.index_words) {
            let level = self.memory.index(index + start, index + end).unwrap_or_default();
            for word in bucket(level, hash) {
                let present = word.load(Ordering::Acquire);
                // What was moved before it came to a stop counts no more.
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
        // What a killed process leaves is what it came to in the order of its program; the compiler keeps that order here,
        // at no cost, so that a record with a count has all its words.
        compiler_fence(Ordering::SeqCst);
        // Relaxed: a count publishes nothing but itself.
        count.fetch_add(weight, Ordering::Relaxed);
    }

    /// The count, at least 1, and the chain of every record that was not moved. Handlers may add meanwhile: what they add
    /// is seen or not. Nothing is moved meanwhile.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &[AtomicUsize])> {
        let (stand, shape) = (self.stand(), self.memory.shape());
        self.halves.iter().enumerate().flat_map(move |(i, half)| {
            let (index, arena) = (i * shape.index_words, i * shape.arena_words);
            let from = stand.records_from(i);
            // Nothing where no record is left.
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

    /// The count of the record that an index word names, if the record holds `pcs`.
    fn find_in(&self, present: u64, hash: u64, pcs: &[usize]) -> Option<&AtomicUsize> {
        if present >> 32 != hash >> 32 {
            return None;
        }
        let (count, words) = self.record(present)?;
        // Relaxed: the words were published by the release that `present` was read from.
        // To the end in any case: chains with one tag are mostly the same chain, and a loop without branches is faster.
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

    /// Writes a record that nobody else sees yet, with a count of 0, into a half, and gives its place in the arena.
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
            // Relaxed: the claim orders nothing; the record is published by its index word.
            match free.compare_exchange_weak(place, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => place = now,
            }
        }
        let place = base + place;
        let words = self.memory.arena(place, place + length).ok_or(Refused::NoMemory)?;
        let [_count, marked, places @ ..] = words else { return Err(Refused::NoMemory) };
        // The mark first: a reader of the memory of a process that was killed here can then step over the record, which
        // nobody has counted.
        marked.store(RECORD_MARK | pcs.len(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        for (place, pc) in places.iter().zip(pcs) {
            place.store(*pc, Ordering::Relaxed);
        }
        Ok(place)
    }
}

/// Where each level starts and ends in the index.
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

/// The bucket of a hash in a level; the number of buckets is a power of two.
fn bucket(level: &[AtomicU64], hash: u64) -> &[AtomicU64] {
    let buckets = level.len() / BUCKET;
    if buckets == 0 {
        return &[];
    }
    let start = (hash as usize & buckets.wrapping_sub(1)) * BUCKET;
    level.get(start..start + BUCKET).unwrap_or_default()
}

/// Words of an index with `count` levels.
pub(crate) fn index_words(count: u32) -> usize {
    (0..count).map(|level| (FIRST_LEVEL * BUCKET) << (2 * level)).sum()
}

fn pack(hash: u64, place: usize) -> u64 {
    hash & !u64::from(u32::MAX) | (place as u64 + 1)
}

/// The place in the arena that an index word names.
fn place_of(present: u64) -> Option<usize> {
    usize::try_from(present & u64::from(u32::MAX)).ok()?.checked_sub(1)
}

#[cfg(test)]
pub(crate) mod tests;
