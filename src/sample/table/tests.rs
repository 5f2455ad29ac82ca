//! Tests on memory of a fixed size.

use super::*;

pub(crate) struct Fixed {
    shape: Shape,
    state: AtomicU64,
    index: Vec<AtomicU64>,
    arena: Vec<AtomicUsize>,
}

impl Fixed {
    pub(crate) fn new(levels: u32, arena_words: usize) -> Self {
        Self::of(Shape { is_halved: false, index_words: index_words(levels), arena_words })
    }

    pub(crate) fn halved(levels: u32, arena_words: usize) -> Self {
        Self::of(Shape { is_halved: true, index_words: index_words(levels), arena_words })
    }

    fn of(shape: Shape) -> Self {
        let halves = if shape.is_halved { 2 } else { 1 };
        Self {
            shape,
            state: AtomicU64::new(0),
            index: (0..halves * shape.index_words).map(|_| AtomicU64::new(0)).collect(),
            arena: (0..halves * shape.arena_words).map(|_| AtomicUsize::new(0)).collect(),
        }
    }
}

impl Memory for Fixed {
    fn shape(&self) -> Shape {
        self.shape
    }
    fn buffer_state(&self) -> &AtomicU64 {
        &self.state
    }
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
    fn note_spilling(&self, _slice: &SpillSlice<'_>) {}
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

    /// Miri is a thousand times slower.
    const MIRI: bool = cfg!(miri);

    #[test]
    fn counts_like_a_hash_map() {
        // Up to 37 000 chains: three levels have 86 000 words, but buckets fill unevenly.
        let table =
            if MIRI { Table::new(Fixed::new(1, 1 << 12)) } else { Table::new(Fixed::new(4, 1 << 20)) };
        let mut model: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut state = 1u64;
        for _ in 0..if MIRI { 200 } else { 200_000 } {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as usize;
            // Chains that differ only in one word, in length or in order.
            let chain: Vec<usize> = (0..1 + random % 5).map(|i| 0x1000 + (random >> (3 * i) & 7)).collect();
            table.add(&chain, 1 + random % 3).unwrap();
            *model.entry(chain).or_default() += 1 + random % 3;
        }
        let mut expected: Vec<_> = model.into_iter().collect();
        expected.sort();
        assert_eq!(contents(&table), expected);
    }

    #[test]
    fn handlers_lose_and_double_nothing() {
        const ROUNDS: usize = if MIRI { 12 } else { 50_000 };
        let table = Table::new(if MIRI { Fixed::new(1, 1 << 8) } else { Fixed::new(2, 1 << 20) });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for i in 0..ROUNDS {
                        table.add(&[0x1000 + (i * (thread + 1)) % 4000, 0x2000], 1).unwrap();
                    }
                });
            }
        });
        let all = contents(&table);
        assert_eq!(all.iter().map(|(_, count)| count).sum::<usize>(), 4 * ROUNDS);
        let mut chains: Vec<_> = all.iter().map(|(chain, _)| chain).collect();
        chains.dedup();
        assert_eq!(chains.len(), all.len(), "a chain has one record");
    }

    #[test]
    fn reports_a_full_arena_and_still_counts_known_chains() {
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

    #[test]
    fn loom_adds_one_record_for_the_same_chain() {
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

    /// Two handlers contend for one free word with different chains.
    #[test]
    fn loom_adds_two_chains_that_contend_for_a_word() {
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
