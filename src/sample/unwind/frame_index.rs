//! Index of the call frame information of DSOs without a search table: of `.eh_frame` without
//! `.eh_frame_hdr` (statically linked programs) and of `.debug_frame` (assembly code), which is not
//! mapped. Ordinary context (`control/frame_files.rs`) copies the section and sorts its entries;
//! handlers read only the copy. For a DSO that has a table, but program headers at its end (BOLT),
//! it lists the segments, which bound the table.
//!
//! Ordinary context, one thread at a time, publishes an immutable list. It frees the old one when
//! no handler is reading, or leaks it after a timeout.
//!
//! | | handler | ordinary context |
//! | --- | --- | --- |
//! | 1 | READERS += 1 | CURRENT = new |
//! | 2 | reads CURRENT | reads READERS until it is 0, then frees the old |
//!
//! Both write before they read, sequentially consistent: an uncounted handler finds the new list.
//!
//! # Safety
//! Reads the list through its published pointer.
#![allow(unsafe_code)]

use super::{
    objects::PinnedDso,
    sections::{Bytes, Description, Fde, Sections, eh_frame, entry_at, entry_size},
};
use crate::{
    sync::{AtomicPtr, AtomicUsize, Ordering},
    sys::{arch::VENDOR, thread::Backoff},
};
use core::{ops::Range, ptr};
use gimli::{BaseAddresses, DebugFrame, EndianSlice, NativeEndian};
use std::sync::Arc;

static CURRENT: AtomicPtr<Vec<Arc<ObjectFrames>>> = AtomicPtr::new(ptr::null_mut());
static READERS: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    /// Mapped and relocated: addresses of the process.
    EhFrame,
    /// Only in the file: addresses of the file.
    DebugFrame,
}

pub(crate) struct SectionCopy {
    pub(crate) kind: SectionKind,
    pub(crate) bytes: Box<[u8]>,
    /// The original's address, in the form of its entries.
    pub(crate) address: usize,
    /// The process's address of the entries' address 0.
    pub(crate) bias: usize,
}

#[derive(Clone, Copy)]
struct FdeLocation {
    /// Relative to the DSO's start.
    start: u32,
    length: u32,
    offset: u32,
}

struct IndexedSection {
    section: SectionCopy,
    /// Sorted by start.
    places: Box<[FdeLocation]>,
}

pub(crate) struct ObjectFrames {
    range: Range<usize>,
    /// The first bytes of its memory, to detect another DSO at the same address.
    lead: Box<[u8]>,
    sections: Vec<IndexedSection>,
    /// The segments that are mapped readable, if the DSO has a table.
    segments: Vec<Range<usize>>,
}

impl SectionCopy {
    fn entry(&self, offset: usize) -> Option<Fde<'_>> {
        let bytes = Bytes::new(&self.bytes, NativeEndian);
        match self.kind {
            SectionKind::EhFrame => entry_at(&eh_frame(bytes), &self.bases(), offset),
            SectionKind::DebugFrame => {
                let mut frames = DebugFrame::from(bytes);
                frames.set_vendor(VENDOR);
                entry_at(&frames, &self.bases(), offset)
            }
        }
    }

    fn bases(&self) -> BaseAddresses {
        BaseAddresses::default().set_eh_frame(self.address as u64)
    }
}

impl IndexedSection {
    /// Sorts the entries for code in `range`, and skips unreadable ones. For ordinary context.
    fn new(section: SectionCopy, range: &Range<usize>) -> Self {
        let mut places = Vec::new();
        let mut offset = 0;
        while let Some(size) = entry_size(&section.bytes, offset) {
            if let Some(entry) = section.entry(offset) {
                places.extend(place(&entry, offset, section.bias, range));
            }
            // Neither a terminator in the middle, as of some linkers, nor a bad entry ends it.
            let Some(next) = offset.checked_add(size) else { break };
            offset = next;
        }
        // Of several entries with the same start, the longest is found.
        places.sort_unstable_by_key(|place: &FdeLocation| (place.start, place.length));
        places.shrink_to_fit();
        Self { section, places: places.into_boxed_slice() }
    }

    /// `distance`: from the DSO's start to `pc`.
    fn describe(&self, distance: u32, pc: usize) -> Option<Description<'_>> {
        let after = self.places.partition_point(|place| place.start <= distance);
        let place = self.places.get(after.checked_sub(1)?)?;
        if distance - place.start >= place.length {
            return None;
        }
        let entry = self.section.entry(place.offset as usize)?;
        let frames = eh_frame(EndianSlice::new(&self.section.bytes, NativeEndian));
        let sections = Sections { frames, bases: self.section.bases() };
        Some(Description { sections, entry, pc: pc.wrapping_sub(self.section.bias) as u64 })
    }
}

