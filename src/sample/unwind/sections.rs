//! The call frame information that describes a PC: found by the object's `.eh_frame_hdr` where the loader has mapped
//! it, or in an index of ours (`frame_index.rs`).
//!
//! A section may be damaged. All that is read of it is inside the slice it was given as, and no entry is run whose
//! length no compiler writes, so a look-up is bounded.
//!
//! # Safety
//! Makes slices of an object's segments, which stay mapped while the object is kept (`objects.rs`).
#![allow(unsafe_code)]

use super::{frame_index::Reading, objects::KeptObject};
use crate::sys::{
    arch::{HAS_LINK_REGISTER, MOST_RULES, RETURN_ADDRESS, VENDOR},
    loader::{Segment, program_headers},
};
use gimli::{
    BaseAddresses, CallFrameInstruction, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    NativeEndian, Pointer, Register, RegisterRule, Section, UnwindContext, UnwindContextStorage,
    UnwindOffset, UnwindSection, UnwindTableRow,
};

pub(super) type Bytes<'b> = EndianSlice<'b, NativeEndian>;
pub(super) type Entry<'b> = FrameDescriptionEntry<Bytes<'b>>;
pub(super) const ADDRESS_BYTES: u8 = size_of::<usize>() as u8;

/// Bytes of an entry. gcc's `cc1` has one of 20 KiB, the longest seen; a damaged length may promise all that follows.
const LONGEST_ENTRY: usize = 256 << 10;

/// Arrays in place of gimli's vectors. Two remembered states are the deepest seen in Debian's libraries.
pub(super) struct Arrays;

impl UnwindContextStorage<usize> for Arrays {
    type Rules = [(Register, RegisterRule<usize>); MOST_RULES];
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
    pub(super) entry: Entry<'b>,
    /// The PC, as the section counts.
    pub(super) pc: u64,
}

impl<'b> Description<'b> {
    /// What describes `pc`, by the object's own table or else by our index.
    pub(super) fn find(kept: &'b KeptObject<'_>, index: Option<&'b Reading>, pc: usize) -> Option<Self> {
        Self::by_mapped_table(kept, pc).or_else(|| index?.find(kept)?.describe(pc))
    }

    fn by_mapped_table(kept: &'b KeptObject<'_>, pc: usize) -> Option<Self> {
        let object = &kept.object;
        if object.eh_frame_hdr == 0 || !kept.is_there(object.start) || !kept.is_there(object.eh_frame_hdr) {
            return None;
        }
        let frames_at = |start| if kept.is_there(start) { mapped_from(kept, start) } else { None };
        Self::by_table(mapped_from(kept, object.eh_frame_hdr)?, object.eh_frame_hdr, frames_at, pc)
    }

    /// What describes `pc` by a table whose bytes, and more, are `header`; `frames_at` gives the bytes from an address
    /// on.
    pub(super) fn by_table(
        header: Bytes<'_>,
        address: usize,
        frames_at: impl FnOnce(usize) -> Option<Bytes<'b>>,
        pc: usize,
    ) -> Option<Self> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(address as u64);
        let header = EhFrameHdr::from(header).parse(&bases, ADDRESS_BYTES).ok()?;
        let Pointer::Direct(start) = header.eh_frame_ptr() else { return None };
        let frames = eh_frame(frames_at(usize::try_from(start).ok()?)?);
        let bases = bases.set_eh_frame(start);
        let table = header.table()?;
        let pc = pc as u64;
        let place = table.lookup(pc, &bases).ok()?;
        let entry = entry_at(&frames, &bases, table.pointer_to_offset(place).ok()?.0)?;
        Some(Self { sections: Sections { frames, bases }, entry, pc })
    }

    /// Where the described code begins, as the section counts.
    pub(super) fn function(&self) -> u64 {
        self.entry.initial_address()
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
pub(super) fn entry_at<'b, S>(section: &S, bases: &BaseAddresses, offset: usize) -> Option<Entry<'b>>
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
/// or where the program headers cannot be found: BOLT moves them behind everything else, and such an object has an
/// index.
fn mapped_from<'b>(kept: &'b KeptObject<'_>, address: usize) -> Option<Bytes<'b>> {
    // SAFETY: the object is kept, and with it its headers.
    let headers = unsafe { program_headers(kept.object.start) }?;
    // SAFETY: as above.
    let mut segments = unsafe { headers.segments() };
    let holds = |segment: &Segment| segment.readable && (segment.start..segment.file_end).contains(&address);
    let length = segments.find(holds)?.file_end.checked_sub(address)?;
    // SAFETY: the loader has mapped the file's part of this segment readable, and nobody writes there: call
    // frame information is read-only, or relocated before the object's first instruction runs.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
    Some(EndianSlice::new(bytes, NativeEndian))
}
