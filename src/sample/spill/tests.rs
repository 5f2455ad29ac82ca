//! Tests on tables in fixed memory, with an array as the file.

use super::*;
use crate::sample::table::{Full, tests::Fixed};
use std::collections::HashMap;

struct Array {
    words: Vec<usize>,
    buffer: Vec<usize>,
    failure: Option<i32>,
}

impl Array {
    fn new() -> Self {
        Self { words: Vec::new(), buffer: vec![0; SLICE_WORDS], failure: None }
    }
}

impl SpillSink for Array {
    fn append(&mut self, place: u64, words: usize) -> Result<(), i32> {
        // Overwrites what a failed attempt has written.
        self.words.truncate(place as usize);
        assert_eq!(self.words.len() as u64, place, "words are left out");
        match self.failure {
            Some(errno) => {
                self.words.push(7);
                Err(errno)
            }
            None => {
                self.words.extend(&self.buffer[..words]);
                Ok(())
            }
        }
    }
    fn name(&mut self) -> &[u8] {
        b"array"
    }
    fn give_up(&mut self) {
        self.words.clear();
    }
    fn buffer(&mut self) -> Result<&mut [usize], i32> {
        Ok(&mut self.buffer)
    }
}

struct Taken(Vec<usize>, usize);

impl Slots for Taken {
    fn count(&self) -> usize {
        self.1
    }
    fn is_free(&self, i: usize) -> bool {
        !self.0.contains(&i)
    }
}

const FREE: Taken = Taken(Vec::new(), 70);

/// Returns all chains and the sums of their counts, in the file and in the table.
fn all(table: &Table<Fixed>, spiller: &Spiller<Array>) -> HashMap<Vec<usize>, usize> {
    let mut sums: HashMap<Vec<usize>, usize> = HashMap::new();
    let guard = spiller.try_lock().unwrap();
    let spilled = table.buffer_state().spilled as usize;
    let mut words = &guard.sink.words[..spilled];
    while let [count, depth, rest @ ..] = words {
        assert!(*count > 0);
        *sums.entry(rest[..*depth].to_vec()).or_default() += count;
        words = &rest[*depth..];
    }
    for (count, pcs) in table.records() {
        let pcs = pcs.iter().map(|pc| pc.load(Ordering::Relaxed)).collect();
        *sums.entry(pcs).or_default() += count;
    }
    sums
}

#[test]
fn loses_nothing_if_the_table_is_filled_many_times() {
    let (table, spiller) = (Table::new(Fixed::halved(1, 2000)), Spiller::new(Array::new()));
    let mut expected: HashMap<Vec<usize>, usize> = HashMap::new();
    for i in 0..120_000usize {
        let chain = vec![0x1000 + i % 60_000, 0x2000];
        table.add(&chain, 1 + i % 3).unwrap();
        spiller.step(&table, &FREE);
        *expected.entry(chain).or_default() += 1 + i % 3;
    }
    assert!(table.buffer_state().spilled > 100_000, "{:?}", table.buffer_state());
    assert_eq!(all(&table, &spiller), expected);
    let periods = spiller.try_lock().unwrap().periods as usize;
    assert!(periods > 0 && periods < expected.values().sum());
}

#[test]
fn waits_for_a_grace_period_before_spilling() {
    let (table, spiller) = (Table::new(Fixed::halved(1, 40)), Spiller::new(Array::new()));
    let fill =
        |from: usize| (from..).map(|i| table.add(&[0x1000 + i, 1], 1)).take_while(Result::is_ok).count();
    // Ten records fill each half; nothing was spilled.
    assert_eq!(fill(0), 20);
    let busy = Taken(vec![69], 70);
    for _ in 0..100 {
        spiller.step(&table, &busy);
    }
    assert_eq!(table.buffer_state(), BufferState { active: 1, other: Other::Records(0), spilled: 0 });
    assert_eq!(table.add(&[0x9000, 1], 1), Err(Full));
    // The others were idle before; one look at the last slot is enough.
    spiller.step(&table, &Taken((0..69).collect(), 70));
    assert_eq!(table.buffer_state(), BufferState { active: 1, other: Other::Clearing, spilled: 40 });
    spiller.step(&table, &FREE);
    assert_eq!(table.buffer_state(), BufferState { active: 1, other: Other::Clean, spilled: 40 });
    assert_eq!(fill(100), 10, "the half is of use again");
    // Slots must be idle again after each swap.
    spiller.step(&table, &busy);
    assert_eq!(table.buffer_state(), BufferState { active: 0, other: Other::Records(0), spilled: 40 });
    assert_eq!(all(&table, &spiller).len(), 30);
}

