//! The call frame information that describes a PC, found by the DSO's mapped `.eh_frame_hdr` or our
//! index (`frame_index.rs`). Sections may be damaged: reads stay in the section's slice, and
//! entries longer than compilers write are not run, so a look-up is bounded.
//!
//! # Safety
//! Makes slices of a DSO's segments, which stay mapped while the DSO is pinned (`objects.rs`).
#![allow(unsafe_code)]

use super::{
    frame_index::{ObjectFrames, Reading},
    objects::PinnedDso,
};
use crate::sys::{
    arch::{HAS_LINK_REGISTER, MAX_RULES, RETURN_ADDRESS, VENDOR},
    loader::{Segment, program_headers},
};
use gimli::{
    BaseAddresses, CallFrameInstruction, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    NativeEndian, Pointer, Register, RegisterRule, Section, UnwindContext, UnwindContextStorage,
    UnwindOffset, UnwindSection, UnwindTableRow,
};

pub(super) type Bytes<'b> = EndianSlice<'b, NativeEndian>;
pub(super) type Fde<'b> = FrameDescriptionEntry<Bytes<'b>>;
pub(super) const ADDRESS_BYTES: u8 = size_of::<usize>() as u8;

/// gcc's `cc1` has an entry of 20 KiB, the longest seen; a damaged length may be anything.
const LONGEST_ENTRY: usize = 256 << 10;

/// Arrays instead of gimli's vectors. Debian's libraries remember at most two states.
pub(super) struct Arrays;

impl UnwindContextStorage<usize> for Arrays {
    type Rules = [(Register, RegisterRule<usize>); MAX_RULES];
    type Stack = [UnwindTableRow<usize, Self>; 5];
}

/// A found entry of `.debug_frame` is read as in `.eh_frame`.
pub(super) struct Sections<'b> {
    pub(super) frames: EhFrame<Bytes<'b>>,
    pub(super) bases: BaseAddresses,
}

pub(super) struct Description<'b> {
    pub(super) sections: Sections<'b>,
    pub(super) entry: Fde<'b>,
    /// In the section's addresses.
    pub(super) pc: u64,
}

impl<'b> Description<'b> {
    /// Finds the entry by the DSO's own table, or by our index.
    pub(super) fn find(dso: &'b PinnedDso<'_>, index: Option<&'b Reading>, pc: usize) -> Option<Self> {
        let known = index.and_then(|index| index.find(dso));
        Self::by_mapped_table(dso, known, pc).or_else(|| known?.describe(pc))
    }

    fn by_mapped_table(dso: &'b PinnedDso<'_>, known: Option<&ObjectFrames>, pc: usize) -> Option<Self> {
        let object = &dso.object;
        if object.eh_frame_hdr == 0 || !dso.is_there(object.start) || !dso.is_there(object.eh_frame_hdr) {
            return None;
        }
        let frames_at = |start| if dso.is_there(start) { mapped_from(dso, known, start) } else { None };
        Self::by_table(mapped_from(dso, known, object.eh_frame_hdr)?, object.eh_frame_hdr, frames_at, pc)
    }

    /// `header`: the table, and more. `frames_at`: returns the bytes from an address on.
    pub(super) fn by_table(
        header: Bytes<'_>,
        address: usize,
        frames_at: impl FnOnce(usize) -> Option<Bytes<'b>>,
        pc: usize,
    ) -> Option<Self> {
        // All linkers write a four-byte count; gimli multiplies it.
        if header.slice().get(2) != Some(&gimli::DW_EH_PE_udata4.0) {
            return None;
        }
        let bases = BaseAddresses::default().set_eh_frame_hdr(address as u64);
        let header = EhFrameHdr::from(header).parse(&bases, ADDRESS_BYTES).ok()?;
        let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
        let frames = eh_frame(frames_at(usize::try_from(start).ok()?)?);
        let bases = bases.set_eh_frame(start);
        let table = header.table()?;
        let pc = pc as u64;
        let Pointer::Direct(place) = table.lookup(pc, &bases).ok()? else { return None };
        let offset = usize::try_from(place.checked_sub(start)?).ok()?;
        let entry = entry_at(&frames, &bases, offset)?;
        Some(Self { sections: Sections { frames, bases }, entry, pc })
    }

    pub(super) fn function(&self) -> u64 {
        self.entry.initial_address()
    }