/// Returns None for code outside of the DSO: linkers leave entries of dropped functions.
fn place(entry: &Fde<'_>, offset: usize, bias: usize, range: &Range<usize>) -> Option<FdeLocation> {
    let start = usize::try_from(entry.initial_address()).ok()?.wrapping_add(bias);
    let length = usize::try_from(entry.len()).ok().filter(|&length| length > 0)?;
    if !range.contains(&start) || length > range.end - start {
        return None;
    }
    Some(FdeLocation {
        start: u32::try_from(start - range.start).ok()?,
        length: u32::try_from(length).ok()?,
        offset: u32::try_from(offset).ok()?,
    })
}

impl ObjectFrames {
    pub(crate) fn new(range: Range<usize>, lead: Box<[u8]>, sections: Vec<SectionCopy>) -> Self {
        let sections = sections.into_iter().map(|section| IndexedSection::new(section, &range)).collect();
        Self { range, lead, sections, segments: Vec::new() }
    }

    /// For a DSO that has a table. For ordinary context.
    pub(crate) fn with_table(range: Range<usize>, lead: Box<[u8]>, segments: Vec<Range<usize>>) -> Self {
        Self { range, lead, sections: Vec::new(), segments }
    }

    pub(super) fn segment_end(&self, address: usize) -> Option<usize> {
        Some(self.segments.iter().find(|segment| segment.contains(&address))?.end)
    }

    pub(crate) fn is_of(&self, start: usize, lead: &[u8]) -> bool {
        self.range.start == start && *self.lead == *lead
    }

    pub(super) fn describe(&self, pc: usize) -> Option<Description<'_>> {
        let distance = u32::try_from(pc.checked_sub(self.range.start)?).ok()?;
        self.sections.iter().find_map(|section| section.describe(distance, pc))
    }
}

#[cfg(any(test, fuzzing))]
impl ObjectFrames {
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let places = self.sections.iter().flat_map(|section| &section.places);
        places.map(|place| (self.range.start + place.start as usize, place.length as usize))
    }
}

/// A handler's read access to the list.
pub(super) struct Reading {
    objects: *const Vec<Arc<ObjectFrames>>,
}

/// Begins to read; None if no DSO has an index, as in most programs. Signal-safe.
pub(super) fn reading() -> Option<Reading> {
    // Relaxed: after the first publication, rules found without an index are dropped.
    if CURRENT.load(Ordering::Relaxed).is_null() {
        return None;
    }
    READERS.fetch_add(1, Ordering::SeqCst);
    Some(Reading { objects: CURRENT.load(Ordering::SeqCst) })
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Release: pairs with the load in `is_left_by_all`; our reads are done.
        READERS.fetch_sub(1, Ordering::Release);
    }
}

impl Reading {
    /// Signal-safe.
    pub(super) fn find(&self, dso: &PinnedDso<'_>) -> Option<&ObjectFrames> {
        // SAFETY: not null, never changed, and not freed while READERS counts us.
        let objects = unsafe { &*self.objects };
        let start = dso.object.start;
        let place = objects.binary_search_by_key(&start, |object| object.range.start).ok()?;
        let found = objects.get(place)?;
        let lead = dso.lead(found.lead.len())?;
        let is_known = !found.sections.is_empty() || !found.segments.is_empty();
        (found.is_of(start, lead) && is_known).then_some(found)
    }
}

/// The current list, for the thread that publishes.
pub(crate) fn present() -> Vec<Arc<ObjectFrames>> {
    let Some(reading) = reading() else { return Vec::new() };
    // SAFETY: as in `find`.
    unsafe { &*reading.objects }.clone()
}

