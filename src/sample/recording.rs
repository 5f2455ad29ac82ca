//! The running session, as the handler sees it.
//!
//! A handler claims a scratch slot and then loads the running recording. A stop withdraws it and
//! then waits for a grace period: each slot was idle once. Both sides write before they read,
//! sequentially consistent. So a stop waits for all handlers that use the recording, at most two
//! seconds; then the memory is leaked.
//!
//! [`running`], [`is_running`], [`spool_dso`] and methods of [`Recording`] are signal-safe: system
//! calls, and atomics in the session's memory.
//!
//! # Safety
//! Owns the recording's memory. Only holders of a slot get references to it.
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
        memory::{OwnedMapping, PROTECTION_BYTES},
        process, thread,
    },
    thread::Thread,
};
use core::ptr::{self, NonNull};

static RUNNING: AtomicPtr<Recording> = AtomicPtr::new(ptr::null_mut());

/// Levels of the index. The first has 32 KiB, each further one four times the size.
const INDEX_LEVELS: u32 = 7;
/// The index takes at most 1 / INDEX_SHARE of a half. About a third of it is used when a bucket is
/// full in all levels. Records of 4 frames or more (21 in the worst table size) fill the arena
/// before.
const INDEX_SHARE: usize = 2;
/// An arena's size is a multiple of this, in bytes.
const ARENA_UNIT: usize = 64 << 10;
const EXCLUDED: usize = 64;

pub(crate) struct Recording {
    pub(crate) table: Table<TableMemory>,
    pub(crate) spiller: Spiller<SpillFile>,
    pub(crate) threads: ThreadTable<ThreadEntries>,
    pub(crate) clock: Clock,
    pub(crate) signal: i32,
    pub(crate) period_micros: u32,
    pub(crate) filter: Option<Filter>,
    /// The last word of each record is the thread's word.
    pub(crate) is_by_thread: bool,
    /// Bytes of a table that merges records without threads' words; 0 if the session
    /// writes no such profile.
    pub(crate) fold_bytes: usize,
    /// From 1 to [`MAX_DEPTH`]; one less if records have a thread's word.
    pub(crate) max_depth: usize,
    pub(crate) process: u32,
    pub(crate) totals_at_start: Totals,
    excluded: [(usize, usize); EXCLUDED],
    excluded_count: usize,
    /// The mapping that holds this value.
    home: Option<OwnedMapping>,
}

pub(crate) struct RecordingOptions<'a> {
    pub(crate) clock: Clock,
    pub(crate) signal: i32,
    pub(crate) period_micros: u32,
    pub(crate) filter: Option<Filter>,
    pub(crate) max_depth: usize,
    pub(crate) is_by_thread: bool,
    pub(crate) fold_bytes: usize,
    pub(crate) excluded: &'a [(usize, usize)],
    /// The profile's directory, for a spill file.
    pub(crate) beside: Option<SpillDirectory>,
}

pub(crate) struct OwnedRecording(NonNull<Recording>);

// SAFETY: a recording is not bound to a thread; handlers change it only by atomics.
unsafe impl Send for OwnedRecording {}

impl OwnedRecording {
    /// Maps and fills memory, without other allocations. For ordinary context, or a toggle request.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn new(
        engine: &Engine,
        memory: TableMemory,
        options: RecordingOptions<'_>,
    ) -> Result<Self, i32> {
        fork_guard::prepare();
        let home = OwnedMapping::writable(size_of::<Recording>())?;
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
            threads: ThreadTable::new(ThreadEntries(OwnedMapping::writable(entries)?)),
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
        // SAFETY: the mapping is large enough, page-aligned, and not shared yet.
        unsafe { place.write(recording) };
        Ok(Self(place))
    }

    pub(crate) fn get(&self) -> &Recording {
        // SAFETY: the recording lives until `self` is dropped.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn publish(&self) {
        // SeqCst: see the module. It includes release, for the recording's contents.
        RUNNING.store(self.0.as_ptr(), Ordering::SeqCst);
        fork_guard::set_running_signal(self.get().signal);
    }

    /// Leaks the memory: a handler that has not returned may use it.
    pub(crate) fn abandon(self) {
        core::mem::forget(self);
    }

    /// Drops it in a forked child, which does not have the spool's memory.
    pub(crate) fn forget_in_child(self) {
        // SAFETY: unshared: it is withdrawn, and the child has no other thread.
        let recording = unsafe { self.0.read() };
        core::mem::forget(self);
        let Recording { table, spiller, home, .. } = recording;
        table.into_memory().arena.forget_in_child();
        // Another thread may have changed the spiller's state halfway during the fork.
        if spiller.is_busy() {
            core::mem::forget(spiller);
        }
        drop(home);
    }
}

impl Drop for OwnedRecording {
    fn drop(&mut self) {
        // SAFETY: unshared: it was never published, or is withdrawn and no handler uses it.
        let mut recording = unsafe { self.0.read() };
        let home = recording.home.take();
        drop(recording);
        drop(home);
    }
}

/// Hides the running recording from handlers that start later.
pub(crate) fn withdraw() {
    fork_guard::set_running_signal(0);
    RUNNING.store(ptr::null_mut(), Ordering::SeqCst);
}

/// True while `recording` is published, in the process that published it.
pub(crate) fn is_running(recording: &Recording) -> bool {
    ptr::eq(RUNNING.load(Ordering::SeqCst), recording) && fork_guard::running_signal() != 0
}

