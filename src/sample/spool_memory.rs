//! The memory that a session's records lie in: a spool file's, shared with it, or anonymous.
//!
//! It becomes usable from its start on, as records need it. Where the spool's file system is full, the rest becomes
//! anonymous memory, at the same addresses: nothing is lost but the chance to recover what came later.
//!
//! One word says how far the memory is usable, in bytes, multiples of 4096, and has two flags:
//!
//! | flags | meaning | may become |
//! | --- | --- | --- |
//! | none | in the spool | none, with more bytes; switching |
//! | switching | one handler puts anonymous memory behind the usable bytes | anonymous, by that handler |
//! | anonymous | what comes next is anonymous | anonymous, with more bytes |
//!
//! Handlers may populate the same bytes at once, which is harmless; only who has set the switching flag replaces
//! memory, and nobody uses bytes beyond the mark. A handler that needs more meanwhile counts its tick as lost.
//!
//! # Safety
//! Makes references to numbers in a mapping that lives as long as they do.
#![allow(unsafe_code)]

use super::met_objects::MetObject;
use crate::{
    format::spool::{
        self, ARENA, MOST_OBJECTS, OBJECT_BYTES, OBJECT_COMPLETE, OBJECT_NAME_BYTES, OBJECT_SEGMENTS,
        OBJECTS, PATHS, State, TEXT, TEXT_BYTES, VERSION, field,
    },
    sync::{AtomicU64, AtomicUsize, Ordering, modelled},
    sys::memory::{Mapping, PROTECTED},
};

/// Bytes of a spool that one system call makes usable.
const SPOOLED: usize = 64 << 10;
/// Bytes of anonymous memory that one system call makes usable; it becomes resident as it is touched.
const SLICE: usize = 1 << 20;

const SWITCHING: usize = 1;
const ANONYMOUS: usize = 2;
const FLAGS: usize = 4095;

/// See the module.
pub(crate) struct SpoolMemory {
    mapping: Mapping,
    /// Where the records begin: [`ARENA`], or 0 without a spool.
    arena: usize,
    usable: AtomicUsize,
}

/// What the head of a spool says.
pub(crate) struct HeadFacts<'a> {
    pub(crate) process: u32,
    pub(crate) process_start: u64,
    pub(crate) namespace: u64,
    pub(crate) started: u64,
    pub(crate) period_micros: u32,
    pub(crate) target: &'a [u8],
    pub(crate) program: &'a [u8],
}

