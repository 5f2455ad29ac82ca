//! The table of call chains: lock-free, filled by many handlers at once.
//!
//! Who writes: handlers ([`Table::add`]). Who reads: handlers, and ordinary context ([`Table::records`]), at any
//! time. Nothing is ever removed or moved, so there is no ABA.
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
//! When full (arena or all levels), `add` says so, and the handler counts the tick as lost.

use crate::{
    format::spool::{DEPTH_MASK, RECORD_MARK},
    sync::{Ordering, modelled::AtomicU64, modelled::AtomicUsize},
};
use core::sync::atomic::compiler_fence;

/// Words in a bucket: one cache line.
const BUCKET: usize = if cfg!(loom) { 2 } else { 8 };
/// Buckets of the first level; each further one has four times as many.
const FIRST_LEVEL: usize = if cfg!(loom) { 1 } else { 512 };
/// Words of a record before its PCs.
const RECORD_HEAD: usize = 2;

/// Where a table keeps its words.
pub(crate) trait Memory {
    /// Words `from..to` of the index, which holds all levels one behind another; None where they are not usable.
    fn index(&self, from: usize, to: usize) -> Option<&[AtomicU64]>;
    /// Makes the index's words below `to` usable. Signal-safe.
    fn grow_index(&self, to: usize) -> bool;
    /// Words `from..to` of the arena; None where they are not usable.
    fn arena(&self, from: usize, to: usize) -> Option<&[AtomicUsize]>;
    /// Makes the arena's words below `to` usable. Signal-safe.
    fn grow_arena(&self, to: usize) -> bool;
}

/// The table had no place for a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// See the module.
pub(crate) struct Table<M> {
    memory: M,
    /// The first word of the arena that no record has claimed.
    free: AtomicUsize,
    /// How many words of the index, counted in whole levels, have ever held a chain.
    used: AtomicUsize,
}

