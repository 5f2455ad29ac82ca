//! Call frame information of objects that bring no table to search it by.
//!
//! A program linked with `-static` has an `.eh_frame` without `.eh_frame_hdr`, code in assembler may have a
//! `.debug_frame`, which is not even mapped. For such objects ordinary context (`control/frame_files.rs`) copies the
//! section into memory of ours and sorts its entries by address; a handler searches there, and reads nothing else.
//!
//! Of an object that has a table, but its program headers elsewhere than at its beginning (BOLT moves them behind
//! everything else), only the segments are listed here: a handler needs their ends to read the table where it is.
//!
//! Who writes: ordinary context, one at a time, by exchange of a pointer to a list that never changes. Who reads:
//! handlers. An old list is freed when no handler is seen reading, or left in memory where one does not come back.
//!
//! | | handler | ordinary context |
//! | --- | --- | --- |
//! | 1 | READERS += 1 | CURRENT = new |
//! | 2 | reads CURRENT | reads READERS until it is 0, then frees the old |
//!
//! Both sides write before they read, sequentially consistent: a handler that is not seen finds the new list.
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

/// The two sections that hold such information. They differ in how an entry names its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    /// Mapped and relocated: its addresses are those of the process.
    EhFrame,
    /// In the file only: its addresses are those of the file.
    DebugFrame,
}

/// A copy of a section.
pub(crate) struct SectionCopy {
    pub(crate) kind: SectionKind,
    pub(crate) bytes: Box<[u8]>,
    /// Where the original stands, in the addresses that its entries name.
    pub(crate) address: usize,
    /// The process's address of what the entries call 0.
    pub(crate) bias: usize,
}

/// Where one entry is, and the code that it describes.
#[derive(Clone, Copy)]
struct FdeLocation {
    /// Counted from the object's start.
    start: u32,
    length: u32,
    offset: u32,
}

/// A section, searchable.
struct IndexedSection {
    section: SectionCopy,
    /// In order of their starts.
    places: Box<[FdeLocation]>,
}

/// What is known of one object.
pub(crate) struct ObjectFrames {
    range: Range<usize>,
    /// The first bytes of its memory, by which another object at the same place is told.
    lead: Box<[u8]>,
    /// None for an object that was looked into in vain.
    sections: Vec<IndexedSection>,
    /// What the loader has mapped readable, for an object that has a table; else nothing.
    segments: Vec<Range<usize>>,
}

impl SectionCopy {
    /// The entry at `offset`.
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
    /// Sorts what describes code in `range`. An entry that cannot be read is passed over. For ordinary context.
    fn new(section: SectionCopy, range: &Range<usize>) -> Self {
        let mut places = Vec::new();
        let mut offset = 0;
        while let Some(size) = entry_size(&section.bytes, offset) {
            if let Some(entry) = section.entry(offset) {
                places.extend(place(&entry, offset, section.bias, range));
            }
            // Neither a terminator in the middle, which some linkers leave there, nor a bad entry ends the section.
            let Some(next) = offset.checked_add(size) else { break };
            offset = next;
        }
        // Of several entries that begin alike the longest is found.
        places.sort_unstable_by_key(|place: &FdeLocation| (place.start, place.length));
        places.shrink_to_fit();
        Self { section, places: places.into_boxed_slice() }
    }

    /// What describes `pc`, which lies `distance` behind the object's start.
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

/// None for code outside of the object: linkers leave entries of functions that they dropped.
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
    /// Sorts the entries of an object's sections. For ordinary context.
    pub(crate) fn new(range: Range<usize>, lead: Box<[u8]>, sections: Vec<SectionCopy>) -> Self {
        let sections = sections.into_iter().map(|section| IndexedSection::new(section, &range)).collect();
        Self { range, lead, sections, segments: Vec::new() }
    }

    /// An object that has a table, with the segments that the loader has mapped readable. For ordinary context.
    pub(crate) fn with_table(range: Range<usize>, lead: Box<[u8]>, segments: Vec<Range<usize>>) -> Self {
        Self { range, lead, sections: Vec::new(), segments }
    }

