//! The memory of a session's records: of a spool, shared with its file, or anonymous. It becomes
//! usable when needed (`lazy_commit.rs`).
//!
//! # Safety
//! Makes references to numbers in a mapping that lives as long as they do.
#![allow(unsafe_code)]

use super::{
    lazy_commit::{ANONYMOUS_STEP_BYTES, Backing, LazyCommit},
    sampled_dsos::{SampledDso, SampledSegment},
    table::SpillSlice,
    thread_table::ThreadIndex,
};
use crate::{
    format::spool::{
        self, ARENA, Ancestors, END, EndFigures, FileStamp, MAX_OBJECTS, OBJECT_BYTES, OBJECT_NAME_BYTES,
        OBJECT_SEGMENTS, OBJECTS, PATHS, SPILL_NAME_BYTES, SpoolState, TEXT, TEXT_BYTES, THREAD_BYTES,
        THREADS, VERSION, field,
    },
    sync::{AtomicU64, AtomicUsize, Ordering, modelled},
    sys::{
        errno,
        memory::{OwnedMapping, PROTECTION_BYTES},
    },
    thread::Thread,
};

/// Bytes that are made usable in advance, for other threads while one switches to anonymous memory.
const AHEAD: usize = 32 << 10;

pub(crate) struct SpoolMemory {
    mapping: OwnedMapping,
    /// Start of the records: [`ARENA`], or 0 without a spool.
    arena: usize,
    lazy_commit: LazyCommit,
    most_spooled: usize,
    /// Bytes of the spool's records that are mapped for reading and writing.
    committed: AtomicUsize,
    /// The state of the table's halves, without a spool.
    state: modelled::AtomicU64,
    /// A bit for each DSO entry that is complete.
    objects: [AtomicU64; MAX_OBJECTS.div_ceil(64)],
}

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
    pub(crate) target_stamp: FileStamp,
    /// Whether the session will store its figures at the end.
    pub(crate) stores_figures: bool,
}

impl SpoolMemory {
    /// # Errors
    /// The `errno` value of `mmap(2)`.
    pub(crate) fn anonymous(bytes: usize) -> Result<Self, i32> {
        let mapping = OwnedMapping::reserved(bytes.next_multiple_of(ANONYMOUS_STEP_BYTES))?;
        let lazy_commit = LazyCommit::anonymous(mapping.length());
        Ok(Self::new(mapping, 0, lazy_commit, 0))
    }

