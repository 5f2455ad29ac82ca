//! The call frame information that describes a PC: found by the object's `.eh_frame_hdr` where the loader has mapped
//! it, or in an index of ours (`frame_index.rs`).
//!
//! A section may be damaged. All that is read of it is inside the slice it was given as, and no entry is run whose
//! length no compiler writes, so a look-up is bounded.
//!
//! # Safety
//! Makes slices of an object's segments, which stay mapped while the object is kept (`objects.rs`).
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

/// Bytes of an entry. gcc's `cc1` has one of 20 KiB, the longest seen; a damaged length may promise all that follows.
const LONGEST_ENTRY: usize = 256 << 10;

/// Arrays in place of gimli's vectors. Two remembered states are the deepest seen in Debian's libraries.
pub(super) struct Arrays;

impl UnwindContextStorage<usize> for Arrays {
    type Rules = [(Register, RegisterRule<usize>); MAX_RULES];
    type Stack = [UnwindTableRow<usize, Self>; 5];
}

/// A section with entries, and where it stands. Once an entry is found, `.debug_frame` is read as `.eh_frame` is.
pub(super) struct Sections<'b> {
    pub(super) frames: EhFrame<Bytes<'b>>,
    pub(super) bases: BaseAddresses,
}

/// The entry that describes a PC, and what is needed to run it.
pub(super) struct Description<'b> {
    pub(super) sections: Sections<'b>,
    pub(super) entry: Fde<'b>,
    /// The PC, as the section counts.
    pub(super) pc: u64,
}

impl<'b> Description<'b> {
    /// What describes `pc`, by the object's own table or else by our index.
    pub(super) fn find(kept: &'b PinnedDso<'_>, index: Option<&'b Reading>, pc: usize) -> Option<Self> {
        let known = index.and_then(|index| index.find(kept));
        Self::by_mapped_table(kept, known, pc).or_else(|| known?.describe(pc))
    }

    fn by_mapped_table(kept: &'b PinnedDso<'_>, known: Option<&ObjectFrames>, pc: usize) -> Option<Self> {
        let object = &kept.object;
        if object.eh_frame_hdr == 0 || !kept.is_there(object.start) || !kept.is_there(object.eh_frame_hdr) {
            return None;
        }
        let frames_at = |start| if kept.is_there(start) { mapped_from(kept, known, start) } else { None };
        Self::by_table(mapped_from(kept, known, object.eh_frame_hdr)?, object.eh_frame_hdr, frames_at, pc)
    }

    /// What describes `pc` by a table whose bytes, and more, are `header`; `frames_at` gives the bytes from an address
    /// on.
    pub(super) fn by_table(
        header: Bytes<'_>,
        address: usize,
        frames_at: impl FnOnce(usize) -> Option<Bytes<'b>>,
        pc: usize,
    ) -> Option<Self> {
        // All linkers write the number of entries in four bytes; gimli multiplies it.
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

    /// Where the described code begins, as the section counts.
    pub(super) fn function(&self) -> u64 {
        self.entry.initial_address()
    }

    /// How many bytes of the described code lie at the PC and behind; None where the PC is not in it.
    pub(super) fn bytes_left(&self) -> Option<usize> {
        let entry = &self.entry;
        let left = entry.initial_address().wrapping_add(entry.len()).wrapping_sub(self.pc);
        entry.contains(self.pc).then(|| usize::try_from(left).ok()).flatten()
    }

    /// The row that holds for the PC.
    pub(super) fn row<'c>(&self, context: &'c mut UnwindContext<usize, Arrays>) -> Option<Found<'c>> {
        let (Sections { frames, bases }, entry) = (&self.sections, &self.entry);
        if !entry.contains(self.pc) || entry.cie().return_address_register() != Register(RETURN_ADDRESS) {
            return None;
        }
        // gimli takes a rule that says "undefined" for none at all. That makes no difference but for a register that
        // stays as it is without a rule: the link register.
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

/// What describes a PC.
pub(super) struct Found<'c> {
    pub(super) row: &'c UnwindTableRow<usize, Arrays>,
    /// The frame is a signal trampoline's.
    pub(super) signal_frame: bool,
    /// The function's return address is undefined, at least in a part of it.
    pub(super) no_caller: bool,
}

