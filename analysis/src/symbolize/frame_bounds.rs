//! Where functions without a name begin and end, from `.eh_frame`, which stripped files have, too.

use super::image::Image;
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, RunTimeEndian, UnwindSection as _};
use object::{Object as _, ObjectSection as _};
use std::ops::Range;

/// The functions around `addresses`, which are sorted.
pub(super) fn find(image: &Image, addresses: &[u64]) -> Vec<Option<Range<u64>>> {
    let mut found = vec![None; addresses.len()];
    if !addresses.is_empty() {
        let _ = fill(image, addresses, &mut found);
    }
    found
}

/// Stops where nothing more can be read.
fn fill(image: &Image, addresses: &[u64], found: &mut [Option<Range<u64>>]) -> Option<()> {
    let elf = image.elf()?;
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let address_size = if elf.is_64() { 8 } else { 4 };
    let section = elf.section_by_name(".eh_frame")?;
    let mut frames = EhFrame::from(EndianSlice::new(section.data().ok()?, endian));
    frames.set_address_size(address_size);
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(header) = elf.section_by_name(".eh_frame_hdr") {
        bases = bases.set_eh_frame_hdr(header.address());
        let header = EhFrameHdr::from(EndianSlice::new(header.data().ok()?, endian));
        if let Some(table) =
            header.parse(&bases, address_size).ok().as_ref().and_then(|header| header.table())
        {
            for (&address, found) in addresses.iter().zip(found) {
                let frame = table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset);
                *found = frame.ok().map(|frame| frame.initial_address()..frame.end_address());
            }
            return Some(());
        }
    }
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(frame) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let range = frame.initial_address()..frame.end_address();
        let first = addresses.partition_point(|&address| address < range.start);
        for (_, found) in
            addresses[first..].iter().zip(&mut found[first..]).take_while(|(at, _)| **at < range.end)
        {
            *found = Some(range.clone());
        }
    }
    Some(())
}
