//! Functions, lines and inlined calls from DWARF 2 to 5, decoded by `gimli`.
//!
//! All addresses of an object are looked up together. One pass over the ranges of the units selects
//! the units to read; one pass over each of these finds functions, inlined calls and lines. So
//! memory is bounded by the number of addresses, several threads can read units, and nested entries
//! cannot exhaust a stack. Measurements: "Names and debug information" in docs/decisions.md.

mod functions;
mod lines;
mod names;
mod scopes;
mod sections;
mod split;
mod units;

use names::Names;
pub(super) use sections::Sections;
use split::SplitFiles;
pub(super) use units::UnitAddresses;

use super::{debug_files::Places, image::Image, texts::Texts};
use gimli::{EndianSlice, RunTimeEndian, UnitRef};
use std::{
    collections::HashSet,
    ops::Range,
    sync::{Arc, OnceLock},
};

type Slice<'data> = EndianSlice<'data, RunTimeEndian>;
type Dwarf<'data> = gimli::Dwarf<Slice<'data>>;

/// A function, and a position in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedCall {
    /// The function's name; the linker name if known.
    pub(super) name: Option<Arc<str>>,
    pub(super) is_linker_name: bool,
    /// Its namespaces and classes, such as `outer::Class`, unless `name` contains them.
    pub(super) scope: Option<Arc<str>>,
    /// The source file; empty if unknown.
    pub(super) file: Arc<str>,
    /// The line; 0 if unknown.
    pub(super) line: u64,
    /// The column; 0 if unknown.
    pub(super) column: u64,
    /// The line of the function's declaration; 0 if unknown.
    pub(super) start_line: u64,
}

/// Result of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedAddress {
    /// The calls, innermost first; all but the last are inlined. One without a name has a line.
    pub(super) calls: Vec<NamedCall>,
    /// The contiguous part of the outermost function that contains the address; None if unknown.
    pub(super) function: Option<Range<u64>>,
}

pub(super) struct DebugInfo {
    main: Sections,
    common: Option<Sections>,
    split: SplitFiles,
    // Offsets of the units in `.debug_info`, for references between units.
    main_units: OnceLock<Vec<u64>>,
    common_units: OnceLock<Vec<u64>>,
}

impl DebugInfo {
    /// Reads `image`, which is `program` or its debug file; None if it has no debug information.
    pub(super) fn read(
        image: Arc<Image>,
        program: &Image,
        places: &Places,
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let main = Sections::read(image, false, notes)?;
        let split = SplitFiles::new(places.split_places(main.image(), program));
        let common = if main.has_common_file() {
            let common = places.common_file(main.image());
            if common.is_none() {
                notes.push("the supplementary file of dwz is missing; some functions have no names".into());
            }
            common.and_then(|image| Sections::read(Arc::new(image), false, notes))
        } else {
            None
        };
        Some(Self { main, common, split, main_units: OnceLock::new(), common_units: OnceLock::new() })
    }

    fn dwarf(&self) -> Dwarf<'_> {
        let mut dwarf = self.main.dwarf();
        if let Some(common) = &self.common {
            dwarf.set_sup(common.dwarf());
        }
        dwarf
    }

    /// Returns the units to read for sorted `addresses`, and the addresses of each.
    pub(super) fn units(&self, addresses: &[u64]) -> Vec<UnitAddresses> {
        units::find(&self.dwarf(), addresses)
    }

    /// Returns the addresses of all rows of line tables, and the bounds of all functions and inlined
    /// calls. Bounds in split files are missing.
    pub(super) fn boundaries(&self) -> Vec<u64> {
        let dwarf = self.dwarf();
        let mut boundaries = Vec::new();
        // Units can share a line table.
        let mut tables = HashSet::new();
        let mut budget = functions::MAX_RANGES;
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let unit = UnitRef::new(&dwarf, &unit);
            if unit.line_program.as_ref().is_some_and(|program| tables.insert(program.header().offset().0)) {
                lines::add_rows(unit, &mut boundaries);
            }
            functions::add_bounds(unit, &mut budget, &mut boundaries);
        }
        boundaries
    }

    /// Looks up sorted `addresses` in one unit. The result is empty for addresses that the unit
    /// does not contain, or after an error. Names and paths are stored in `texts`.
    pub(super) fn look_up(
        &self,
        unit: &UnitAddresses,
        texts: &Texts,
        addresses: &[u64],
    ) -> Vec<NamedAddress> {
        let nothing = || vec![NamedAddress::default(); addresses.len()];
        let dwarf = self.dwarf();
        let offset = gimli::DebugInfoOffset(unit.offset);
        let Ok(skeleton) = dwarf.debug_info.header_from_offset(offset).and_then(|header| dwarf.unit(header))
        else {
            return nothing();
        };
        let skeleton_ref = UnitRef::new(&dwarf, &skeleton);
        let mut lines = lines::Lines::new(skeleton_ref, texts);
        let rows = lines.find(addresses);
        let found = self.split.with_unit(skeleton_ref, |dwo, unit| {
            let mut names = Names::new(dwo, texts, None, None);
            functions_of(UnitRef::new(dwo, unit), &mut names, &mut lines, addresses)
        });
        let mut places = found.unwrap_or_else(|| {
            let mut names = Names::new(&dwarf, texts, Some(&self.main_units), Some(&self.common_units));
            functions_of(skeleton_ref, &mut names, &mut lines, addresses)
        });
        for (place, row) in places.iter_mut().zip(&rows) {
            let Some(row) = row else { continue };
            if place.calls.is_empty() {
                place.calls.push(NamedCall::default());
            }
            let innermost = &mut place.calls[0];
            (innermost.file, innermost.line, innermost.column) = (lines.file(row.file), row.line, row.column);
        }
        places
    }
}

/// Returns the calls at each address, without the line of the innermost.
fn functions_of<'data>(
    unit: UnitRef<'_, Slice<'data>>,
    names: &mut Names<'_, 'data>,
    lines: &mut lines::Lines<'_, '_>,
    addresses: &[u64],
) -> Vec<NamedAddress> {
    let chains = functions::find(unit, addresses);
    for chain in chains.iter().flatten() {
        names.call(unit.unit, chain.function);
        chain.inlined.iter().for_each(|inlined| drop(names.call(unit.unit, inlined.entry)));
    }
    scopes::find(names, unit.unit);
    let mut place = |chain: functions::Chain| {
        // The position of each call except the innermost is the call site of the next inner one.
        let mut calls = Vec::with_capacity(chain.inlined.len() + 1);
        let mut entry = chain.function;
        for inlined in &chain.inlined {
            let mut call = names.call(unit.unit, entry);
            call.file = lines.file(inlined.call_file);
            (call.line, call.column) = (inlined.call_line, inlined.call_column);
            calls.push(call);
            entry = inlined.entry;
        }
        calls.push(names.call(unit.unit, entry));
        calls.reverse();
        NamedAddress { calls, function: Some(chain.range) }
    };
    chains.into_iter().map(|chain| chain.map_or_else(NamedAddress::default, &mut place)).collect()
}
