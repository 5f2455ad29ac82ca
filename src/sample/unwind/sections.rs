//! An object's `.eh_frame_hdr` and `.eh_frame`, where the loader has mapped them, and the row that holds for a PC.
//!
//! # Safety
//! Makes slices of an object's segments, which stay mapped while the object is kept (`objects.rs`).
#![allow(unsafe_code)]

use super::objects::KeptObject;
use crate::sys::{arch::RETURN_ADDRESS, loader::program_headers};
use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, ParsedEhFrameHdr, Pointer, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow,
};

pub(super) type Bytes<'b> = EndianSlice<'b, NativeEndian>;
pub(super) const ADDRESS_BYTES: u8 = size_of::<usize>() as u8;

/// Arrays in place of gimli's vectors. A row of glibc's signal trampoline names 17 registers, the most seen in
/// Debian's libraries; two remembered states are the deepest seen.
pub(super) struct Arrays;

impl UnwindContextStorage<usize> for Arrays {
    type Rules = [(Register, RegisterRule<usize>); 24];
    type Stack = [UnwindTableRow<usize, Self>; 5];
}

/// The two sections of an object, and where they are mapped.
pub(super) struct Sections<'b> {
    table: ParsedEhFrameHdr<Bytes<'b>>,
    pub(super) frames: EhFrame<Bytes<'b>>,
    bases: BaseAddresses,
}

impl<'b> Sections<'b> {
    /// The sections of an object that has both.
    pub(super) fn of(kept: &'b KeptObject<'_>) -> Option<Self> {
        let object = &kept.object;
        if object.eh_frame_hdr == 0 || !kept.is_there(object.start) || !kept.is_there(object.eh_frame_hdr) {
            return None;
        }
        let header = mapped_from(kept, object.eh_frame_hdr)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(object.eh_frame_hdr as u64);
        let table = EhFrameHdr::from(header).parse(&bases, ADDRESS_BYTES).ok()?;
        let Pointer::Direct(start) = table.eh_frame_ptr() else { return None };
        if !kept.is_there(usize::try_from(start).ok()?) {
            return None;
        }
        let frames = mapped_from(kept, usize::try_from(start).ok()?)?;
        Some(Self { table, frames: EhFrame::from(frames), bases: bases.set_eh_frame(start) })
    }

    /// The row that holds for `pc`, and whether its frame is a signal trampoline's.
    pub(super) fn row<'c>(
        &self,
        context: &'c mut UnwindContext<usize, Arrays>,
        pc: usize,
    ) -> Option<(&'c UnwindTableRow<usize, Arrays>, bool)> {
        let pc = pc as u64;
        let fde = self
            .table
            .table()?
            .fde_for_address(&self.frames, &self.bases, pc, EhFrame::cie_from_offset)
            .ok()?;
        if fde.cie().return_address_register() != Register(RETURN_ADDRESS) {
            return None;
        }
        let row = fde.unwind_info_for_address(&self.frames, &self.bases, context, pc).ok()?;
        Some((row, fde.is_signal_trampoline()))
    }
}

/// The bytes from `address` to the end of what the file backs in its segment; to the object's end where its program
/// headers cannot be found (BOLT moves them behind everything else, to where only they could say).
fn mapped_from<'b>(kept: &'b KeptObject<'_>, address: usize) -> Option<Bytes<'b>> {
    let object = &kept.object;
    // SAFETY: the object is kept, and with it its headers.
    let end = match unsafe { program_headers(object.start) } {
        Some(headers) => {
            // SAFETY: as above.
            let mut segments = unsafe { headers.segments() };
            segments.find(|segment| (segment.start..segment.file_end).contains(&address))?.file_end
        }
        None => object.end,
    };
    let length = end.checked_sub(address)?;
    // SAFETY: the loader has mapped the file's part of this segment readable, and nobody writes there: call
    // frame information is read-only, or relocated before the object's first instruction runs. Up to the object's
    // end there may be holes, which well-formed information does not lead into.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
    Some(EndianSlice::new(bytes, NativeEndian))
}
