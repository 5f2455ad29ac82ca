use super::*;

/// As in a session; fewer under Miri, which takes minutes for them.
const MOST: usize = if cfg!(miri) { 1 << 10 } else { MAX_THREADS };

fn table(entries: usize) -> ThreadTable<Vec<ThreadEntry>> {
    ThreadTable::new((0..entries).map(|_| ThreadEntry::unused()).collect())
}

fn tick(threads: &ThreadTable<Vec<ThreadEntry>>, thread: u32, periods: u64) -> ThreadIndex {
    let (index, _) = threads.find_or_add(thread);
    threads.count(index, periods);
    index
}

fn named(name: &[u8]) -> ThreadName {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name);
    ThreadName::new(bytes)
}

#[test]
fn keeps_the_entry_of_a_thread() {
    let threads = table(MOST);
    let (first, other) = (tick(&threads, 100, 1), tick(&threads, 101, 1));
    assert_ne!(first, other);
    assert_eq!((tick(&threads, 100, 2), tick(&threads, 101, 3)), (first, other));
    assert_eq!(threads.thread(first), Some(Thread { id: 100, ..Thread::default() }));
    let busiest = threads.busiest();
    assert_eq!(
        (busiest.count, &busiest.threads[..3]),
        (2, &[(4, other), (3, first), (0, ThreadIndex::OTHER)][..])
    );
}

#[test]
fn separates_threads_with_the_same_start_index() {
    let threads = table(MOST);
    let ids = (0..WINDOW as u32).map(|i| 5 + i * MOST as u32);
    let indices: Vec<_> = ids.clone().map(|id| tick(&threads, id, u64::from(id))).collect();
    for (id, index) in ids.zip(&indices) {
        assert_eq!(threads.thread(*index).map(|thread| thread.id), Some(id));
        assert_eq!(tick(&threads, id, 0), *index);
    }
    assert_eq!(tick(&threads, 5 + WINDOW as u32 * MOST as u32, 7), ThreadIndex::OTHER);
    assert_eq!((threads.others(), threads.busiest().count), (7, WINDOW as u64));
}

#[test]
fn counts_threads_without_an_entry_together() {
    let threads = table(8);
    assert_eq!(threads.thread(ThreadIndex::of(6)), None, "nobody has it yet");
    let id = |i: u32| 6 + 8 * i;
    for i in 0..8 {
        assert_ne!(tick(&threads, id(i), 1), ThreadIndex::OTHER);
    }
    for i in 8..100 {
        assert_eq!(threads.find_or_add(id(i)), (ThreadIndex::OTHER, false));
        assert_eq!(tick(&threads, id(i), 2), ThreadIndex::OTHER);
    }
    assert_eq!((threads.others(), threads.busiest().count), (2 * 92, 8));
    assert_eq!(threads.thread(ThreadIndex::OTHER), None);
    threads.rename(ThreadIndex::OTHER, named(b"nobody"));
    assert!((0..8).all(|i| tick(&threads, id(i), 1) != ThreadIndex::OTHER), "those that are there stay");
}

#[test]
fn reads_names_at_ticks_that_are_powers_of_two() {
    let threads = table(8);
    let due: Vec<u32> = (1..=70).filter(|_| threads.find_or_add(3).1).collect();
    assert_eq!(due, [1, 2, 4, 8, 16, 32, 64]);
}

#[test]
fn returns_the_newest_name() {
    let threads = table(8);
    let index = tick(&threads, 3, 1);
    assert_eq!(threads.thread(index), Some(Thread { id: 3, name: named(b"") }));
    threads.rename(index, named(b"a long name 123"));
    assert_eq!(threads.thread(index), Some(Thread { id: 3, name: named(b"a long name 123") }));
    threads.rename(index, named(b"short"));
    assert_eq!(threads.thread(index), Some(Thread { id: 3, name: named(b"short") }));
}

#[test]
fn returns_the_busiest_threads_first() {
    let threads = table(MOST);
    let periods = |id: u32| u64::from(id * 37 % 101 + 1);
    for id in 1..=100 {
        tick(&threads, id * 50, periods(id));
    }
    // Sampled, but not recorded.
    threads.find_or_add(7);
    let mut expected: Vec<u64> = (1..=100).map(periods).collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let busiest = threads.busiest();
    assert_eq!(busiest.count, 100);
    assert_eq!(busiest.threads.map(|(periods, _)| periods)[..], expected[..SampledThreads::SHOWN]);
    for (found, index) in busiest.threads {
        let id = threads.thread(index).unwrap().id;
        assert_eq!(found, periods(id / 50), "{id}");
    }
}

#[test]
fn converts_an_index_to_a_nonzero_word_and_back() {
    for index in [ThreadIndex::OTHER, ThreadIndex::of(0), ThreadIndex::of(MAX_THREADS - 1)] {
        assert_ne!(index.word(), 0);
        assert_eq!(ThreadIndex::from_word(index.word()), index);
    }
    for odd in [0, 1 << 17, usize::MAX] {
        assert_eq!(ThreadIndex::from_word(odd), ThreadIndex::OTHER);
    }
    assert_eq!(ThreadIndex::of(0).place(), Some(0));
}

#[test]
fn counts_concurrent_threads_separately() {
    const EACH: u64 = if cfg!(miri) { 10 } else { 10_000 };
    let threads = table(8);
    std::thread::scope(|scope| {
        for id in 1..=4u32 {
            let threads = &threads;
            // All start at the same index.
            scope.spawn(move || {
                for _ in 0..EACH {
                    tick(threads, id * 8, u64::from(id));
                }
            });
        }
    });
    let busiest = threads.busiest();
    assert_eq!(busiest.count, 4);
    assert_eq!(busiest.threads.map(|(periods, _)| periods)[..5], [4 * EACH, 3 * EACH, 2 * EACH, EACH, 0]);
}