    /// `mapping`: a new, zeroed spool. For ordinary context.
    ///
    /// # Errors
    /// The `errno` value of `mprotect(2)` or `madvise(2)`: no space, or `EINVAL` before Linux 5.14.
    pub(crate) fn spooled(
        mapping: OwnedMapping,
        most_spooled: usize,
        facts: &HeadFacts<'_>,
    ) -> Result<Self, i32> {
        let head_bytes = PATHS + facts.target.len() + facts.program.len();
        if head_bytes > END || mapping.length() <= ARENA {
            return Err(errno::EINVAL);
        }
        prepare(&mapping, 0, head_bytes)?;
        if facts.stores_figures {
            // The file system may fill up, and a session without figures counts as killed.
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
        memory.set(field::STATE, SpoolState::Running as u64);
        Ok(memory)
    }

    fn new(mapping: OwnedMapping, arena: usize, lazy_commit: LazyCommit, most_spooled: usize) -> Self {
        let objects = [const { AtomicU64::new(0) }; MAX_OBJECTS.div_ceil(64)];
        let (committed, state) = (AtomicUsize::new(0), modelled::AtomicU64::new(0));
        Self { mapping, arena, lazy_commit, most_spooled, committed, state, objects }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn most(&self) -> usize {
        self.mapping.length() - self.arena
    }

    /// In the spool, if there is one.
    #[inline]
    pub(crate) fn buffer_state(&self) -> &modelled::AtomicU64 {
        if !self.is_spooled() {
            return &self.state;
        }
        // SAFETY: the offset is in the head, so in the mapping.
        let place = unsafe { self.mapping.start().add(field::BUFFER_STATE) };
        // SAFETY: prepared and aligned. (Loom's atomics are not plain words, but it has no spools.)
        unsafe { place.cast().as_ref() }
    }

    pub(crate) fn note_halves(&self, words: usize) {
        if self.is_spooled() {
            self.set(field::HALF_WORDS, words as u64);
        }
    }

    /// Stores what will be spilled to which file. Signal-safe: writes to prepared memory.
    pub(crate) fn note_spilling(&self, slice: &SpillSlice<'_>) {
        if self.is_spooled() && slice.name.len() < SPILL_NAME_BYTES {
            self.copy(field::SPILL_NAME, slice.name);
            // In this order: the old sum is valid until the state word counts the slice.
            self.set(field::SPILLED_BEFORE, slice.periods_before);
            self.set(field::SPILLED_WORDS, slice.words);
            self.set(field::SPILLED_PERIODS, slice.periods);
        }
    }

    /// Words `from..to` of the records; None if not usable. Signal-safe.
    #[inline]
    pub(crate) fn words(&self, from: usize, to: usize) -> Option<&[modelled::AtomicUsize]> {
        let end = to.checked_mul(size_of::<usize>())?;
        if from > to || !self.lazy_commit.covers(end) {
            return None;
        }
        // SAFETY: `from <= to`, and the byte offset of `to` is in the mapping.
        let start = unsafe { self.mapping.start().add(self.arena + from * size_of::<usize>()) };
        // SAFETY: usable, aligned, and zeroed by the kernel; atomics may be shared. (Under loom,
        // with atomics that are not plain words, no recording is made.)
        Some(unsafe { core::slice::from_raw_parts(start.cast().as_ptr(), to - from) })
    }

    /// Makes the first `needed` bytes usable. Signal-safe: one system call for many records.
    #[inline]
    pub(crate) fn grow(&self, needed: usize) -> bool {
        if self.lazy_commit.covers(needed.saturating_add(AHEAD)) {
            return true;
        }
        let most = self.mapping.length() - self.arena;
        self.lazy_commit.grow(self, needed.saturating_add(AHEAD).min(most).max(needed));
        self.lazy_commit.covers(needed)
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.is_spooled() && self.lazy_commit.is_anonymous()
    }

    pub(crate) fn is_spooled(&self) -> bool {
        self.arena > 0
    }

    /// Appends lines of mapped objects. Signal-safe: atomics and a system call.
    ///
    /// # Errors
    /// The `errno` value of `madvise(2)`; the spool then has no lines.
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
        // Populated pages stay unchanged.
        prepare(&self.mapping, TEXT, TEXT + end)?;
        self.copy(TEXT + kept, text);
        self.set(field::TEXT_BYTES, end as u64);
        Ok(())
    }

    /// Replaces the lines of mapped objects. Signal-safe: system calls, and our own memory.
    ///
    /// # Errors
    /// The `errno` value of `madvise(2)`, or `ENOSPC`; the old lines stay.
    pub(crate) fn replace_text(&self, text: &[u8]) -> Result<(), i32> {
        if !self.is_spooled() {
            return Ok(());
        }
        let before = self.head(field::TEXT_BYTES, |number| number.load(Ordering::Relaxed)).unwrap_or(0);
        // A process killed between these leaves both lists; the first is read.
        self.keep_text(text)?;
        prepare(&self.mapping, END, TEXT)?;
        self.set(field::TEXT_FROM, before);
        Ok(())
    }

    /// Stores the figures, if there is space. Signal-safe: system calls, and our own memory.
    pub(crate) fn note_end(&self, figures: EndFigures) {
        if !self.is_spooled() || prepare(&self.mapping, END, TEXT).is_err() {
            return;
        }
        // The first word, which marks them valid, is last.
        for (i, word) in figures.words().into_iter().enumerate().rev() {
            self.set(field::FIGURES + 8 * i, word);
        }
    }

    /// Undoes [`SpoolMemory::note_end`]: the session continues. Signal-safe, as that.
    pub(crate) fn clear_end(&self) {
        if self.is_spooled() && prepare(&self.mapping, END, TEXT).is_ok() {
            self.set(field::FIGURES, 0);
        }
    }

    /// Stores a sampled DSO once. Signal-safe: writes to an entry that system calls have allocated.
    pub(crate) fn spool_dso(&self, dso: &SampledDso) {
        let present = self.head(field::OBJECTS, |number| number.load(Ordering::Acquire));
        let Some(present) = present else { return };
        let present = usize::try_from(present).unwrap_or(MAX_OBJECTS).min(MAX_OBJECTS);
        let sighting =
            self.head(field::SIGHTINGS, |number| number.fetch_add(1, Ordering::Relaxed) + 1).unwrap_or(1);
        // DSOs are sampled anew after each `dlclose`; a known one becomes the most recent.
        if let Some(i) = (0..present).find(|i| self.is_kept(*i, dso)) {
            if let Some(number) = self.number(object_place(i)) {
                number.fetch_max(sighting, Ordering::Relaxed);
            }
            return;
        }
        let taken = self.head(field::OBJECTS, |number| number.fetch_add(1, Ordering::AcqRel));
        let Some(i) = taken.and_then(|i| usize::try_from(i).ok()).filter(|i| *i < MAX_OBJECTS) else {
            return;
        };
        let place = object_place(i);
        if prepare(&self.mapping, place, place + OBJECT_BYTES).is_err() {
            return;
        }
        let segments = dso.segments().iter().take(OBJECT_SEGMENTS);
        let name = dso.name().get(..OBJECT_NAME_BYTES).unwrap_or(dso.name());
        self.set(place + 8, name.len() as u64);
        self.set(place + 16, segments.len() as u64);
        for (i, segment) in segments.enumerate() {
            for (j, number) in [segment.start, segment.end, segment.offset].into_iter().enumerate() {
                self.set(place + 24 + 8 * (3 * i + j), number as u64);
            }
        }
        self.copy(place + 8 * (3 + 3 * OBJECT_SEGMENTS), name);
        self.set(place, sighting);
        if let Some(word) = self.objects.get(i / 64) {
            // Release: pairs with the acquire in `is_kept`.
            word.fetch_or(1 << (i % 64), Ordering::Release);
        }
    }

    fn is_kept(&self, i: usize, dso: &SampledDso) -> bool {
        // Acquire: a marked entry is usable and complete.
        let is_ready =
            self.objects.get(i / 64).is_some_and(|word| word.load(Ordering::Acquire) >> (i % 64) & 1 == 1);
        let place = object_place(i);
        let number = |i: usize| self.number(place + 8 * i).map_or(0, |number| number.load(Ordering::Relaxed));
        let is_same_segment = |(i, segment): (usize, &SampledSegment)| {
            let numbers = [segment.start, segment.end, segment.offset];
            numbers.iter().enumerate().all(|(j, value)| number(3 + 3 * i + j) == *value as u64)
        };
        // The name, eight bytes at a time: other DSOs may have equal segments.
        is_ready
            && number(2) == dso.segments().len() as u64
            && dso.segments().iter().enumerate().all(is_same_segment)
            && number(1) == dso.name().len() as u64
            && dso.name().chunks(8).enumerate().all(|(i, chunk)| {
                let mut word = [0; 8];
                for (to, from) in word.iter_mut().zip(chunk) {
                    *to = *from;
                }
                number(3 + 3 * OBJECT_SEGMENTS + i) == u64::from_ne_bytes(word)
            })
    }

    /// Stores a thread or its newer name, if there is space. Signal-safe, as [`Self::spool_dso`].
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

    pub(crate) fn note_written(&self, stamp: FileStamp) {
        if self.is_spooled() {
            self.set(field::WRITTEN_DEVICE, stamp.device);
            self.set(field::WRITTEN_INODE, stamp.inode);
            self.set(field::WRITTEN_CHANGED, stamp.changed);
        }
    }

    /// Signal-safe: an atomic.
    pub(crate) fn note_lost(&self, periods: u64) {
        self.head(field::LOST, |number| number.fetch_add(periods, Ordering::Relaxed));
    }

    pub(crate) fn set_state(&self, state: SpoolState) {
        if self.is_spooled() {
            self.set(field::STATE, state as u64);
        }
    }

    /// Frees the spool's file space, except the head.
    ///
    /// # Safety
    /// * The records are not used, now or later.
    pub(crate) unsafe fn punch(&self) {
        if let Some(bytes) = self.head(field::ARENA_BYTES, |number| number.load(Ordering::Relaxed)) {
            let end = ARENA.saturating_add(bytes as usize).min(self.mapping.length());
            // SAFETY: records are unused, guaranteed by the caller; only file readers use more.
            unsafe { self.mapping.punch(TEXT, end) };
        }
    }

    /// For a forked child, which does not have a spool's mapping.
    pub(crate) fn forget_in_child(self) {
        if self.is_spooled() {
            self.mapping.forget();
        }
    }

    /// None without a spool.
    fn head<T>(&self, offset: usize, f: impl FnOnce(&AtomicU64) -> T) -> Option<T> {
        self.number(offset).map(f)
    }

    fn set(&self, offset: usize, number: u64) {
        if let Some(place) = self.number(offset) {
            // Release: after all earlier stores, for a reader of a running session.
            place.store(number, Ordering::Release);
        }
    }

    /// Returns a number before the records, which the caller has prepared.
    fn number(&self, offset: usize) -> Option<&AtomicU64> {
        if !self.is_spooled() || offset % 8 != 0 || offset >= ARENA {
            return None;
        }
        // SAFETY: the offset is before the arena, so in the mapping.
        let place = unsafe { self.mapping.start().add(offset) };
        // SAFETY: aligned to 8 bytes, prepared by the callers, and only used as this atomic.
        Some(unsafe { place.cast::<AtomicU64>().as_ref() })
    }

    /// The bytes must be prepared and unused.
    fn copy(&self, offset: usize, bytes: &[u8]) {
        if !self.is_spooled() || offset.saturating_add(bytes.len()) > ARENA {
            return;
        }
        // SAFETY: the offset is before the arena, so in the mapping.
        let place = unsafe { self.mapping.start().add(offset) };
        // SAFETY: prepared, used only by us, and no part of the source.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
    }
}

fn object_place(i: usize) -> usize {
    OBJECTS + i * OBJECT_BYTES
}

/// Makes the pages of bytes `from..to` usable. Signal-safe: two system calls on our own memory.
fn prepare(mapping: &OwnedMapping, from: usize, to: usize) -> Result<(), i32> {
    let (from, to) = (from / PROTECTION_BYTES * PROTECTION_BYTES, to.next_multiple_of(PROTECTION_BYTES));
    mapping.commit(from, to)?;
    mapping.populate(from, to)
}

impl Backing for SpoolMemory {
    fn populate(&self, from: usize, to: usize) -> bool {
        if to > self.most_spooled {
            return false;
        }
        // In steps: `mlockall(2)` makes all writable memory resident.
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
        self.head(field::IS_TRUNCATED, |number| number.store(1, Ordering::Relaxed));
    }

    fn detach_from_file(&self, from: usize) -> bool {
        // SAFETY: the word of `LazyCommit` guarantees that memory after `from` is unused.
        unsafe { self.mapping.detach_from_file(self.arena + from) }.is_ok()
    }

    fn commit(&self, from: usize, to: usize) -> bool {
        self.mapping.commit(self.arena + from, self.arena + to).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