impl SpoolMemory {
    /// Anonymous memory for `bytes` of records.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn anonymous(bytes: usize) -> Result<Self, i32> {
        let mapping = Mapping::reserved(bytes.next_multiple_of(SLICE))?;
        Ok(Self { mapping, arena: 0, usable: AtomicUsize::new(ANONYMOUS) })
    }

    /// The memory of a spool file, whose mapping this is, new and all zeros. For ordinary context.
    ///
    /// # Errors
    /// The error number of `madvise(2)`, where not even the head finds room; `EINVAL` from Linux before 5.14.
    pub(crate) fn spooled(mapping: Mapping, facts: &HeadFacts<'_>) -> Result<Self, i32> {
        let head_bytes = PATHS + facts.target.len() + facts.program.len();
        mapping.populate(0, head_bytes.next_multiple_of(PROTECTED))?;
        let memory = Self { mapping, arena: ARENA, usable: AtomicUsize::new(0) };
        let numbers = [
            (field::VERSION, VERSION),
            (field::WORD_BYTES, size_of::<usize>() as u64),
            (field::PROCESS, u64::from(facts.process)),
            (field::PROCESS_START, facts.process_start),
            (field::NAMESPACE, facts.namespace),
            (field::STARTED, facts.started),
            (field::PERIOD_MICROS, u64::from(facts.period_micros)),
            (field::TARGET_BYTES, facts.target.len() as u64),
            (field::PROGRAM_BYTES, facts.program.len() as u64),
            (field::MAGIC, spool::MAGIC),
        ];
        for (offset, number) in numbers {
            memory.set(offset, number);
        }
        memory.copy(PATHS, facts.target);
        memory.copy(PATHS + facts.target.len(), facts.program);
        memory.set(field::STATE, State::Running as u64);
        Ok(memory)
    }

    /// Words `from..to` of the records; None where they are not usable. Signal-safe.
    #[inline]
    pub(crate) fn words(&self, from: usize, to: usize) -> Option<&[modelled::AtomicUsize]> {
        let end = to.checked_mul(size_of::<usize>())?;
        // Acquire: pairs with the release in `grow`.
        if from > to || end > self.usable.load(Ordering::Acquire) & !FLAGS {
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
        needed <= self.usable.load(Ordering::Acquire) & !FLAGS || self.grow_now(needed)
    }

    #[cold]
    fn grow_now(&self, needed: usize) -> bool {
        let length = self.mapping.length() - self.arena;
        loop {
            let present = self.usable.load(Ordering::Acquire);
            let (bytes, flags) = (present & !FLAGS, present & FLAGS);
            if needed <= bytes {
                return true;
            }
            let step = if flags == ANONYMOUS { SLICE } else { SPOOLED };
            let target = needed.next_multiple_of(step).min(length);
            if needed > target || flags == SWITCHING {
                return false;
            }
            let (from, to) = (self.arena + bytes, self.arena + target);
            let next = match flags {
                ANONYMOUS if self.mapping.commit(from, to).is_err() => return false,
                ANONYMOUS => target | ANONYMOUS,
                _ if self.mapping.populate(from, to).is_ok() => target,
                _ => bytes | SWITCHING,
            };
            // Release: whoever sees the mark may touch the memory. Where another handler was first, all is asked again.
            if self.usable.compare_exchange(present, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            if next & FLAGS == 0 {
                self.head(field::ARENA_BYTES, |number| number.fetch_max(target as u64, Ordering::Relaxed));
            } else if next & FLAGS == SWITCHING {
                self.head(field::IS_CUT, |number| number.store(1, Ordering::Relaxed));
                // Ours alone: nobody else goes past the flag, and nobody has used what lies behind the mark.
                if self.mapping.part_from_file(from).is_err() {
                    return false;
                }
                self.usable.store(bytes | ANONYMOUS, Ordering::Release);
            }
        }
    }

    /// True for a spool whose file system was full.
    pub(crate) fn is_cut(&self) -> bool {
        self.arena > 0 && self.usable.load(Ordering::Acquire) & FLAGS != 0
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
        let kept = self.present_text().map_or(0, <[u8]>::len);
        let end = kept + text.len();
        if end > TEXT_BYTES {
            return Err(crate::sys::errno::NO_SPACE);
        }
        // What was populated before stays as it is.
        self.mapping.populate(TEXT, TEXT + end.next_multiple_of(PROTECTED))?;
        self.copy(TEXT + kept, text);
        self.set(field::TEXT_BYTES, end as u64);
        Ok(())
    }

    /// The lines that were kept.
    fn present_text(&self) -> Option<&[u8]> {
        let length = self.head(field::TEXT_BYTES, |number| number.load(Ordering::Relaxed))?;
        let length = usize::try_from(length).ok().filter(|length| *length <= TEXT_BYTES)?;
        // SAFETY: the offset lies within the mapping.
        let start = unsafe { self.mapping.start().add(TEXT) };
        // SAFETY: so many bytes were populated and written, and none is written again.
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), length) })
    }

    /// Keeps an object that a handler met. Signal-safe: writes to a place of its own, behind a system call that finds
    /// room for it. False where there is none.
    pub(crate) fn keep_object(&self, met: &MetObject) -> bool {
        if !self.is_spooled() {
            return true;
        }
        let taken = self.head(field::OBJECTS, |number| number.fetch_add(1, Ordering::Relaxed));
        let Some(i) = taken.and_then(|i| usize::try_from(i).ok()).filter(|i| *i < MOST_OBJECTS) else {
            return false;
        };
        let place = OBJECTS + i * OBJECT_BYTES;
        let (from, to) = (place / PROTECTED * PROTECTED, (place + OBJECT_BYTES).next_multiple_of(PROTECTED));
        if self.mapping.populate(from, to).is_err() {
            return false;
        }
        let segments = met.segments().iter().take(OBJECT_SEGMENTS);
        let name = met.name().get(..OBJECT_NAME_BYTES).unwrap_or(met.name());
        self.set(place + 8, name.len() as u64);
        self.set(place + 16, segments.len() as u64);
        for (i, segment) in segments.enumerate() {
            for (j, number) in [segment.start, segment.end, segment.offset].into_iter().enumerate() {
                self.set(place + 24 + 8 * (3 * i + j), number as u64);
            }
        }
        self.copy(place + 8 * (3 + 3 * OBJECT_SEGMENTS), name);
        self.set(place, OBJECT_COMPLETE);
        true
    }

    /// Notes which file was written under the session's name.
    pub(crate) fn note_written(&self, (device, inode): (u64, u64)) {
        if self.is_spooled() {
            self.set(field::WRITTEN_DEVICE, device);
            self.set(field::WRITTEN_INODE, inode);
        }
    }

    /// Tells that the profile stands elsewhere, complete.
    pub(crate) fn set_complete(&self) {
        if self.is_spooled() {
            self.set(field::STATE, State::Complete as u64);
        }
    }

    /// Gives back what the spool's file holds, but its head. For who knows that nobody uses the records.
    pub(crate) fn punch(&self) {
        if self.is_spooled() && !self.is_cut() {
            self.mapping.punch(TEXT, self.mapping.length());
        }
    }

    /// Lets go of a spool's memory in a forked child, which does not have it.
    pub(crate) fn leave_to_parent(self) {
        if self.is_spooled() {
            self.mapping.forget();
        }
    }

    /// Calls `f` with the number at `offset` of the head; None without a spool.
    fn head<T>(&self, offset: usize, f: impl FnOnce(&AtomicU64) -> T) -> Option<T> {
        self.is_spooled().then(|| f(self.number(offset)))
    }

    fn set(&self, offset: usize, number: u64) {
        // Release: what was written before belongs to it; the reader comes when the process is gone.
        self.number(offset).store(number, Ordering::Release);
    }

    /// A number of a spool, in bytes that were populated.
    fn number(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(self.is_spooled() && offset % 8 == 0 && offset < ARENA);
        // SAFETY: callers name offsets before the arena, all within the mapping.
        let place = unsafe { self.mapping.start().add(offset) };
        // SAFETY: the place is aligned to 8 bytes, was populated, and is only ever used as this atomic.
        unsafe { place.cast::<AtomicU64>().as_ref() }
    }

    /// Copies bytes to a place of the head that was populated and that nobody else uses yet.
    fn copy(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(self.is_spooled() && offset + bytes.len() <= ARENA);
        // SAFETY: callers name offsets before the arena, all within the mapping.
        let place = unsafe { self.mapping.start().add(offset) };
        // SAFETY: the bytes there are populated, ours alone, and no part of what is copied.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
    }
}
