//! The memory that a session's records lie in: a spool file's, shared with it, or anonymous.
//!
//! It becomes usable from its start on, as records need it; `lazy_commit.rs` says how.
//!
//! # Safety
//! Makes references to numbers in a mapping that lives as long as they do.
#![allow(unsafe_code)]

use super::{
    lazy_commit::{ANONYMOUS_STEP_BYTES, Backing, LazyCommit},
    sampled_dsos::{SampledDso, SampledSegment},
    table::Moving,
    thread_table::ThreadIndex,
};
use crate::{
    format::spool::{
        self, ARENA, Ancestors, END, EndFigures, FileStamp, MOST_OBJECTS, MOVED_NAME_BYTES, OBJECT_BYTES,
        OBJECT_NAME_BYTES, OBJECT_SEGMENTS, OBJECTS, PATHS, State, TEXT, TEXT_BYTES, THREAD_BYTES, THREADS,
        VERSION, field,
    },
    sync::{AtomicU64, AtomicUsize, Ordering, modelled},
    sys::{
        errno,
        memory::{Mapping, PROTECTION_BYTES},
    },
    thread::Thread,
};

/// Bytes of records that are made usable before they are needed: while a thread that switches to anonymous memory has lost
/// its processor, the others go on in them.
const AHEAD: usize = 32 << 10;

/// See the module.
pub(crate) struct SpoolMemory {
    mapping: Mapping,
    /// Where the records begin: [`ARENA`], or 0 without a spool.
    arena: usize,
    lazy_commit: LazyCommit,
    /// Bytes of records that the spool's file may take.
    most_spooled: usize,
    /// Bytes of records that are mapped for reading and writing, as far as they are the spool's.
    committed: AtomicUsize,
    /// How the table's halves stand, where no spool holds it.
    stand: modelled::AtomicU64,
    /// One bit for each place of an object that is complete.
    objects: [AtomicU64; MOST_OBJECTS.div_ceil(64)],
}

/// What the head of a spool says.
pub(crate) struct HeadFacts<'a> {
    pub(crate) process: u32,
    pub(crate) process_start: u64,
    pub(crate) namespace: u64,
    pub(crate) started: u64,
    pub(crate) period_micros: u32,
    pub(crate) is_by_thread: bool,
    pub(crate) ancestors: Ancestors,
    pub(crate) target: &'a [u8],
    pub(crate) program: &'a [u8],
    /// What stands at the target already.
    pub(crate) target_stamp: FileStamp,
    /// The session will say something of itself at its end.
    pub(crate) says_end: bool,
}

