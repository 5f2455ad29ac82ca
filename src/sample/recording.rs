//! The running session, as the handler sees it.
//!
//! One recording at a time is published. A handler first claims a scratch slot and then looks which recording
//! runs; whoever ends a recording first withdraws it and then waits until every slot has been seen free once. Both
//! sides write before they read, sequentially consistent, so a handler that found the recording is seen in its slot.
//!
//! # Safety
//! Owns the recording's memory; hands out references to it only to holders of a slot.
#![allow(unsafe_code)]

use super::{
    counters::Totals,
    engine::Engine,
    fork_guard,
    sampled_dsos::SampledDso,
    scratch::{HeldSlot, Slot},
    spill::Spiller,
    spill_file::{SpillDirectory, SpillFile},
    spool_memory::SpoolMemory,
    table::{Memory, Shape, SpillSlice, Table, index_words},
    thread_table::{self, ThreadIndex, ThreadTable},
};
use crate::{
    config::{Clock, Filter, MAX_DEPTH},
    format::double_buffer::MAX_HALF_WORDS,
    sync::{AtomicPtr, AtomicUsize, Ordering, modelled},
    sys::{
        memory::{Mapping, PROTECTION_BYTES},
        process, thread,
    },
    thread::Thread,
};
use core::ptr::{self, NonNull};

static RUNNING: AtomicPtr<Recording> = AtomicPtr::new(ptr::null_mut());

/// Levels of the index, the first of 32 KiB, each further one four times as large.
const INDEX_LEVELS: u32 = 7;
/// The index takes at most one part of this many. A half is left when a chain finds its bucket full in all levels, which is
/// when about a third of the index's words are taken: as levels grow by four, records of four frames and more fill their arena
/// first with the default bound, and with any bound those of twenty-one.
const INDEX_SHARE: usize = 2;
/// Bytes of a half's arena are multiples of this.
const ARENA_UNIT: usize = 64 << 10;
/// Address ranges that can be excluded.
const EXCLUDED: usize = 64;

/// What a handler needs of a session.
pub(crate) struct Recording {
    pub(crate) table: Table<TableMemory>,
    pub(crate) spiller: Spiller<SpillFile>,
    pub(crate) threads: ThreadTable<ThreadEntries>,
    pub(crate) clock: Clock,
    /// Of the ticks.
    pub(crate) signal: i32,
    pub(crate) period_micros: u32,
    pub(crate) filter: Option<Filter>,
    /// The last word of each record says whose it is.
    pub(crate) is_by_thread: bool,
    /// Bytes that a table may take in which records are without that word; 0 where they are so anyway.
    pub(crate) fold_bytes: usize,
    /// Deepest chain, 1 to [`MAX_DEPTH`], and one less where a record has one word more.
    pub(crate) max_depth: usize,
    /// The process that started it.
    pub(crate) process: u32,
    /// All slots' counters at the start.
    pub(crate) totals_at_start: Totals,
    excluded: [(usize, usize); EXCLUDED],
    excluded_count: usize,
    /// Where this very recording stands.
    home: Option<Mapping>,
}

/// What a recording is made with.
pub(crate) struct RecordingOptions<'a> {
    pub(crate) clock: Clock,
    pub(crate) signal: i32,
    pub(crate) period_micros: u32,
    pub(crate) filter: Option<Filter>,
    pub(crate) max_depth: usize,
    pub(crate) is_by_thread: bool,
    /// See [`Recording::fold_bytes`].
    pub(crate) fold_bytes: usize,
    pub(crate) excluded: &'a [(usize, usize)],
    /// The profile's directory, where records may be moved to a file of their own.
    pub(crate) beside: Option<SpillDirectory>,
}

/// Owns a recording that is not published, or not yet freed.
pub(crate) struct OwnedRecording(NonNull<Recording>);

// SAFETY: a recording belongs to the process, not to a thread; all that handlers change in it is atomic.
unsafe impl Send for OwnedRecording {}