    /// The end of the segment that `address` lies in, if segments are listed.
    pub(super) fn segment_end(&self, address: usize) -> Option<usize> {
        Some(self.segments.iter().find(|segment| segment.contains(&address))?.end)
    }

    /// True for the object at `start` whose memory begins with `lead`.
    pub(crate) fn is_of(&self, start: usize, lead: &[u8]) -> bool {
        self.range.start == start && *self.lead == *lead
    }

    /// What describes `pc`; in the first section that does.
    pub(super) fn describe(&self, pc: usize) -> Option<Description<'_>> {
        let distance = u32::try_from(pc.checked_sub(self.range.start)?).ok()?;
        self.sections.iter().find_map(|section| section.describe(distance, pc))
    }
}

#[cfg(any(test, fuzzing))]
impl ObjectFrames {
    /// Start and length of each piece of code that is described.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let places = self.sections.iter().flat_map(|section| &section.places);
        places.map(|place| (self.range.start + place.start as usize, place.length as usize))
    }
}

/// A handler's look into the list.
pub(super) struct Reading {
    objects: *const Vec<Arc<ObjectFrames>>,
}

/// Begins to read; None where no object of the process has an index, which is the rule. Signal-safe.
pub(super) fn reading() -> Option<Reading> {
    // Relaxed: whoever published the first list forgets what was found out without it.
    if CURRENT.load(Ordering::Relaxed).is_null() {
        return None;
    }
    READERS.fetch_add(1, Ordering::SeqCst);
    Some(Reading { objects: CURRENT.load(Ordering::SeqCst) })
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Release: who sees the count fall also sees our reads done.
        READERS.fetch_sub(1, Ordering::Release);
    }
}

impl Reading {
    /// What is known of an object. Signal-safe.
    pub(super) fn find(&self, kept: &PinnedDso<'_>) -> Option<&ObjectFrames> {
        // SAFETY: published, so never changed; and not freed, since we are counted among the readers. Never null
        // again once it was not.
        let objects = unsafe { &*self.objects };
        let start = kept.object.start;
        let place = objects.binary_search_by_key(&start, |object| object.range.start).ok()?;
        let found = objects.get(place)?;
        let lead = kept.lead(found.lead.len())?;
        let is_known = !found.sections.is_empty() || !found.segments.is_empty();
        (found.is_of(start, lead) && is_known).then_some(found)
    }
}

/// The list of now. For ordinary context, by the one who publishes.
pub(crate) fn present() -> Vec<Arc<ObjectFrames>> {
    let Some(reading) = reading() else { return Vec::new() };
    // SAFETY: as in `find`.
    unsafe { &*reading.objects }.clone()
}

