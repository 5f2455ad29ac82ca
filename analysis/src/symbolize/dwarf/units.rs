//! Selection of the units to read for addresses.

use super::Dwarf;
use gimli::UnitType;
use std::collections::HashSet;

/// A unit, and the addresses to look up in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::symbolize) struct UnitAddresses {
    /// Offset in `.debug_info`.
    pub(in crate::symbolize) offset: usize,
    /// Indices in the list of addresses, sorted.
    pub(in crate::symbolize) places: Vec<usize>,
}

/// Limit of units for an address. A weak function may be in a few units.
const MAX_UNITS: u8 = 8;

/// Pairs of units and addresses.
struct Claims<'a> {
    addresses: &'a [u64],
    counts: Vec<u8>,
    /// Unit offset and address index.
    claims: Vec<(usize, usize)>,
}

impl Claims<'_> {
    fn add(&mut self, unit: usize, begin: u64, end: u64) {
        // Linkers write 0 for dropped code.
        if begin == 0 || begin >= end {
            return;
        }
        let first = self.addresses.partition_point(|&address| address < begin);
        for place in first..self.addresses.len() {
            if self.addresses[place] >= end {
                break;
            }
            if self.counts[place] < MAX_UNITS && self.claims.last() != Some(&(unit, place)) {
                self.counts[place] += 1;
                self.claims.push((unit, place));
            }
        }
    }
}

/// Finds the units of sorted `addresses`: by `.debug_aranges`, or for units not listed there by
/// their own ranges, which takes longer because all abbreviations are read.
pub(super) fn find(dwarf: &Dwarf<'_>, addresses: &[u64]) -> Vec<UnitAddresses> {
    let mut claims = Claims { addresses, counts: vec![0; addresses.len()], claims: Vec::new() };
    let mut listed = HashSet::new();
    let mut headers = dwarf.debug_aranges.headers();
    while let Ok(Some(header)) = headers.next() {
        let unit = header.debug_info_offset().0;
        let mut entries = header.entries();
        loop {
            match entries.next() {
                Ok(Some(entry)) => {
                    if entry.length() != 0 {
                        listed.insert(unit);
                    }
                    claims.add(unit, entry.range().begin, entry.range().end);
                }
                // Address plus length may overflow; only after this error the iterator continues.
                Err(gimli::Error::AddressOverflow) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let is_code = matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_));
        let Some(offset) = header.offset().as_debug_info_offset() else { continue };
        if !is_code || listed.contains(&offset.0) {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Ok(mut ranges) = dwarf.unit_ranges(&unit) else { continue };
        while let Ok(Some(range)) = ranges.next() {
            claims.add(offset.0, range.begin, range.end);
        }
    }
    let mut claims = claims.claims;
    claims.sort_unstable();
    claims.dedup();
    let units = claims.chunk_by(|(one, _), (other, _)| one == other);
    units
        .map(|unit| UnitAddresses {
            offset: unit[0].0,
            places: unit.iter().map(|(_, place)| *place).collect(),
        })
        .collect()
}
