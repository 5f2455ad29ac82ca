//! The threads that a session has sampled: IDs, names and periods. Signal-safe: atomics.
//!
//! A thread's entry is found by its ID, without locks:
//!
//! | entry's thread | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | claimed, by compare-exchange, at a thread's first tick |
//! | an ID | entry of that thread | unchanged for the session |
//!
//! So an entry's index identifies a thread in records. The ID selects where the search starts; it
//! ends at the first free entry, after at most [`WINDOW`]. Threads without an entry are the
//! *others*, with one count. If the kernel reuses an exited thread's ID, both threads share an
//! entry, with the newer name.
//!
//! The thread itself writes its entry's ticks and name: its ticks do not interrupt each other. A
//! session's stop also writes names. Any thread adds to counts. Ordinary context reads at any time,
//! and may read a half changed name, which is two words.

pub(crate) use crate::format::spool::MAX_THREADS;

use crate::{
    sync::{
        Ordering,
        modelled::{AtomicU32, AtomicU64},
    },
    thread::{SampledThreads, Thread, ThreadName},
};
use core::mem;

/// Entries that are searched for a thread.
const WINDOW: usize = if cfg!(loom) { 2 } else { 64 };
/// Entries for each bit of [`ThreadTable::used`].
const GROUP: usize = MAX_THREADS / 64;

/// A thread's number: 0 for the threads without an entry, otherwise [`place`](Self::place) in the
/// table plus one. A record has this number plus one ([`word`](Self::word)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadIndex(u16);

impl ThreadIndex {
    pub(crate) const OTHER: Self = Self(0);

    /// Returns the value in a record, never 0.
    pub(crate) fn word(self) -> usize {
        usize::from(self.0) + 1
    }

    pub(crate) fn from_word(word: usize) -> Self {
        word.checked_sub(1).and_then(|number| u16::try_from(number).ok()).map_or(Self::OTHER, Self)
    }

    pub(crate) fn place(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    fn of(place: usize) -> Self {
        u16::try_from(place + 1).map_or(Self::OTHER, Self)
    }
}

#[repr(C)]
pub(crate) struct ThreadEntry {
    /// The ID, or 0.
    thread: AtomicU32,
    ticks: AtomicU32,
    periods: AtomicU64,
    /// See [`ThreadName::words`].
    name: [AtomicU64; 2],
}

#[cfg(test)]
impl ThreadEntry {
    fn unused() -> Self {
        Self {
            thread: AtomicU32::new(0),
            ticks: AtomicU32::new(0),
            periods: AtomicU64::new(0),
            name: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }
}

impl ThreadEntry {
    fn thread(&self) -> Thread {
        let [first, second] = &self.name;
        let words = [first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)];
        Thread { id: self.thread.load(Ordering::Acquire), name: ThreadName::from_words(words) }
    }
}

/// The threads with the most periods, in descending order; zeros if there are fewer.
pub(crate) struct Busiest {
    /// All threads that have an entry and samples.
    pub(crate) count: u64,
    pub(crate) threads: [(u64, ThreadIndex); SampledThreads::SHOWN],
}

/// `E` holds the entries, which are all zero at first.
pub(crate) struct ThreadTable<E> {
    entries: E,
    /// A bit for each group with a used entry: the memory of others is not touched.
    used: AtomicU64,
    others: AtomicU64,
}

impl<E: AsRef<[ThreadEntry]>> ThreadTable<E> {
    pub(crate) fn new(entries: E) -> Self {
        Self { entries, used: AtomicU64::new(0), others: AtomicU64::new(0) }
    }

    /// Finds or claims the calling thread's entry. True if its name is to be read: at ticks
    /// with a power of two as number. Most threads are named soon after their start.
    pub(crate) fn find_or_add(&self, thread: u32) -> (ThreadIndex, bool) {
        let Some((place, entry)) = self.find_or_claim(thread) else { return (ThreadIndex::OTHER, false) };
        // Relaxed, without exchange: only the thread itself writes it.
        let ticks = entry.ticks.load(Ordering::Relaxed).wrapping_add(1);
        entry.ticks.store(ticks, Ordering::Relaxed);
        (ThreadIndex::of(place), ticks.is_power_of_two())
    }

    fn find_or_claim(&self, thread: u32) -> Option<(usize, &ThreadEntry)> {
        let entries = self.entries.as_ref();
        // Consecutive IDs find their entries immediately.
        let start = (thread as usize).checked_rem(entries.len())?;
        let all = entries.iter().enumerate();
        for (place, entry) in all.clone().skip(start).chain(all.take(start)).take(WINDOW) {
            // Acquire: pairs with the compare-exchange by an exited thread with this ID.
            let mut present = entry.thread.load(Ordering::Acquire);
            if present == 0 {
                match entry.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        // Release: pairs with the acquire in `busiest`, for the entry.
                        self.used.fetch_or(1 << (place / GROUP % 64), Ordering::Release);
                        present = thread;
                    }
                    Err(other) => present = other,
                }
            }
            if present == thread {
                return Some((place, entry));
            }
        }
        None
    }

    pub(crate) fn count(&self, thread_index: ThreadIndex, periods: u64) {
        let own = thread_index.place().and_then(|place| self.entries.as_ref().get(place));
        // Relaxed: the count publishes no other data.
        own.map_or(&self.others, |entry| &entry.periods).fetch_add(periods, Ordering::Relaxed);
    }

    pub(crate) fn rename(&self, thread_index: ThreadIndex, name: ThreadName) {
        let own = thread_index.place().and_then(|place| self.entries.as_ref().get(place));
        let Some(entry) = own else { return };
        for (place, word) in entry.name.iter().zip(name.words()) {
            // Relaxed: see the module.
            place.store(word, Ordering::Relaxed);
        }
    }

    pub(crate) fn thread(&self, thread_index: ThreadIndex) -> Option<Thread> {
        let entry = self.entries.as_ref().get(thread_index.place()?)?;
        Some(entry.thread()).filter(|thread| thread.id != 0)
    }

    pub(crate) fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    pub(crate) fn busiest(&self) -> Busiest {
        let mut busiest = Busiest { count: 0, threads: [(0, ThreadIndex::OTHER); SampledThreads::SHOWN] };
        let used = self.used.load(Ordering::Acquire);
        let groups = self.entries.as_ref().chunks(GROUP).enumerate();
        for (group, entries) in groups.filter(|(group, _)| used >> (group % 64) & 1 == 1) {
            for (i, entry) in entries.iter().enumerate() {
                let periods = entry.periods.load(Ordering::Relaxed);
                if periods == 0 {
                    continue;
                }
                busiest.count += 1;
                let mut carried = (periods, ThreadIndex::of(group * GROUP + i));
                for place in &mut busiest.threads {
                    if carried.0 > place.0 {
                        mem::swap(place, &mut carried);
                    }
                }
            }
        }
        busiest
    }
}

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom)))]
mod tests;