/// Returns the running recording, valid while the slot is held.
#[inline]
pub(crate) fn running<'c>(_held: HeldSlot<'c>) -> Option<&'c Recording> {
    // SeqCst: after the claim, see the module.
    let recording = RUNNING.load(Ordering::SeqCst);
    // SAFETY: it is freed only after its withdrawal and a grace period; this slot is not idle.
    unsafe { recording.as_ref() }
}

/// Adds a shared object to the running recording's spool, if there is room. For the slot's holder.
pub(super) fn spool_dso(_held: &Slot, dso: &SampledDso) {
    // A forked copy does not have the spool's memory.
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
    pub(crate) fn memory(&self) -> &SpoolMemory {
        &self.table.memory().arena
    }

    /// Returns a tick's thread, and updates its name at some ticks. For that thread, with a slot.
    pub(crate) fn thread_index_of(&self, thread: Option<u32>) -> ThreadIndex {
        let Some(id) = thread else { return ThreadIndex::OTHER };
        let (thread_index, is_to_be_named) = self.threads.find_or_add(id);
        if is_to_be_named {
            self.name(thread_index, Thread { id, name: thread::name() });
        }
        thread_index
    }

    pub(crate) fn name(&self, thread_index: ThreadIndex, thread: Thread) {
        self.threads.rename(thread_index, thread.name);
        // Before a record refers to it: the process may be killed at any instruction.
        if self.is_by_thread {
            self.memory().keep_thread(thread_index, thread);
        }
    }

    /// Appends the thread's word after `depth` PCs, if the session is by thread. Returns the number
    /// of words.
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

    /// Splits a record into PCs and the thread's word.
    pub(crate) fn parts<'r, W>(&self, words: &'r [W]) -> (&'r [W], Option<&'r W>) {
        match words.split_last().filter(|_| self.is_by_thread) {
            Some((last, pcs)) => (pcs, Some(last)),
            None => (words, None),
        }
    }

    pub(crate) fn excludes(&self, pc: usize) -> bool {
        self.excluded().iter().any(|&(start, end)| (start..end).contains(&pc))
    }

    pub(crate) fn excluded(&self) -> &[(usize, usize)] {
        self.excluded.get(..self.excluded_count).unwrap_or_default()
    }
}

pub(crate) struct ThreadEntries(OwnedMapping);

impl AsRef<[thread_table::ThreadEntry]> for ThreadEntries {
    #[inline]
    fn as_ref(&self) -> &[thread_table::ThreadEntry] {
        let length = self.0.length() / size_of::<thread_table::ThreadEntry>();
        // SAFETY: the mapping is zeroed, page-aligned, and lives as long as `self`. (Under loom
        // no recording is created: its atomics are not plain words.)
        unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().cast(), length) }
    }
}

/// Index and arena of a table, with lazy commit.
pub(crate) struct TableMemory {
    index: OwnedMapping,
    /// Usable bytes of the index.
    index_usable: AtomicUsize,
    arena: SpoolMemory,
    shape: Shape,
}

impl Shape {
    /// Returns the layout of a table; `is_halved` if it is a double buffer, which can be spilled.
    pub(crate) fn of(bytes: usize, is_halved: bool) -> Self {
        let half = if is_halved { bytes / 2 } else { bytes };
        let index_bytes = |levels| index_words(levels) * size_of::<u64>();
        let levels = (2..=INDEX_LEVELS).rev().find(|levels| index_bytes(*levels) <= half / INDEX_SHARE);
        let levels = levels.unwrap_or(1);
        let arena = half.saturating_sub(index_bytes(levels)) / ARENA_UNIT * ARENA_UNIT;
        let arena_words = arena.max(ARENA_UNIT) / size_of::<usize>();
        Self { is_halved, index_words: index_words(levels), arena_words: arena_words.min(MAX_HALF_WORDS) }
    }

    pub(crate) fn arena_bytes(self) -> usize {
        self.halves() * self.arena_words * size_of::<usize>()
    }

    fn halves(self) -> usize {
        if self.is_halved { 2 } else { 1 }
    }
}

impl TableMemory {
    /// Adds an index to the spool's `arena`. For ordinary context, or a toggle request.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn new(arena: SpoolMemory, shape: Shape) -> Result<Self, i32> {
        let mut shape = shape;
        loop {
            match OwnedMapping::reserved(shape.halves() * shape.index_words * size_of::<u64>()) {
                Ok(index) => {
                    arena.note_halves(if shape.is_halved { shape.arena_words } else { 0 });
                    let memory = Self { index, index_usable: AtomicUsize::new(0), arena, shape };
                    // Otherwise first ticks would wait for each other with all slots taken.
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

    /// Maps a table of `bytes`, or less if the process may not have as much.
    ///
    /// # Errors
    /// The error number of `mmap(2)`, if not even a small table fits.
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
        // SAFETY: `from` is at most `to`, and the byte offset of `to` is within the mapping.
        let start = unsafe { self.index.start().cast::<modelled::AtomicU64>().add(from) };
        // SAFETY: the range is usable, word-aligned and zeroed; atomics may be shared. (Under loom
        // no recording is created: its atomics are not plain words.)
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), to - from) })
    }

    /// Concurrent calls are safe: the system call is repeatable, and `index_usable` grows.
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
        // Release: pairs with the acquire in `index`, for the memory.
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

    /// No handler uses a recording that has been freed. loom treats SeqCst as acquire and release;
    /// the fences model the total order that the language guarantees. Fails without either fence.
    #[test]
    fn loom_keeps_a_recording_that_a_handler_uses() {
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