impl<M: Memory> Table<M> {
    /// A table in `memory` that is all zeros.
    pub(crate) fn new(memory: M) -> Self {
        Self { memory, free: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    pub(crate) fn into_memory(self) -> M {
        self.memory
    }

    /// Adds `weight` to the count of the chain `pcs`. Signal-safe.
    ///
    /// # Errors
    /// [`Full`]; nothing was changed then.
    pub(crate) fn add(&self, pcs: &[usize], weight: usize) -> Result<(), Full> {
        let hash = hash(pcs);
        let mut own_record = None;
        for (start, end) in levels() {
            if !self.memory.grow_index(end) {
                break;
            }
            let level = self.memory.index(start, end).unwrap_or_default();
            for word in bucket(level, hash) {
                // Acquire: pairs with the release below, so that the record's words are seen.
                let mut present = word.load(Ordering::Acquire);
                if present == 0 {
                    let place = match own_record {
                        Some(place) => place,
                        None => *own_record.insert(self.write_record(pcs)?),
                    };
                    let published = pack(hash, place);
                    // Release: publishes the record. Acquire on failure: we look at the winner's record.
                    match word.compare_exchange(0, published, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => {
                            // Relaxed: `records` may miss a chain that is published while it runs.
                            self.used.fetch_max(end, Ordering::Relaxed);
                            present = published;
                        }
                        // Another handler was first. If it has our chain, our record stays in the arena with count 0.
                        Err(winner) => present = winner,
                    }
                }
                if let Some(count) = self.find_in(present, hash, pcs) {
                    // What a killed process leaves is what it came to in the order of its program; the compiler keeps
                    // that order here, at no cost, so that a record with a count has all its words.
                    compiler_fence(Ordering::SeqCst);
                    // Relaxed: a count publishes nothing but itself.
                    count.fetch_add(weight, Ordering::Relaxed);
                    return Ok(());
                }
            }
        }
        Err(Full)
    }

    /// The count, at least 1, and the chain of every record. Handlers may add meanwhile: what they add is seen or
    /// not.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &[AtomicUsize])> {
        let used = self.used.load(Ordering::Acquire);
        let index = self.memory.index(0, used).unwrap_or_default();
        // Acquire: pairs with the release in `add`.
        index.iter().filter_map(|word| {
            let (count, pcs) = self.record(word.load(Ordering::Acquire))?;
            // A record is published before it is counted.
            Some((count.load(Ordering::Relaxed), pcs)).filter(|(count, _)| *count > 0)
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
        let place = usize::try_from(present & u64::from(u32::MAX)).ok()?.checked_sub(1)?;
        let [count, depth] = self.memory.arena(place, place + RECORD_HEAD)? else { return None };
        let start = place + RECORD_HEAD;
        let depth = depth.load(Ordering::Relaxed) & DEPTH_MASK;
        let pcs = self.memory.arena(start, start + depth)?;
        Some((count, pcs))
    }

    /// Writes a record that nobody else sees yet, with a count of 0, and gives its place.
    fn write_record(&self, pcs: &[usize]) -> Result<usize, Full> {
        let length = RECORD_HEAD + pcs.len();
        let mut place = self.free.load(Ordering::Relaxed);
        loop {
            let end = place.checked_add(length).filter(|&end| end < u32::MAX as usize).ok_or(Full)?;
            if !self.memory.grow_arena(end) {
                return Err(Full);
            }
            // Relaxed: the claim orders nothing; the record is published by its index word.
            match self.free.compare_exchange_weak(place, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => place = now,
            }
        }
        let words = self.memory.arena(place, place + length).ok_or(Full)?;
        let [_count, marked, places @ ..] = words else { return Err(Full) };
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

/// Mixes every word into both halves of the result: the low one names buckets, the high one is the tag.
fn hash(pcs: &[usize]) -> u64 {
    // 2^64 divided by the golden ratio, odd: multiplication by it spreads nearby addresses.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Four sums side by side: a multiplication need not wait for the one before.
    const LANES: usize = 4;
    let mix = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    let mut mixed = pcs.len() as u64;
    let chunks = pcs.chunks_exact(LANES);
    let rest = chunks.remainder();
    if chunks.len() > 0 {
        let mut lanes = [0u64; LANES];
        for chunk in chunks {
            for (lane, &pc) in lanes.iter_mut().zip(chunk) {
                *lane = mix(*lane, pc as u64);
            }
        }
        mixed = lanes.into_iter().fold(mixed, mix);
    }
    mixed = rest.iter().fold(mixed, |mixed, &pc| mix(mixed, pc as u64));
    // The product's low bits depend on low bits only; the high ones on all.
    (mixed ^ mixed >> 32).wrapping_mul(SPREAD) ^ mixed >> 29
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Memory of a fixed size, all usable.
    pub(crate) struct Fixed {
        index: Vec<AtomicU64>,
        arena: Vec<AtomicUsize>,
    }

    impl Fixed {
        pub(crate) fn new(levels: u32, arena_words: usize) -> Self {
            Self {
                index: (0..index_words(levels)).map(|_| AtomicU64::new(0)).collect(),
                arena: (0..arena_words).map(|_| AtomicUsize::new(0)).collect(),
            }
        }
    }

    impl Memory for Fixed {
        fn index(&self, from: usize, to: usize) -> Option<&[AtomicU64]> {
            self.index.get(from..to)
        }
        fn grow_index(&self, to: usize) -> bool {
            to <= self.index.len()
        }
        fn arena(&self, from: usize, to: usize) -> Option<&[AtomicUsize]> {
            self.arena.get(from..to)
        }
        fn grow_arena(&self, to: usize) -> bool {
            to <= self.arena.len()
        }
    }

    fn contents<M: Memory>(table: &Table<M>) -> Vec<(Vec<usize>, usize)> {
        let plain = |pcs: &[AtomicUsize]| pcs.iter().map(|pc| pc.load(Ordering::Relaxed)).collect();
        let mut all: Vec<_> = table.records().map(|(count, pcs)| (plain(pcs), count)).collect();
        all.sort();
        all
    }

    #[cfg(not(loom))]
    mod plain {
        use super::*;
        use std::collections::HashMap;

        #[test]
        fn counts_are_those_of_a_hash_map() {
            // Up to 37 000 chains: three levels have 86 000 words, but not all buckets get their share.
            let table = Table::new(Fixed::new(4, 1 << 20));
            let mut model: HashMap<Vec<usize>, usize> = HashMap::new();
            let mut state = 1u64;
            for _ in 0..200_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let random = (state >> 33) as usize;
                // Chains that differ in one word only, in length only, and in order only.
                let chain: Vec<usize> =
                    (0..1 + random % 5).map(|i| 0x1000 + (random >> (3 * i) & 7)).collect();
                table.add(&chain, 1 + random % 3).unwrap();
                *model.entry(chain).or_default() += 1 + random % 3;
            }
            let mut expected: Vec<_> = model.into_iter().collect();
            expected.sort();
            assert_eq!(contents(&table), expected);
        }

        #[test]
        fn handlers_at_once_lose_nothing_and_double_nothing() {
            let table = Table::new(Fixed::new(2, 1 << 20));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let table = &table;
                    scope.spawn(move || {
                        for i in 0..50_000usize {
                            table.add(&[0x1000 + (i * (thread + 1)) % 4000, 0x2000], 1).unwrap();
                        }
                    });
                }
            });
            let all = contents(&table);
            assert_eq!(all.iter().map(|(_, count)| count).sum::<usize>(), 200_000);
            let mut chains: Vec<_> = all.iter().map(|(chain, _)| chain).collect();
            chains.dedup();
            assert_eq!(chains.len(), all.len(), "a chain has one record");
        }

        #[test]
        fn a_full_arena_is_reported_and_known_chains_still_count() {
            let table = Table::new(Fixed::new(1, 7));
            assert_eq!(table.add(&[1, 2, 3], 1), Ok(()));
            assert_eq!(table.add(&[4], 1), Err(Full));
            assert_eq!(table.add(&[1, 2, 3], 4), Ok(()));
            assert_eq!(contents(&table), [(vec![1, 2, 3], 5)]);
        }

        #[test]
        fn a_full_index_is_reported() {
            let table = Table::new(Fixed::new(1, 1 << 20));
            let mut stored = 0;
            while table.add(&[0x1000 + stored], 1).is_ok() {
                stored += 1;
            }
            assert!(stored > FIRST_LEVEL * BUCKET / 3, "only {stored} chains in {FIRST_LEVEL} buckets");
            assert_eq!(contents(&table).len(), stored);
        }

        #[test]
        fn deeper_levels_are_filled_when_a_bucket_is_full() {
            let table = Table::new(Fixed::new(3, 1 << 20));
            for i in 0..20_000 {
                table.add(&[0x1000 + i], 1).unwrap();
            }
            assert_eq!(contents(&table).len(), 20_000);
        }
    }

    #[cfg(loom)]
    mod loom_models {
        use super::*;
        use loom::{sync::Arc, thread};

        /// Two handlers add the same new chain while ordinary context reads.
        #[test]
        fn loom_two_handlers_and_a_reader() {
            loom::model(|| {
                let table = Arc::new(Table::new(Fixed::new(1, 6)));
                let handlers: Vec<_> = (0..2)
                    .map(|_| {
                        let table = Arc::clone(&table);
                        thread::spawn(move || table.add(&[7], 1).unwrap())
                    })
                    .collect();
                for (chain, count) in contents(&table) {
                    assert!(chain == [7] && (1..=2).contains(&count));
                }
                for handler in handlers {
                    handler.join().unwrap();
                }
                assert_eq!(contents(&table), [(vec![7], 2)]);
            });
        }

        /// Two handlers fight for one free word with different chains.
        #[test]
        fn loom_two_chains_for_one_place() {
            loom::model(|| {
                let table = Arc::new(Table::new(Fixed::new(1, 6)));
                let other = Arc::clone(&table);
                let handler = thread::spawn(move || other.add(&[1], 1).unwrap());
                table.add(&[2], 3).unwrap();
                handler.join().unwrap();
                assert_eq!(contents(&table), [(vec![1], 1), (vec![2], 3)]);
            });
        }
    }
}