impl OwnedRecording {
    /// Maps memory and fills it. Allocates nothing else. For ordinary context, or a toggle.
    ///
    /// # Errors
    /// The error number of `mmap(2)`, when not even a small table is to be had.
    pub(crate) fn new(
        engine: &Engine,
        memory: TableMemory,
        options: RecordingOptions<'_>,
    ) -> Result<Self, i32> {
        fork_guard::prepare();
        let home = Mapping::writable(size_of::<Recording>())?;
        let place = home.start().cast::<Recording>();
        let mut excluded = [(0, 0); EXCLUDED];
        let mut excluded_count = 0;
        for (to, from) in excluded.iter_mut().zip(options.excluded) {
            *to = *from;
            excluded_count += 1;
        }
        let entries = thread_table::MAX_THREADS * size_of::<thread_table::ThreadEntry>();
        let deepest = if options.is_by_thread { MAX_DEPTH - 1 } else { MAX_DEPTH };
        let recording = Recording {
            threads: ThreadTable::new(ThreadEntries(Mapping::writable(entries)?)),
            spiller: Spiller::new(SpillFile::new(options.beside, memory.arena.is_spooled())),
            table: Table::new(memory),
            clock: options.clock,
            signal: options.signal,
            period_micros: options.period_micros,
            filter: options.filter,
            is_by_thread: options.is_by_thread,
            fold_bytes: options.fold_bytes,
            max_depth: options.max_depth.clamp(1, deepest),
            process: process::id(),
            totals_at_start: engine.scratch().totals(),
            excluded,
            excluded_count,
            home: Some(home),
        };
        // SAFETY: the mapping is large enough, aligned to a page, and ours.
        unsafe { place.write(recording) };
        Ok(Self(place))
    }

    pub(crate) fn get(&self) -> &Recording {
        // SAFETY: the recording lives until `self` is dropped.
        unsafe { self.0.as_ref() }
    }

    /// Lets handlers use it from now on.
    pub(crate) fn publish(&self) {
        // SeqCst: see the module. Release is part of it, for the recording's contents.
        RUNNING.store(self.0.as_ptr(), Ordering::SeqCst);
        fork_guard::set_running_signal(self.get().signal);
    }

    /// Leaves the memory behind for good: a handler that never came back may be using it.
    pub(crate) fn abandon(self) {
        core::mem::forget(self);
    }

    /// Drops it in a forked child, which has no such spool memory.
    pub(crate) fn release_to_parent(self) {
        // SAFETY: nobody else uses it: it is withdrawn, and no other thread exists.
        let recording = unsafe { self.0.read() };
        core::mem::forget(self);
        let Recording { table, spiller, home, .. } = recording;
        table.into_memory().arena.release_to_parent();
        // Where another thread was at it when the process was copied it is half done, and is left as it is.
        if spiller.is_busy() {
            core::mem::forget(spiller);
        }
        drop(home);
    }
}

impl Drop for OwnedRecording {
    fn drop(&mut self) {
        // SAFETY: nobody else uses it: it was never published, or withdrawn and left by all handlers.
        let mut recording = unsafe { self.0.read() };
        let home = recording.home.take();
        drop(recording);
        drop(home);
    }
}

/// Hides the running recording from handlers that come from now on.
pub(crate) fn withdraw() {
    fork_guard::set_running_signal(0);
    RUNNING.store(ptr::null_mut(), Ordering::SeqCst);
}

/// True while `recording` is the one that is published, in the process that published it. Signal-safe.
pub(crate) fn is_running(recording: &Recording) -> bool {
    ptr::eq(RUNNING.load(Ordering::SeqCst), recording) && fork_guard::running_signal() != 0
}

/// The running recording, for as long as the slot is held. Signal-safe.
#[inline]
pub(crate) fn running<'c>(_held: HeldSlot<'c>) -> Option<&'c Recording> {
    // SeqCst: behind the claim, see the module.
    let recording = RUNNING.load(Ordering::SeqCst);
    // SAFETY: it was published, and is not freed before every slot has been seen free behind its withdrawal; ours
    // is not free while the claim lives.
    unsafe { recording.as_ref() }
}

/// Keeps an object in the spool of the running recording, if there is one and it finds a place. Signal-safe. For the
/// slot's holder.
pub(super) fn spool_dso(_held: &Slot, dso: &SampledDso) {
    // A copy of the process does not have the spool's memory.
    if fork_guard::running_signal() == 0 {
        return;
    }
    let recording = RUNNING.load(Ordering::SeqCst);
    // SAFETY: as in `running`: the caller holds the slot.
    if let Some(recording) = unsafe { recording.as_ref() } {
        recording.memory().spool_dso(dso);
    }
}

impl Recording {
    /// The memory of its records.
    pub(crate) fn memory(&self) -> &SpoolMemory {
        &self.table.memory().arena
    }