#[test]
fn keeps_and_counts_records_that_cannot_be_spilled() {
    let (table, spiller) = (Table::new(Fixed::halved(1, 40)), Spiller::new(Array::new()));
    for i in 0..15 {
        table.add(&[0x1000 + i, 1], 1).unwrap();
    }
    spiller.try_lock().unwrap().sink.failure = Some(28);
    for _ in 0..5 {
        spiller.step(&table, &FREE);
    }
    assert_eq!((spiller.failure(), table.buffer_state().spilled), (Some(28), 0));
    for i in 15..20 {
        table.add(&[0x1000 + i, 1], 1).unwrap();
    }
    assert_eq!(table.add(&[0x9000, 1], 1), Err(Full));
    table.add(&[0x1003, 1], 5).unwrap();
    table.add(&[0x1012, 1], 5).unwrap();
    let sums = all(&table, &spiller);
    assert_eq!((sums.len(), sums.values().sum::<usize>()), (20, 30));
    assert_eq!((sums[&vec![0x1003, 1]], sums[&vec![0x1012, 1]]), (6, 6));
}

#[test]
fn counts_records_spilled_before_a_failure_once() {
    // One half holds more than a slice.
    let records = 2 * SLICE_WORDS / 4;
    let (table, spiller) = (Table::new(Fixed::halved(4, 4 * records)), Spiller::new(Array::new()));
    for i in 0..=records {
        table.add(&[0x10_0000 + i, 1], 1).unwrap();
    }
    spiller.step(&table, &FREE);
    let spilled = table.buffer_state();
    assert_eq!(spilled.other, Other::Records(SLICE_WORDS / 4 * 4));
    spiller.try_lock().unwrap().sink.failure = Some(5);
    spiller.step(&table, &FREE);
    assert_eq!((table.buffer_state(), spiller.failure()), (spilled, Some(5)));
    // Fills the active half; then a spilled chain is new, and another one is found.
    let mut extra = 0;
    while table.add(&[0x90_0000 + extra, 1], 1).is_ok() {
        extra += 1;
    }
    assert_eq!(table.add(&[0x10_0000, 1], 1), Err(Full));
    table.add(&[0x10_0000 + records - 1, 1], 1).unwrap();
    let sums = all(&table, &spiller);
    assert_eq!((sums.len(), sums.values().sum::<usize>()), (records + 1 + extra, records + 1 + extra + 1));
}

#[test]
fn loses_nothing_while_concurrent_handlers_swap_halves() {
    const THREADS: usize = 4;
    const EACH: usize = if cfg!(miri) { 200 } else { 40_000 };
    struct World {
        table: Table<Fixed>,
        spiller: Spiller<Array>,
        taken: [crate::sync::AtomicBool; THREADS],
    }
    struct Others<'w>(&'w World, usize);
    impl Slots for Others<'_> {
        fn count(&self) -> usize {
            THREADS
        }
        fn is_free(&self, i: usize) -> bool {
            i == self.1 || !self.0.taken[i].load(Ordering::SeqCst)
        }
    }
    let world = World {
        table: Table::new(Fixed::halved(1, 4000)),
        spiller: Spiller::new(Array::new()),
        taken: [const { crate::sync::AtomicBool::new(false) }; THREADS],
    };
    let lost: usize = std::thread::scope(|scope| {
        let world = &world;
        let handler = move |thread: usize| {
            let mut lost = 0;
            for i in 0..EACH {
                world.taken[thread].store(true, Ordering::SeqCst);
                // Some chains are shared by all threads, some belong to one.
                let chain = [0x1000 + i, if i % 2 == 0 { 1 } else { thread + 2 }];
                lost += usize::from(world.table.add(&chain, 1).is_err());
                world.spiller.step(&world.table, &Others(world, thread));
                world.taken[thread].store(false, Ordering::SeqCst);
            }
            lost
        };
        let handlers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || handler(thread))).collect();
        handlers.into_iter().map(|handler| handler.join().unwrap()).sum()
    });
    let sums = all(&world.table, &world.spiller);
    assert_eq!(sums.values().sum::<usize>() + lost, THREADS * EACH);
    // A thread without a processor may keep both halves full, but not for long.
    assert!(sums.values().all(|&count| count <= THREADS));
    assert!(cfg!(miri) || world.table.buffer_state().spilled > 0);
}