/// Replaces the list. For ordinary context, one thread at a time.
pub(crate) fn publish(mut objects: Vec<Arc<ObjectFrames>>) {
    objects.sort_unstable_by_key(|object| object.range.start);
    let old = CURRENT.swap(Box::into_raw(Box::new(objects)), Ordering::SeqCst);
    if !old.is_null() && is_left_by_all() {
        // SAFETY: it came from a box, is no longer published, and has no readers.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// Waits until no handler reads, at most two seconds.
fn is_left_by_all() -> bool {
    let mut backoff = Backoff::bounded();
    loop {
        if READERS.load(Ordering::SeqCst) == 0 {
            return true;
        }
        if !backoff.wait() {
            return false;
        }
    }
}

/// In a forked child: the threads that were reading do not exist.
pub(super) fn reset_after_fork() {
    READERS.store(0, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::super::{Trust, objects};
    use super::*;
    use crate::sync::AtomicBool;

    const LEAD: usize = 256;
    const LOOKS: usize = 5_000;
    const ROUNDS: usize = 100;

    /// Calls `f` with this program, its range and a copy of its section.
    fn with_this_program(f: impl FnOnce(&PinnedDso<'_>, Range<usize>, SectionCopy)) {
        let here = objects::prepare as *const () as usize;
        objects::prepare();
        let guard = objects::pin(here, Trust::Live).unwrap();
        let dso = guard.find(here).unwrap();
        let sections = Description::find(&dso, None, here).unwrap().sections;
        let bytes = gimli::Section::reader(&sections.frames).slice();
        let address = bytes.as_ptr() as usize;
        let section = SectionCopy { kind: SectionKind::EhFrame, bytes: bytes.into(), address, bias: 0 };
        f(&dso, dso.object.start..dso.object.end, section);
    }

    fn code() -> Range<usize> {
        let functions = [objects::prepare as *const () as usize, std::env::vars as *const () as usize];
        *functions.iter().min().unwrap()..*functions.iter().max().unwrap()
    }

    #[test]
    fn finds_the_same_entries_as_the_table() {
        with_this_program(|dso, range, section| {
            let frames = ObjectFrames::new(range, Box::default(), vec![section]);
            let mut described = 0;
            for pc in code().step_by(61) {
                let by_table =
                    Description::find(dso, None, pc).filter(|found| found.entry.contains(found.pc));
                let by_index = frames.describe(pc);
                let offset = |found: Option<&Description<'_>>| found.map(|found| found.entry.offset());
                assert_eq!(offset(by_index.as_ref()), offset(by_table.as_ref()), "{pc:#x}");
                described += usize::from(by_index.is_some());
            }
            assert!(described > 1000, "{described}");
        });
    }

    #[test]
    fn leaves_out_entries_of_other_code() {
        with_this_program(|_, range, section| {
            let before = range.start..code().start;
            let frames = ObjectFrames::new(before, Box::default(), vec![section]);
            assert!(code().step_by(997).all(|pc| frames.describe(pc).is_none()));
        });
    }

    /// A 64-bit length may wrap to the position that it was read from; found by fuzzing.
    #[test]
    fn ends_a_section_at_a_length_that_wraps() {
        let first = [4u32, 0].map(u32::to_ne_bytes).concat();
        let back = (0usize.wrapping_sub(12 + first.len()) as u64).to_ne_bytes();
        let bytes = [&first[..], &[0xff; 4], &back].concat().into_boxed_slice();
        let section = SectionCopy { kind: SectionKind::EhFrame, bytes, address: 0, bias: 0 };
        assert_eq!(ObjectFrames::new(0..4096, Box::default(), vec![section]).places().count(), 0);
    }

    #[test]
    fn frees_a_list_that_has_no_readers() {
        with_this_program(|dso, range, section| {
            let (start, pc) = (range.start, code().start);
            let lead = dso.lead(LEAD).unwrap();
            let frames = Arc::new(ObjectFrames::new(range, lead.into(), vec![section]));
            let elsewhere = Arc::new(ObjectFrames::new(0..4096, Box::default(), Vec::new()));
            let (found, over) = (AtomicUsize::new(0), AtomicBool::new(false));
            let announced = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let look = || {
                    let mut seen = 0;
                    while !over.load(Ordering::Relaxed) {
                        // Each list is read once, because handlers are seldom inside. Readers
                        // without pauses could make the writer time out.
                        let now = announced.load(Ordering::Relaxed);
                        if now == seen {
                            std::thread::yield_now();
                            continue;
                        }
                        seen = now;
                        let Some(reading) = reading() else { continue };
                        let Some(frames) = reading.find(dso) else { continue };
                        assert!(frames.is_of(start, lead) && frames.describe(pc).is_some());
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                };
                let readers = [scope.spawn(look), scope.spawn(look)];
                let (mut rounds, mut found_before) = (0, 0);
                while (rounds < ROUNDS || found.load(Ordering::Relaxed) < LOOKS)
                    && !readers.iter().any(|reader| reader.is_finished())
                {
                    let first = (rounds % 2 == 0).then(|| Arc::clone(&elsewhere));
                    announced.store(rounds + 1, Ordering::Relaxed);
                    publish(first.into_iter().chain([Arc::clone(&frames)]).collect());
                    rounds += 1;
                    // On one processor no reader runs while this thread does.
                    let found = found.load(Ordering::Relaxed);
                    if found == found_before {
                        std::thread::yield_now();
                    }
                    found_before = found;
                }
                over.store(true, Ordering::Relaxed);
            });
            publish(Vec::new());
            assert!(reading().unwrap().find(dso).is_none());
            assert_eq!((Arc::strong_count(&frames), Arc::strong_count(&elsewhere)), (1, 1));
        });
    }
}