impl SpoolMemory {
    /// Anonymous memory for `bytes` of records.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn anonymous(bytes: usize) -> Result<Self, i32> {
        let mapping = Mapping::reserved(bytes.next_multiple_of(ANONYMOUS_STEP_BYTES))?;
        let lazy_commit = LazyCommit::anonymous(mapping.length());
        Ok(Self::new(mapping, 0, lazy_commit, 0))
    }

    /// The memory of a spool file, whose mapping this is, new and all zeros; of records it takes `most_spooled` bytes at
    /// most. For ordinary context.
    ///
    /// # Errors
    /// The error number of `mprotect(2)`, or of `madvise(2)` where not even the head finds room; `EINVAL` from Linux before
    /// 5.14.
    pub(crate) fn spooled(mapping: Mapping, most_spooled: usize, facts: &HeadFacts<'_>) -> Result<Self, i32> {
        let head_bytes = PATHS + facts.target.len() + facts.program.len();
        if head_bytes > END || mapping.length() <= ARENA {
            return Err(errno::EINVAL);
        }
        prepare(&mapping, 0, head_bytes)?;
        if facts.says_end {
            // By its end others may have filled the file system, and a session that says nothing counts as killed.
            prepare(&mapping, END, TEXT)?;
        }
        let lazy_commit = LazyCommit::spooled(mapping.length() - ARENA);
        let memory = Self::new(mapping, ARENA, lazy_commit, most_spooled);
        let numbers = [
            (field::VERSION, VERSION),
            (field::WORD_BYTES, size_of::<usize>() as u64),
            (field::PROCESS, u64::from(facts.process)),
            (field::PROCESS_START, facts.process_start),
            (field::NAMESPACE, facts.namespace),
            (field::STARTED, facts.started),
            (field::PERIOD_MICROS, u64::from(facts.period_micros)),
            (field::IS_BY_THREAD, u64::from(facts.is_by_thread)),
            (field::TARGET_BYTES, facts.target.len() as u64),
            (field::PROGRAM_BYTES, facts.program.len() as u64),
            (field::TARGET_DEVICE, facts.target_stamp.device),
            (field::TARGET_INODE, facts.target_stamp.inode),
            (field::TARGET_CHANGED, facts.target_stamp.changed),
            (field::MAGIC, spool::MAGIC),
        ];
        for (offset, number) in numbers {
            memory.set(offset, number);
        }
        for (ancestor, offset) in facts.ancestors.0.into_iter().zip((field::ANCESTORS..).step_by(8)) {
            memory.set(offset, u64::from(ancestor));
        }
        memory.copy(PATHS, facts.target);
        memory.copy(PATHS + facts.target.len(), facts.program);
        memory.set(field::STATE, State::Running as u64);
        Ok(memory)
    }

    fn new(mapping: Mapping, arena: usize, lazy_commit: LazyCommit, most_spooled: usize) -> Self {
        let objects = [const { AtomicU64::new(0) }; MOST_OBJECTS.div_ceil(64)];
        let (committed, stand) = (AtomicUsize::new(0), modelled::AtomicU64::new(0));
        Self { mapping, arena, lazy_commit, most_spooled, committed, stand, objects }
    }

    /// Bytes of records that fit.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn most(&self) -> usize {
        self.mapping.length() - self.arena
    }

    /// The table's stand: the spool's, where there is one.
    #[inline]
    pub(crate) fn stand(&self) -> &modelled::AtomicU64 {
        if !self.is_spooled() {
            return &self.stand;
        }
        // SAFETY: the offset lies within the head, so within the mapping.
        let place = unsafe { self.mapping.start().add(field::STAND) };
        // SAFETY: the head was prepared when the memory was made, and the place is aligned to 8 bytes. (Under loom, whose
        // atomics are no plain words, no spool is ever made.)
        unsafe { place.cast().as_ref() }
    }

    /// Notes how long each half of the records is.
    pub(crate) fn note_halves(&self, words: usize) {
        if self.is_spooled() {
            self.set(field::HALF_WORDS, words as u64);
        }
    }

    /// Notes what is about to be moved, and to which file in the target's directory. Signal-safe: writes to prepared
    /// memory. For who moves it.
    pub(crate) fn note_moving(&self, slice: &Moving<'_>) {
        if self.is_spooled() && slice.name.len() < MOVED_NAME_BYTES {
            self.copy(field::MOVED_NAME, slice.name);
            // In this order: until the stand tells of the slice, the sum before it holds, whenever the process is killed.
            self.set(field::MOVED_BEFORE, slice.periods_before);
            self.set(field::MOVED_WORDS, slice.words);
            self.set(field::MOVED_PERIODS, slice.periods);
        }
    }

    /// Words `from..to` of the records; None where they are not usable. Signal-safe.
    #[inline]
    pub(crate) fn words(&self, from: usize, to: usize) -> Option<&[modelled::AtomicUsize]> {
        let end = to.checked_mul(size_of::<usize>())?;
        if from > to || !self.lazy_commit.covers(end) {
            return None;
        }
        // SAFETY: `from` is at most `to`, whose byte offset lies within the mapping.
        let start = unsafe { self.mapping.start().add(self.arena + from * size_of::<usize>()) };
        // SAFETY: the range was made usable, is aligned to words, was zeroed by the kernel, and atomics may be shared.
        // (Under loom, whose atomics are no plain words, no recording is ever made.)
        Some(unsafe { core::slice::from_raw_parts(start.cast().as_ptr(), to - from) })
    }

    /// Makes the first `needed` bytes of the records usable. Signal-safe: one system call for many records.
    #[inline]
    pub(crate) fn grow(&self, needed: usize) -> bool {
        if self.lazy_commit.covers(needed.saturating_add(AHEAD)) {
            return true;
        }
        let most = self.mapping.length() - self.arena;
        self.lazy_commit.grow(self, needed.saturating_add(AHEAD).min(most).max(needed));
        self.lazy_commit.covers(needed)
    }

    /// True for a spool whose file system was full.
    pub(crate) fn is_truncated(&self) -> bool {
        self.is_spooled() && self.lazy_commit.is_anonymous()
    }

    /// True for a spool's.
    pub(crate) fn is_spooled(&self) -> bool {
        self.arena > 0
    }

    /// Keeps lines of mapped objects, behind those that it has. For ordinary context.
    ///
    /// # Errors
    /// The error number of `madvise(2)`; the spool is without lines then.
    pub(crate) fn keep_text(&self, text: &[u8]) -> Result<(), i32> {
        if !self.is_spooled() {
            return Ok(());
        }
        let kept =
            self.head(field::TEXT_BYTES, |number| number.load(Ordering::Relaxed) as usize).unwrap_or(0);
        let end = kept + text.len();
        if end > TEXT_BYTES {
            return Err(errno::ENOSPC);
        }
        // What was populated before stays as it is.
        prepare(&self.mapping, TEXT, TEXT + end)?;
        self.copy(TEXT + kept, text);
        self.set(field::TEXT_BYTES, end as u64);
        Ok(())
    }

    /// Keeps lines of mapped objects in the place of those that it has. Signal-safe, likewise.
    ///
    /// # Errors
    /// The error number of `madvise(2)`, or `ENOSPC`; those that it had stay.
    pub(crate) fn replace_text(&self, text: &[u8]) -> Result<(), i32> {
        if !self.is_spooled() {
            return Ok(());
        }
        let before = self.head(field::TEXT_BYTES, |number| number.load(Ordering::Relaxed)).unwrap_or(0);
        // A process that is killed between the two has both lists, of which the first is read.
        self.keep_text(text)?;
        prepare(&self.mapping, END, TEXT)?;
        self.set(field::TEXT_FROM, before);
        Ok(())
    }

    /// Notes what the session says of itself at its end; nothing where no room was found for it at its start, and there is none
    /// now. Signal-safe: system calls, and memory of our own.
    pub(crate) fn note_end(&self, figures: EndFigures) {
        if !self.is_spooled() || prepare(&self.mapping, END, TEXT).is_err() {
            return;
        }
        // The first word, which says that they are there, is written last.
        for (i, word) in figures.words().into_iter().enumerate().rev() {
            self.set(field::FIGURES + 8 * i, word);
        }
    }

    /// Takes back what [`SpoolMemory::note_end`] noted: the session goes on. Signal-safe, likewise.
    pub(crate) fn clear_end(&self) {
        if self.is_spooled() && prepare(&self.mapping, END, TEXT).is_ok() {
            self.set(field::FIGURES, 0);
        }
    }

    /// Keeps an object that a handler met; not twice. Signal-safe: writes to a place of its own, behind system calls that
    /// find room for it.
    pub(crate) fn spool_dso(&self, tick_thread: &SampledDso) {
        let present = self.head(field::OBJECTS, |number| number.load(Ordering::Acquire));
        let Some(present) = present else { return };
        let present = usize::try_from(present).unwrap_or(MOST_OBJECTS).min(MOST_OBJECTS);
        let meeting =
            self.head(field::MEETINGS, |number| number.fetch_add(1, Ordering::Relaxed) + 1).unwrap_or(1);
        // Every time that a library is closed those that stay are met anew. One that was closed and opened again takes no
        // second place; it is then the last one tick_thread.
        if let Some(i) = (0..present).find(|i| self.is_kept(*i, tick_thread)) {
            if let Some(number) = self.number(object_place(i)) {
                number.fetch_max(meeting, Ordering::Relaxed);
            }
            return;
        }
        let taken = self.head(field::OBJECTS, |number| number.fetch_add(1, Ordering::AcqRel));
        let Some(i) = taken.and_then(|i| usize::try_from(i).ok()).filter(|i| *i < MOST_OBJECTS) else {
            return;
        };
        let place = object_place(i);
        if prepare(&self.mapping, place, place + OBJECT_BYTES).is_err() {
            return;
        }
        let segments = tick_thread.segments().iter().take(OBJECT_SEGMENTS);
        let name = tick_thread.name().get(..OBJECT_NAME_BYTES).unwrap_or(tick_thread.name());
        self.set(place + 8, name.len() as u64);
        self.set(place + 16, segments.len() as u64);
        for (i, segment) in segments.enumerate() {
            for (j, number) in [segment.start, segment.end, segment.offset].into_iter().enumerate() {
                self.set(place + 24 + 8 * (3 * i + j), number as u64);
            }
        }
        self.copy(place + 8 * (3 + 3 * OBJECT_SEGMENTS), name);
        self.set(place, meeting);
        if let Some(word) = self.objects.get(i / 64) {
            // Release: pairs with the acquire in `is_kept`.
            word.fetch_or(1 << (i % 64), Ordering::Release);
        }
    }

    /// True where place `i` holds this object.
    fn is_kept(&self, i: usize, tick_thread: &SampledDso) -> bool {
        // Acquire: a place that is marked was made usable, and is complete.
        let is_ready =
            self.objects.get(i / 64).is_some_and(|word| word.load(Ordering::Acquire) >> (i % 64) & 1 == 1);
        let place = object_place(i);
        let number = |i: usize| self.number(place + 8 * i).map_or(0, |number| number.load(Ordering::Relaxed));
        let is_same_segment = |(i, segment): (usize, &SampledSegment)| {
            let numbers = [segment.start, segment.end, segment.offset];
            numbers.iter().enumerate().all(|(j, value)| number(3 + 3 * i + j) == *value as u64)
        };
        // An object elsewhere may have the same segments: the name decides, by its length and its bytes, eight at a time.
        is_ready
            && number(2) == tick_thread.segments().len() as u64
            && tick_thread.segments().iter().enumerate().all(is_same_segment)
            && number(1) == tick_thread.name().len() as u64
            && tick_thread.name().chunks(8).enumerate().all(|(i, chunk)| {
                let mut word = [0; 8];
                for (to, from) in word.iter_mut().zip(chunk) {
                    *to = *from;
                }
                number(3 + 3 * OBJECT_SEGMENTS + i) == u64::from_ne_bytes(word)
            })
    }

    /// Keeps a thread, or its newer name. Signal-safe: writes to a place of the thread's own, behind system calls that find room
    /// for it; where there is none the thread's records stay without it.
    pub(crate) fn keep_thread(&self, thread_index: ThreadIndex, thread: Thread) {
        let Some(place) = thread_index.place().filter(|_| self.is_spooled()) else { return };
        let place = THREADS + place * THREAD_BYTES;
        if place + THREAD_BYTES > ARENA || prepare(&self.mapping, place, place + THREAD_BYTES).is_err() {
            return;
        }
        for (i, word) in thread.name.words().into_iter().enumerate() {
            self.set(place + 8 * (1 + i), word);
        }
        self.set(place, u64::from(thread.id));
    }

    /// Notes which file was written under the session's name.
    pub(crate) fn note_written(&self, stamp: FileStamp) {
        if self.is_spooled() {
            self.set(field::WRITTEN_DEVICE, stamp.device);
            self.set(field::WRITTEN_INODE, stamp.inode);
            self.set(field::WRITTEN_CHANGED, stamp.changed);
        }
    }

    /// Notes periods that are not in the records. Signal-safe: an atomic.
    pub(crate) fn note_lost(&self, periods: u64) {
        self.head(field::LOST, |number| number.fetch_add(periods, Ordering::Relaxed));
    }

    /// Tells how far the session came.
    pub(crate) fn set_state(&self, state: State) {
        if self.is_spooled() {
            self.set(field::STATE, state as u64);
        }
    }

    /// Gives back what the spool's file holds, but its head.
    ///
    /// # Safety
    /// * Nobody uses the records, now or later.
    pub(crate) unsafe fn punch(&self) {
        if let Some(bytes) = self.head(field::ARENA_BYTES, |number| number.load(Ordering::Relaxed)) {
            let end = ARENA.saturating_add(bytes as usize).min(self.mapping.length());
            // SAFETY: the caller's word for the records; text and objects are for a reader of the file alone.
            unsafe { self.mapping.punch(TEXT, end) };
        }
    }

    /// Lets go of a spool's memory in a forked child, which does not have it.
    pub(crate) fn release_to_parent(self) {
        if self.is_spooled() {
            self.mapping.forget();
        }
    }

    /// Calls `f` with the number at `offset` of the head; None without a spool.
    fn head<T>(&self, offset: usize, f: impl FnOnce(&AtomicU64) -> T) -> Option<T> {
        self.number(offset).map(f)
    }

    fn set(&self, offset: usize, number: u64) {
        if let Some(place) = self.number(offset) {
            // Release: what was written before belongs to it; the reader comes when the process is gone.
            place.store(number, Ordering::Release);
        }
    }

    /// A number before the records of a spool, in bytes that were prepared.
    fn number(&self, offset: usize) -> Option<&AtomicU64> {
        if !self.is_spooled() || offset % 8 != 0 || offset >= ARENA {
            return None;
        }
        // SAFETY: the offset lies before the arena, so within the mapping.
        let place = unsafe { self.mapping.start().add(offset) };
        // SAFETY: the place is aligned to 8 bytes, and callers have prepared it. It is used as this atomic, or not yet.
        Some(unsafe { place.cast::<AtomicU64>().as_ref() })
    }

    /// Copies bytes to a place before the records that was prepared and that nobody else uses yet.
    fn copy(&self, offset: usize, bytes: &[u8]) {
        if !self.is_spooled() || offset.saturating_add(bytes.len()) > ARENA {
            return;
        }
        // SAFETY: the offset lies before the arena, so within the mapping.
        let place = unsafe { self.mapping.start().add(offset) };
        // SAFETY: the bytes there are prepared, ours alone, and no part of what is copied.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
    }
}

