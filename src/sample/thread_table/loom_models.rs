//! The first fails if a load and a store claim an entry; the second if they add to a count.

use super::*;
use loom::{sync::Arc, thread};

fn table(entries: usize) -> Arc<ThreadTable<Vec<ThreadEntry>>> {
    Arc::new(ThreadTable::new((0..entries).map(|_| ThreadEntry::unused()).collect()))
}

fn tick(threads: &ThreadTable<Vec<ThreadEntry>>, thread: u32, periods: u64) -> ThreadIndex {
    let (index, _) = threads.find_or_add(thread);
    threads.count(index, periods);
    index
}

#[test]
fn loom_claims_two_entries_for_two_threads() {
    loom::model(|| {
        let threads = table(2);
        let other = {
            let threads = threads.clone();
            thread::spawn(move || tick(&threads, 4, 3))
        };
        let own = tick(&threads, 2, 5);
        let other = other.join().unwrap();
        assert_ne!(own, other);
        assert_eq!(threads.thread(own).map(|thread| thread.id), Some(2));
        assert_eq!(threads.thread(other).map(|thread| thread.id), Some(4));
        let busiest = threads.busiest();
        assert_eq!((busiest.count, busiest.threads[0], busiest.threads[1]), (2, (5, own), (3, other)));
    });
}

#[test]
fn loom_counts_all_periods() {
    loom::model(|| {
        let threads = table(1);
        assert_eq!(tick(&threads, 1, 1).place(), Some(0));
        let other = {
            let threads = threads.clone();
            thread::spawn(move || tick(&threads, 2, 10))
        };
        tick(&threads, 3, 100);
        assert_eq!(other.join().unwrap(), ThreadIndex::OTHER);
        assert_eq!((threads.others(), threads.busiest().threads[0].0), (110, 1));
    });
}
