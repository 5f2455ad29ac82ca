//! Functions, lines and inlined calls from DWARF 2 to 5.
//!
//! `gimli` decodes; what is here walks. All addresses of an object are looked up together, and nothing is kept of what is
//! not theirs: one pass over the ranges of the units tells which units to read, and one pass over each of these gives its
//! functions, inlined calls and lines. So memory is bounded by the number of addresses, whatever the file holds, units can be
//! read by several threads, and no depth of nesting can exhaust a stack. See "Names and debug information" in docs/decisions.md for what was
//! measured.

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
use std::{ops::Range, sync::Arc, sync::OnceLock};

type Slice<'data> = EndianSlice<'data, RunTimeEndian>;
type Dwarf<'data> = gimli::Dwarf<Slice<'data>>;

/// A function, and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedCall {
    /// The function's name, as the linker has it where that is known.
    pub(super) name: Option<Arc<str>>,
    /// `name` is the linker's.
    pub(super) is_linker_name: bool,
    /// What it stands in, as `outer::Class`, where that is no part of `name`.
    pub(super) scope: Option<Arc<str>>,
    /// The source file of the place; empty where it is not known.
    pub(super) file: Arc<str>,
    /// The line there; 0 where it is not known.
    pub(super) line: u64,
    /// The column; 0 where it is not known.
    pub(super) column: u64,
    /// The line of the function's declaration; 0 where it is not known.
    pub(super) start_line: u64,
}

/// What is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedAddress {
    /// The calls, innermost first; all but the last are inlined. One without a name where there are lines and no functions.
    pub(super) calls: Vec<NamedCall>,
    /// The piece of the outermost function that the address is in; None where there is not a function.
    pub(super) function: Option<Range<u64>>,
}

/// The debug information of an object.
pub(super) struct DebugInfo {
    main: Sections,
    common: Option<Sections>,
    split: SplitFiles,
    /// Where the units begin in `.debug_info`, for references from one to another.
    main_units: OnceLock<Vec<u64>>,
    common_units: OnceLock<Vec<u64>>,
}

impl DebugInfo {
    /// That of `image`, which is `program` or its debug file; None if it has none. Adds to `notes` what is damaged or missing.
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

    /// Which units to read for `addresses`, which are sorted, and which of these for each.
    pub(super) fn units(&self, addresses: &[u64]) -> Vec<UnitAddresses> {
        units::find(&self.dwarf(), addresses)
    }

    /// Looks up `addresses`, which are sorted, in one unit. Gives nothing for those that the unit has nothing of, and for those
    /// behind damage. Names and paths are of `texts`.
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

/// The calls at each address, without the line of the innermost.
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
        // Each call but the innermost is where the one inside it was inlined.
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