    /// Finds who a tick was of, and now and then their name. Signal-safe: system calls, and memory of the session's. For the
    /// tick's thread, while it holds a slot.
    pub(crate) fn thread_index_of(&self, thread: Option<u32>) -> ThreadIndex {
        let Some(id) = thread else { return ThreadIndex::OTHER };
        let (thread_index, is_to_be_named) = self.threads.meet(id);
        if is_to_be_named {
            self.name(thread_index, Thread { id, name: thread::name() });
        }
        thread_index
    }

    /// Notes what a thread is called. Signal-safe.
    pub(crate) fn name(&self, thread_index: ThreadIndex, thread: Thread) {
        self.threads.rename(thread_index, thread.name);
        // Before a record names it: the process may be killed at any instruction.
        if self.is_by_thread {
            self.memory().keep_thread(thread_index, thread);
        }
    }

    /// Puts behind a chain of so many PCs whose it is, where records say that; gives the number of words. Signal-safe.
    pub(crate) fn append_thread_tag(
        &self,
        chain: &mut [usize],
        depth: usize,
        thread_index: ThreadIndex,
    ) -> usize {
        if !self.is_by_thread {
            return depth;
        }
        match chain.get_mut(depth) {
            Some(place) => {
                *place = thread_index.word();
                depth + 1
            }
            None => depth,
        }
    }

    /// The PCs of a record, and the word that says whose it is.
    pub(crate) fn parts<'r, W>(&self, words: &'r [W]) -> (&'r [W], Option<&'r W>) {
        match words.split_last().filter(|_| self.is_by_thread) {
            Some((last, pcs)) => (pcs, Some(last)),
            None => (words, None),
        }
    }

    /// True when `pc` lies in an object that the user excluded. Signal-safe.
    pub(crate) fn excludes(&self, pc: usize) -> bool {
        self.excluded().iter().any(|&(start, end)| (start..end).contains(&pc))
    }

    /// The address ranges that are not recorded.
    pub(crate) fn excluded(&self) -> &[(usize, usize)] {
        self.excluded.get(..self.excluded_count).unwrap_or_default()
    }
}

/// A mapping as the entries of threads.
pub(crate) struct ThreadEntries(Mapping);

impl AsRef<[thread_table::ThreadEntry]> for ThreadEntries {
    #[inline]
    fn as_ref(&self) -> &[thread_table::ThreadEntry] {
        let length = self.0.length() / size_of::<thread_table::ThreadEntry>();
        // SAFETY: the mapping is zeroed, aligned to a page, and lives as long as `self`. (Under loom, whose atomics are no
        // plain words, no recording is ever made.)
        unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().cast(), length) }
    }
}

/// Index and arena of a table, in reserved address space that is made usable piece by piece.
pub(crate) struct TableMemory {
    index: Mapping,
    /// Bytes of the index that are usable.
    index_usable: AtomicUsize,
    arena: SpoolMemory,
    shape: Shape,
}

impl Shape {
    /// How a table of so many bytes is divided, of which `is_halved` says whether half of it may be spilled.
    pub(crate) fn of(bytes: usize, is_halved: bool) -> Self {
        let half = if is_halved { bytes / 2 } else { bytes };
        let index_bytes = |levels| index_words(levels) * size_of::<u64>();
        let levels = (2..=INDEX_LEVELS).rev().find(|levels| index_bytes(*levels) <= half / INDEX_SHARE);
        let levels = levels.unwrap_or(1);
        let arena = half.saturating_sub(index_bytes(levels)) / ARENA_UNIT * ARENA_UNIT;
        let arena_words = arena.max(ARENA_UNIT) / size_of::<usize>();
        Self { is_halved, index_words: index_words(levels), arena_words: arena_words.min(MAX_HALF_WORDS) }
    }

    /// Bytes of all records that the table can hold.
    pub(crate) fn arena_bytes(self) -> usize {
        self.halves() * self.arena_words * size_of::<usize>()
    }

    fn halves(self) -> usize {
        if self.is_halved { 2 } else { 1 }
    }
}