fn object_place(i: usize) -> usize {
    OBJECTS + i * OBJECT_BYTES
}

/// Makes the pages of bytes `from..to` usable. Signal-safe: two system calls on memory of our own.
fn prepare(mapping: &Mapping, from: usize, to: usize) -> Result<(), i32> {
    let (from, to) = (from / PROTECTION_BYTES * PROTECTION_BYTES, to.next_multiple_of(PROTECTION_BYTES));
    mapping.commit(from, to)?;
    mapping.populate(from, to)
}

/// The records, which begin at `arena`.
impl Backing for SpoolMemory {
    fn populate(&self, from: usize, to: usize) -> bool {
        if to > self.most_spooled {
            return false;
        }
        // Not all at once: `mlockall(2)` would make all that can be written resident.
        let committed = self.committed.load(Ordering::Acquire);
        if to > committed {
            let target = to.next_multiple_of(ANONYMOUS_STEP_BYTES).min(self.mapping.length() - self.arena);
            if self.mapping.commit(self.arena + committed, self.arena + target).is_err() {
                return false;
            }
            self.committed.fetch_max(target, Ordering::AcqRel);
        }
        self.mapping.populate(self.arena + from, self.arena + to).is_ok()
    }

    fn note_spooled(&self, to: usize) {
        self.head(field::ARENA_BYTES, |number| number.fetch_max(to as u64, Ordering::Relaxed));
    }

    fn mark_truncated(&self) {
        self.head(field::IS_CUT, |number| number.store(1, Ordering::Relaxed));
    }

    fn detach_from_file(&self, from: usize) -> bool {
        // SAFETY: the growth word says that nobody uses what lies behind `from`.
        unsafe { self.mapping.detach_from_file(self.arena + from) }.is_ok()
    }

    fn commit(&self, from: usize, to: usize) -> bool {
        self.mapping.commit(self.arena + from, self.arena + to).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
