//! Which threads a session has sampled: their ids, their names, and how many periods are theirs.
//!
//! Each tick that is recorded is counted for its thread. A thread's entry is found by its id, in a table without locks:
//!
//! | entry's thread | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | claimed, by compare-exchange, at a thread's first tick |
//! | an id | of that thread | nothing else, for the session |
//!
//! So an entry's place names a thread for the whole session, and can stand in records. The search begins where the id says
//! and goes on to the first free entry, over [`WINDOW`] at most. A thread that finds none is one of the *others*, who share one
//! count. An id that the kernel gives to another thread, when the first one has ended, goes on in the same entry: the name is
//! then the newer one.
//!
//! Who writes: an entry's ticks and its name the thread itself, whose ticks do not interrupt each other, and at the session's
//! stop whoever looks at names once more; counts all of them. Who reads: ordinary context, at any time. A name is two words: who
//! reads while it is changed may have half of each.
//!
//! All of it is signal-safe.

pub(crate) use crate::format::spool::MAX_THREADS;

use crate::{
    sync::{
        Ordering,
        modelled::{AtomicU32, AtomicU64},
    },
    thread::{SampledThreads, Thread, ThreadName},
};
use core::mem;

/// Entries that are looked at for a thread.
const WINDOW: usize = if cfg!(loom) { 2 } else { 64 };
/// Entries that have one bit in [`ThreadTable::used`].
const GROUP: usize = MAX_THREADS / 64;

/// Which thread it is: 0 for the others, else one more than the entry's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadIndex(u16);

impl ThreadIndex {
    /// One of those without an entry.
    pub(crate) const OTHER: Self = Self(0);

    /// What stands for it in a record, which is never 0.
    pub(crate) fn word(self) -> usize {
        usize::from(self.0) + 1
    }

    pub(crate) fn from_word(word: usize) -> Self {
        word.checked_sub(1).and_then(|number| u16::try_from(number).ok()).map_or(Self::OTHER, Self)
    }

    /// The entry's place.
    pub(crate) fn place(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    fn of(place: usize) -> Self {
        u16::try_from(place + 1).map_or(Self::OTHER, Self)
    }
}

/// A thread's entry.
#[repr(C)]
pub(crate) struct ThreadEntry {
    /// Its id, or 0.
    thread: AtomicU32,
    /// Ticks that met it.
    ticks: AtomicU32,
    /// Of its samples.
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

/// The threads with the most periods, the busiest first; zeros where there are fewer.
pub(crate) struct Busiest {
    /// Of all threads that have an entry and samples.
    pub(crate) count: u64,
    pub(crate) threads: [(u64, ThreadIndex); SampledThreads::SHOWN],
}

/// See the module. `E` holds the entries, which are all zero at first.
pub(crate) struct ThreadTable<E> {
    entries: E,
    /// A bit for each group of entries that has one in use: nobody has to touch the others' memory.
    used: AtomicU64,
    /// Periods of threads without an entry.
    others: AtomicU64,
}

impl<E: AsRef<[ThreadEntry]>> ThreadTable<E> {
    /// With entries that are all zero, [`MAX_THREADS`] at most.
    pub(crate) fn new(entries: E) -> Self {
        Self { entries, used: AtomicU64::new(0), others: AtomicU64::new(0) }
    }

    /// Finds the calling thread's entry, or claims one, and says whether its name is to be read: at each of its ticks whose
    /// number is a power of two. Threads are mostly named just after they are born.
    pub(crate) fn meet(&self, thread: u32) -> (ThreadIndex, bool) {
        let Some((place, entry)) = self.find_or_claim(thread) else { return (ThreadIndex::OTHER, false) };
        // Relaxed, and no exchange: the thread's own.
        let ticks = entry.ticks.load(Ordering::Relaxed).wrapping_add(1);
        entry.ticks.store(ticks, Ordering::Relaxed);
        (ThreadIndex::of(place), ticks.is_power_of_two())
    }

    fn find_or_claim(&self, thread: u32) -> Option<(usize, &ThreadEntry)> {
        let entries = self.entries.as_ref();
        // Ids of threads that were made one after another find their places at once.
        let start = (thread as usize).checked_rem(entries.len())?;
        let all = entries.iter().enumerate();
        for (place, entry) in all.clone().skip(start).chain(all.take(start)).take(WINDOW) {
            // Acquire: what was done for an ended thread of this id is seen.
            let mut present = entry.thread.load(Ordering::Acquire);
            if present == 0 {
                match entry.thread.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        // Release: who finds the group finds the entry.
                        self.used.fetch_or(1 << (place / GROUP % 64), Ordering::Release);
                        present = thread;
                    }
                    // Another thread was first.
                    Err(other) => present = other,
                }
            }
            if present == thread {
                return Some((place, entry));
            }
        }
        None
    }

    /// Counts periods of a recorded sample.
    pub(crate) fn count(&self, thread_index: ThreadIndex, periods: u64) {
        let own = thread_index.place().and_then(|place| self.entries.as_ref().get(place));
        // Relaxed: a count publishes nothing but itself.
        own.map_or(&self.others, |entry| &entry.periods).fetch_add(periods, Ordering::Relaxed);
    }

    /// Notes what a thread is called.
    pub(crate) fn rename(&self, thread_index: ThreadIndex, name: ThreadName) {
        let own = thread_index.place().and_then(|place| self.entries.as_ref().get(place));
        let Some(entry) = own else { return };
        for (place, word) in entry.name.iter().zip(name.words()) {
            // Relaxed: see the module for who reads meanwhile.
            place.store(word, Ordering::Relaxed);
        }
    }

    /// The thread; None for one of the others.
    pub(crate) fn thread(&self, thread_index: ThreadIndex) -> Option<Thread> {
        let entry = self.entries.as_ref().get(thread_index.place()?)?;
        Some(entry.thread()).filter(|thread| thread.id != 0)
    }

    /// Periods of threads without an entry.
    pub(crate) fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// Those who have the most periods.
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
