//! Bounds of functions without a symbol, from `.eh_frame`, which stripped files keep.

use super::image::Image;
use gimli::{BaseAddresses, EhFrame, EndianSlice, Reader as _, RunTimeEndian, UnwindSection as _};
use object::{Object as _, ObjectSection as _};
use std::ops::Range;

type FrameSection<'data> = EhFrame<EndianSlice<'data, RunTimeEndian>>;

/// Finds the functions of sorted `addresses`.
pub(super) fn find(image: &Image, addresses: &[u64]) -> Vec<Option<Range<u64>>> {
    let found = if addresses.is_empty() { None } else { find_in_section(image, addresses) };
    found.unwrap_or_else(|| vec![None; addresses.len()])
}

fn find_in_section(image: &Image, addresses: &[u64]) -> Option<Vec<Option<Range<u64>>>> {
    let elf = image.elf()?;
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = elf.section_by_name(".eh_frame")?;
    let mut frames = EhFrame::from(EndianSlice::new(section.data().ok()?, endian));
    frames.set_address_size(if elf.is_64() { 8 } else { 4 });
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(header) = elf.section_by_name(".eh_frame_hdr") {
        bases = bases.set_eh_frame_hdr(header.address());
        if let Some(table) = SearchTable::new(header.data().ok()?, header.address(), endian) {
            let find = |&address: &u64| {
                let offset = table.frame(address)?.checked_sub(section.address())?;
                let offset = usize::try_from(offset).ok()?;
                let frame = frames.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
                let range = frame.initial_address()..frame.end_address();
                range.contains(&address).then_some(range)
            };
            return Some(addresses.iter().map(find).collect());
        }
    }
    Some(find_by_walk(&frames, &bases, addresses))
}

/// Reads all entries of the section, for files without a search table.
fn find_by_walk(
    frames: &FrameSection<'_>,
    bases: &BaseAddresses,
    addresses: &[u64],
) -> Vec<Option<Range<u64>>> {
    let mut found = vec![None; addresses.len()];
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(frame) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let range = frame.initial_address()..frame.end_address();
        let first = addresses.partition_point(|&address| address < range.start);
        let places = addresses[first..].iter().zip(&mut found[first..]);
        for (_, found) in places.take_while(|(address, _)| **address < range.end) {
            *found = Some(range.clone());
        }
    }
    found
}

const ENTRY: usize = 8;

/// The search table in `.eh_frame_hdr`, as all linkers write it (LSB, "Exception Frame Header"):
///
/// ```text
/// 0      version, 1
/// 1      encoding of the section's address, 0x1b
/// 2      encoding of the count, 0x03: 4 bytes
/// 3      encoding of the table, 0x3b: 4 bytes with a sign, relative to byte 0
/// 4      the section's address
/// 8      the count
/// 12     start of a function, and its entry in .eh_frame; sorted
/// ```
///
/// Gimli's lookup panics on some damaged tables, in builds with overflow checks.
struct SearchTable<'data> {
    entries: &'data [u8],
    address: u64,
    endian: RunTimeEndian,
}

impl<'data> SearchTable<'data> {
    fn new(header: &'data [u8], address: u64, endian: RunTimeEndian) -> Option<Self> {
        let (head, table) = header.split_at_checked(12)?;
        if head[..4] != [1, 0x1b, 0x03, 0x3b] {
            return None;
        }
        let count = EndianSlice::new(&head[8..], endian).read_u32().ok()?;
        let entries = table.get(..(count as usize).checked_mul(ENTRY)?)?;
        Some(Self { entries, address, endian })
    }

    /// Returns the address of the entry of the last function that begins at or before `address`.
    fn frame(&self, address: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.entries.len() / ENTRY);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.number(middle * ENTRY)? <= address { low = middle + 1 } else { high = middle }
        }
        self.number(low.checked_sub(1)? * ENTRY + 4)
    }

    fn number(&self, offset: usize) -> Option<u64> {
        let distance = EndianSlice::new(self.entries.get(offset..)?, self.endian).read_i32().ok()?;
        Some(self.address.wrapping_add_signed(distance.into()))
    }
}