    /// Bytes from the PC to its function's end; None if it is outside.
    pub(super) fn bytes_left(&self) -> Option<usize> {
        let entry = &self.entry;
        let left = entry.initial_address().wrapping_add(entry.len()).wrapping_sub(self.pc);
        entry.contains(self.pc).then(|| usize::try_from(left).ok()).flatten()
    }

    pub(super) fn row<'c>(&self, context: &'c mut UnwindContext<usize, Arrays>) -> Option<Found<'c>> {
        let (Sections { frames, bases }, entry) = (&self.sections, &self.entry);
        if !entry.contains(self.pc) || entry.cie().return_address_register() != Register(RETURN_ADDRESS) {
            return None;
        }
        // gimli drops "undefined". Without a rule, the link register would be unchanged.
        let no_caller = HAS_LINK_REGISTER
            && {
                let mut instructions = entry.instructions(frames, bases);
                core::iter::from_fn(|| instructions.next().ok().flatten()).any(|instruction| {
                matches!(instruction, CallFrameInstruction::Undefined { register } if register.0 == RETURN_ADDRESS)
            })
            };
        let row = entry.unwind_info_for_address(frames, bases, context, self.pc).ok()?;
        Some(Found { row, signal_frame: entry.is_signal_trampoline(), no_caller })
    }
}

pub(super) struct Found<'c> {
    pub(super) row: &'c UnwindTableRow<usize, Arrays>,
    pub(super) signal_frame: bool,
    /// The return address is undefined in at least a part of the function.
    pub(super) no_caller: bool,
}