/// A section as this machine's compilers write it.
pub(super) fn eh_frame(bytes: Bytes<'_>) -> EhFrame<Bytes<'_>> {
    let mut frames = EhFrame::from(bytes);
    frames.set_vendor(VENDOR);
    frames
}

/// The entry at `offset` that describes code, if neither it nor the one it shares with others is too long.
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

/// Bytes from `offset` to the next entry; at least 4, and None at the section's end.
pub(super) fn entry_size(section: &[u8], offset: usize) -> Option<usize> {
    let at = |offset: usize| section.get(offset..);
    let length = u32::from_ne_bytes(*at(offset)?.first_chunk()?);
    match length {
        // A length of 64 bits follows.
        u32::MAX => {
            let length = u64::from_ne_bytes(*at(offset.checked_add(4)?)?.first_chunk()?);
            usize::try_from(length).ok()?.checked_add(12)
        }
        _ => Some(length as usize + 4),
    }
}

/// The bytes from `address` to the end of what the file backs in its segment. None where no readable segment holds it,
/// or where its ends are not to be found: its program headers are elsewhere than at its beginning, and it is not among
/// the `known`.
pub(super) fn mapped_from<'b>(
    kept: &'b PinnedDso<'_>,
    known: Option<&ObjectFrames>,
    address: usize,
) -> Option<Bytes<'b>> {
    // SAFETY: the object is kept, and with it its headers.
    let end = match unsafe { program_headers(kept.object.start) } {
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
    // SAFETY: the loader has mapped the file's part of this segment readable, and nobody writes there: call
    // frame information is read-only, or relocated before the object's first instruction runs.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
    Some(EndianSlice::new(bytes, NativeEndian))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_pointer_width = "64")]
    use crate::sys::{
        loader::LoadedObject,
        memory::{Mapping, PAGE},
    };

    /// Writes an ELF header of 64 bits and the program headers of `segments` (flags, first page, pages in the file).
    #[cfg(target_pointer_width = "64")]
    fn write_headers(object: &Mapping, segments: &[(u32, usize, usize)]) {
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
            // SAFETY: the mapping is ours.
            unsafe { place.write(byte) };
        }
    }

    /// An address that a damaged header leads to is read up to the end of a readable segment, or not at all.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn nothing_outside_of_a_readable_segment_is_lent() {
        const READ: u32 = 4;
        let object = Mapping::writable(8 * PAGE).unwrap();
        let start = object.start().as_ptr() as usize;
        // A hole behind the first two pages, then a segment that cannot be read, and one that can.
        write_headers(&object, &[(READ, 0, 2), (1, 4, 2), (READ, 6, 1)]);
        // SAFETY: the headers are there, and stay as long as the mapping.
        let kept = PinnedDso::of(unsafe { LoadedObject::from_headers(start, start + 8 * PAGE) });
        let lent = |address: usize| mapped_from(&kept, None, address).map(|bytes| bytes.len());
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
        // Headers at another place: the bounds are those that the loader told in ordinary context.
        // SAFETY: the header's first byte, in our mapping.
        unsafe { object.start().as_ptr().write(0) };
        let segments = vec![start..start + 2 * PAGE, start + 6 * PAGE..start + 7 * PAGE];
        let known = ObjectFrames::with_table(start..start + 8 * PAGE, Box::default(), segments);
        let told = |address: usize| mapped_from(&kept, Some(&known), address).map(|bytes| bytes.len());
        assert_eq!((told(start + PAGE), told(start + 6 * PAGE + 8)), (Some(PAGE), Some(PAGE - 8)));
        assert_eq!((told(start + 2 * PAGE), told(start + 7 * PAGE), lent(start)), (None, None, None));
    }

    /// A damaged length does not make a look-up run through all that follows.
    #[test]
    fn an_entry_longer_than_any_is_not_read() {
        let section = |length: usize| {
            // Version 1 without augmentation; then an entry for the code from 0x1000 to 0x1010.
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
    fn the_next_entry_is_found_by_either_form_of_a_length() {
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