impl TableMemory {
    /// With the arena of a spool, which has room for the shape's. For ordinary context, or a toggle.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn new(arena: SpoolMemory, shape: Shape) -> Result<Self, i32> {
        let mut shape = shape;
        loop {
            match Mapping::reserved(shape.halves() * shape.index_words * size_of::<u64>()) {
                Ok(index) => {
                    arena.note_halves(if shape.is_halved { shape.arena_words } else { 0 });
                    let memory = Self { index, index_usable: AtomicUsize::new(0), arena, shape };
                    // The first ticks of many threads would all do it at once, and wait for each other in the kernel with
                    // all slots taken.
                    memory.grow_index(index_words(1));
                    return Ok(memory);
                }
                Err(error) if shape.index_words <= index_words(1) => return Err(error),
                Err(_) => {
                    let smaller = (1..INDEX_LEVELS).rev().map(index_words);
                    shape.index_words = smaller
                        .into_iter()
                        .find(|words| *words < shape.index_words)
                        .unwrap_or(index_words(1));
                }
            }
        }
    }

    /// In anonymous memory: a table of `bytes`, or less where the process may not have as much.
    ///
    /// # Errors
    /// The error number of `mmap(2)`, when not even a small table is to be had.
    pub(crate) fn anonymous(bytes: usize, is_halved: bool) -> Result<Self, i32> {
        const MIN: usize = 1 << 20;
        let mut bytes = bytes.max(MIN);
        loop {
            let shape = Shape::of(bytes, is_halved);
            match SpoolMemory::anonymous(shape.arena_bytes()) {
                Ok(arena) => return Self::new(arena, shape),
                Err(error) if bytes <= MIN => return Err(error),
                Err(_) => bytes = (bytes / 4).max(MIN),
            }
        }
    }
}

impl Memory for TableMemory {
    #[inline]
    fn shape(&self) -> Shape {
        self.shape
    }

    #[inline]
    fn buffer_state(&self) -> &modelled::AtomicU64 {
        self.arena.buffer_state()
    }

    fn note_spilling(&self, slice: &SpillSlice<'_>) {
        self.arena.note_spilling(slice);
    }

    fn index(&self, from: usize, to: usize) -> Option<&[modelled::AtomicU64]> {
        let end = to.checked_mul(size_of::<u64>())?;
        if from > to || end > self.index_usable.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: `from` is at most `to`, whose byte offset lies within the mapping.
        let start = unsafe { self.index.start().cast::<modelled::AtomicU64>().add(from) };
        // SAFETY: the range was made usable, is aligned to words, zeroed by the kernel, and atomics may be shared.
        // (Under loom, whose atomics are no plain words, no recording is ever made.)
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), to - from) })
    }

    /// Handlers may do so at once: the system call may be repeated, and the mark only grows.
    fn grow_index(&self, to: usize) -> bool {
        let present = self.index_usable.load(Ordering::Acquire);
        let needed = to * size_of::<u64>();
        if needed <= present {
            return true;
        }
        let target = needed.next_multiple_of(PROTECTION_BYTES).min(self.index.length());
        if needed > target || self.index.commit(present, target).is_err() {
            return false;
        }
        // Release: whoever sees the mark may touch the memory.
        self.index_usable.fetch_max(target, Ordering::Release);
        true
    }

    fn arena(&self, from: usize, to: usize) -> Option<&[modelled::AtomicUsize]> {
        self.arena.words(from, to)
    }

    fn grow_arena(&self, to: usize) -> bool {
        self.arena.grow(to * size_of::<usize>())
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::super::scratch::Occupancy;
    use loom::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering, fence},
        },
        thread,
    };

    /// The protocol of `running` and of stop: a handler never has a recording that has been freed.
    ///
    /// loom gives sequentially consistent operations the strength of acquire and release only; the fences stand
    /// for the total order that the language guarantees them. Without either fence the model fails.
    #[test]
    fn loom_a_recording_is_not_freed_under_a_handler() {
        loom::model(|| {
            let slot = Arc::new(Occupancy::free());
            let running = Arc::new(AtomicUsize::new(1));
            let freed = Arc::new(AtomicBool::new(false));
            let handler = {
                let (slot, running, freed) = (slot.clone(), running.clone(), freed.clone());
                thread::spawn(move || {
                    if slot.try_claim() {
                        fence(Ordering::SeqCst);
                        if running.load(Ordering::SeqCst) == 1 {
                            assert!(!freed.load(Ordering::Relaxed), "used after it was freed");
                        }
                        slot.release();
                    }
                })
            };
            running.store(0, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if slot.is_free() {
                freed.store(true, Ordering::Relaxed);
            }
            handler.join().unwrap();
        });
    }
}