pub(super) fn eh_frame(bytes: Bytes<'_>) -> EhFrame<Bytes<'_>> {
    let mut frames = EhFrame::from(bytes);
    frames.set_vendor(VENDOR);
    frames
}

/// Returns the FDE at `offset`, if neither it nor its CIE is too long.
pub(super) fn entry_at<'b, S>(section: &S, bases: &BaseAddresses, offset: usize) -> Option<Fde<'b>>
where
    S: UnwindSection<Bytes<'b>> + Section<Bytes<'b>>,
    S::Offset: UnwindOffset<usize>,
{
    let is_short =
        |offset| entry_size(section.reader().slice(), offset).is_some_and(|size| size <= LONGEST_ENTRY);
    if !is_short(offset) {
        return None;
    }
    let shared =
        |section: &S, bases: &BaseAddresses, offset: S::Offset| match is_short(UnwindOffset::into(offset)) {
            true => section.cie_from_offset(bases, offset),
            false => Err(gimli::Error::OffsetOutOfBounds),
        };
    section.fde_from_offset(bases, offset.into(), shared).ok()
}

/// Bytes from `offset` to the next entry, at least 4; None at the end.
pub(super) fn entry_size(section: &[u8], offset: usize) -> Option<usize> {
    let at = |offset: usize| section.get(offset..);
    let length = u32::from_ne_bytes(*at(offset)?.first_chunk()?);
    match length {
        // A 64-bit length follows.
        u32::MAX => {
            let length = u64::from_ne_bytes(*at(offset.checked_add(4)?)?.first_chunk()?);
            usize::try_from(length).ok()?.checked_add(12)
        }
        _ => Some(length as usize + 4),
    }
}

/// Returns the bytes from `address` to the end of its segment's file part. None if no readable
/// segment contains it, or if neither program headers nor `known` list the segments.
pub(super) fn mapped_from<'b>(
    dso: &'b PinnedDso<'_>,
    known: Option<&ObjectFrames>,
    address: usize,
) -> Option<Bytes<'b>> {
    // SAFETY: the DSO is pinned, and so are its headers.
    let end = match unsafe { program_headers(dso.object.start) } {
        Some(headers) => {
            // SAFETY: as above.
            let mut segments = unsafe { headers.segments() };
            let holds =
                |segment: &Segment| segment.readable && (segment.start..segment.file_end).contains(&address);
            segments.find(holds)?.file_end
        }
        None => known?.segment_end(address)?,
    };
    let length = end.checked_sub(address)?;
    // SAFETY: the file's part of this segment is mapped readable, and not written: call frame
    // information is read-only, or relocated before the DSO's first instruction runs.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
    Some(EndianSlice::new(bytes, NativeEndian))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_pointer_width = "64")]
    use crate::sys::{
        loader::LoadedObject,
        memory::{OwnedMapping, PAGE},
    };

    /// `segments`: flags, first page, pages in the file.
    #[cfg(target_pointer_width = "64")]
    fn write_headers(object: &OwnedMapping, segments: &[(u32, usize, usize)]) {
        let start = object.start().as_ptr();
        let mut header = [0u8; 64];
        header[..4].copy_from_slice(b"\x7fELF");
        header[32] = 64;
        header[56] = segments.len() as u8;
        let segments = segments.iter().flat_map(|&(flags, page, pages)| {
            let words = [0, page * PAGE, 0, pages * PAGE, pages * PAGE, PAGE].map(|word| word as u64);
            let kind = [1, flags].into_iter().flat_map(u32::to_ne_bytes);
            kind.chain(words.into_iter().flat_map(u64::to_ne_bytes))
        });
        for (i, byte) in header.into_iter().chain(segments).enumerate() {
            // SAFETY: the headers fit into the first page.
            let place = unsafe { start.add(i) };
            // SAFETY: the page belongs to this test's mapping.
            unsafe { place.write(byte) };
        }
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn returns_only_bytes_of_readable_segments() {
        const READ: u32 = 4;
        let object = OwnedMapping::writable(8 * PAGE).unwrap();
        let start = object.start().as_ptr() as usize;
        // Two pages, a gap, a segment that is not readable, and a readable one.
        write_headers(&object, &[(READ, 0, 2), (1, 4, 2), (READ, 6, 1)]);
        // SAFETY: the headers are written and live as long as the mapping.
        let dso = PinnedDso::of(unsafe { LoadedObject::from_headers(start, start + 8 * PAGE) });
        let lent = |address: usize| mapped_from(&dso, None, address).map(|bytes| bytes.len());
        assert_eq!(lent(start), Some(2 * PAGE));
        assert_eq!(lent(start + 2 * PAGE - 1), Some(1));
        assert_eq!(lent(start + 6 * PAGE + 8), Some(PAGE - 8));
        let outside =
            [2 * PAGE, 3 * PAGE, 4 * PAGE, 5 * PAGE, 7 * PAGE, 8 * PAGE].map(|offset| start + offset);
        for address in outside.into_iter().chain([0, 8, start - 1, usize::MAX, usize::MAX - 7]) {
            assert_eq!(lent(address), None, "{:#x}", address.wrapping_sub(start));
        }
        write_headers(&object, &[]);
        assert_eq!(lent(start), None, "no headers, no bounds");
        // SAFETY: the header's first byte, in this test's mapping.
        unsafe { object.start().as_ptr().write(0) };
        let segments = vec![start..start + 2 * PAGE, start + 6 * PAGE..start + 7 * PAGE];
        let known = ObjectFrames::with_table(start..start + 8 * PAGE, Box::default(), segments);
        let mapped = |address: usize| mapped_from(&dso, Some(&known), address).map(|bytes| bytes.len());
        assert_eq!((mapped(start + PAGE), mapped(start + 6 * PAGE + 8)), (Some(PAGE), Some(PAGE - 8)));
        assert_eq!((mapped(start + 2 * PAGE), mapped(start + 7 * PAGE), lent(start)), (None, None, None));
    }

    #[test]
    fn refuses_an_entry_that_is_too_long() {
        let section = |length: usize| {
            // A CIE of version 1 without augmentation, and an FDE for 0x1000..0x1010.
            let shared = [12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0, 0, 0];
            let mut bytes = [&shared[..], &(length as u32 - 4).to_ne_bytes(), &[20, 0, 0, 0]].concat();
            bytes.extend([0x1000u64, 0x10].into_iter().flat_map(u64::to_ne_bytes));
            bytes.resize(shared.len() + length, 0);
            bytes
        };
        let is_found = |length| {
            let bytes = section(length);
            entry_at(&EhFrame::new(&bytes, NativeEndian), &BaseAddresses::default(), 16).is_some()
        };
        assert!(is_found(64) && is_found(LONGEST_ENTRY));
        assert!(!is_found(LONGEST_ENTRY + 1));
    }

    #[test]
    fn finds_the_next_entry_by_both_forms_of_length() {
        let long = [&[0xff; 4][..], &24u64.to_ne_bytes()].concat();
        assert_eq!(entry_size(&long, 0), Some(36));
        assert_eq!(entry_size(&[8, 0, 0, 0], 0), Some(12));
        assert_eq!(entry_size(&[0, 0, 0, 0], 0), Some(4));
        assert_eq!(entry_size(&[[0xff; 12]].concat(), 0), None);
        for offset in [1, 4, 5, usize::MAX] {
            assert_eq!(entry_size(&[8, 0, 0, 0], offset), None);
        }
    }
}