/// Puts `objects`, in any order, in place of the list of now. For ordinary context, one at a time.
pub(crate) fn publish(mut objects: Vec<Arc<ObjectFrames>>) {
    objects.sort_unstable_by_key(|object| object.range.start);
    let old = CURRENT.swap(Box::into_raw(Box::new(objects)), Ordering::SeqCst);
    if !old.is_null() && is_left_by_all() {
        // SAFETY: it came from a box, is published no more, and nobody reads it.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// Waits until no handler reads, two seconds at most.
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

/// In a forked child: the threads that were reading do not exist here.
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
    /// Lists that are published at least.
    const ROUNDS: usize = 100;

    /// Calls `f` with this test program, its range and a copy of its section, which reaches to its segment's end.
    fn with_this_program(f: impl FnOnce(&PinnedDso<'_>, Range<usize>, SectionCopy)) {
        let here = objects::prepare as *const () as usize;
        objects::prepare();
        let keeper = objects::pin(here, Trust::Live).unwrap();
        let kept = keeper.find(here).unwrap();
        let sections = Description::find(&kept, None, here).unwrap().sections;
        let bytes = gimli::Section::reader(&sections.frames).slice();
        let address = bytes.as_ptr() as usize;
        let section = SectionCopy { kind: SectionKind::EhFrame, bytes: bytes.into(), address, bias: 0 };
        f(&kept, kept.object.start..kept.object.end, section);
    }

    /// Code of this program: from the first of some functions to the last.
    fn code() -> Range<usize> {
        let functions = [objects::prepare as *const () as usize, std::env::vars as *const () as usize];
        *functions.iter().min().unwrap()..*functions.iter().max().unwrap()
    }

    /// What the linker's own table leads to is what is found without it.
    #[test]
    fn the_index_leads_where_the_table_does() {
        with_this_program(|kept, range, section| {
            let frames = ObjectFrames::new(range, Box::default(), vec![section]);
            let mut described = 0;
            for pc in code().step_by(61) {
                let by_table =
                    Description::find(kept, None, pc).filter(|found| found.entry.contains(found.pc));
                let by_index = frames.describe(pc);
                let offset = |found: Option<&Description<'_>>| found.map(|found| found.entry.offset());
                assert_eq!(offset(by_index.as_ref()), offset(by_table.as_ref()), "{pc:#x}");
                described += usize::from(by_index.is_some());
            }
            assert!(described > 1000, "{described}");
        });
    }

    /// Entries of code that is not the object's, or that end behind it, are none of it.
    #[test]
    fn entries_of_other_code_are_left_out() {
        with_this_program(|_, range, section| {
            let before = range.start..code().start;
            let frames = ObjectFrames::new(before, Box::default(), vec![section]);
            assert!(code().step_by(997).all(|pc| frames.describe(pc).is_none()));
        });
    }

    /// A length of 64 bits may lead round to where it was read from; found by fuzzing.
    #[test]
    fn a_length_that_wraps_ends_the_section() {
        let first = [4u32, 0].map(u32::to_ne_bytes).concat();
        let back = (0usize.wrapping_sub(12 + first.len()) as u64).to_ne_bytes();
        let bytes = [&first[..], &[0xff; 4], &back].concat().into_boxed_slice();
        let section = SectionCopy { kind: SectionKind::EhFrame, bytes, address: 0, bias: 0 };
        assert_eq!(ObjectFrames::new(0..4096, Box::default(), vec![section]).places().count(), 0);
    }

    /// Lists come and go while others read: each look finds the whole of one, and no list is left in memory.
    #[test]
    fn a_list_is_freed_when_nobody_reads_it() {
        with_this_program(|kept, range, section| {
            let (start, pc) = (range.start, code().start);
            let lead = kept.lead(LEAD).unwrap();
            let frames = Arc::new(ObjectFrames::new(range, lead.into(), vec![section]));
            let elsewhere = Arc::new(ObjectFrames::new(0..4096, Box::default(), Vec::new()));
            let (found, over) = (AtomicUsize::new(0), AtomicBool::new(false));
            // The number of the list that is about to be published.
            let announced = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let look = || {
                    let mut seen = 0;
                    while !over.load(Ordering::Relaxed) {
                        // One look at each list, beside its publication: handlers are seldom inside, and who publishes sees none
                        // there sooner or later. Readers that come again at once may be met inside for as long as that waits.
                        let now = announced.load(Ordering::Relaxed);
                        if now == seen {
                            std::thread::yield_now();
                            continue;
                        }
                        seen = now;
                        let Some(reading) = reading() else { continue };
                        let Some(frames) = reading.find(kept) else { continue };
                        assert!(frames.is_of(start, lead) && frames.describe(pc).is_some());
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                };
                let readers = [scope.spawn(look), scope.spawn(look)];
                let (mut rounds, mut found_before) = (0, 0);
                // Until enough has happened on both sides, or a reader has failed.
                while (rounds < ROUNDS || found.load(Ordering::Relaxed) < LOOKS)
                    && !readers.iter().any(|reader| reader.is_finished())
                {
                    let first = (rounds % 2 == 0).then(|| Arc::clone(&elsewhere));
                    announced.store(rounds + 1, Ordering::Relaxed);
                    publish(first.into_iter().chain([Arc::clone(&frames)]).collect());
                    rounds += 1;
                    // On one processor nobody looks while this goes on.
                    let found = found.load(Ordering::Relaxed);
                    if found == found_before {
                        std::thread::yield_now();
                    }
                    found_before = found;
                }
                over.store(true, Ordering::Relaxed);
            });
            publish(Vec::new());
            assert!(reading().unwrap().find(kept).is_none());
            assert_eq!((Arc::strong_count(&frames), Arc::strong_count(&elsewhere)), (1, 1));
        });
    }
}
