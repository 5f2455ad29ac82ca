//! The names of functions, which may stand in another entry, another unit, or another file.

use super::{Call, Dwarf, Slice};
use crate::symbolize::demangle::printable;
use gimli::{AttributeValue, DebugInfoOffset, Reader as _, Unit, UnitOffset};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// Steps from an entry to the one that it stands for. Two are usual: from the call to the definition, and on to the declaration.
const MOST_STEPS: usize = 16;
/// Units that are kept open for references into them.
const MOST_UNITS: usize = 1024;

/// Which file an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    Main,
    Common,
}

/// Where to go on.
enum Next<'data> {
    Same(UnitOffset),
    Other(Which, Arc<Unit<Slice<'data>>>, UnitOffset),
}

/// Finds names, and keeps them.
pub(super) struct Names<'a, 'data> {
    dwarf: &'a Dwarf<'data>,
    starts: [Option<&'a OnceLock<Vec<u64>>>; 2],
    units: HashMap<(Which, u64), Option<Arc<Unit<Slice<'data>>>>>,
    known: HashMap<usize, Call>,
}

impl<'a, 'data> Names<'a, 'data> {
    /// Those of one unit. References to other units are followed where there is a place for the list of these.
    pub(super) fn new(
        dwarf: &'a Dwarf<'data>,
        main: Option<&'a OnceLock<Vec<u64>>>,
        common: Option<&'a OnceLock<Vec<u64>>>,
    ) -> Self {
        Self { dwarf, starts: [main, common], units: HashMap::new(), known: HashMap::new() }
    }

    /// A call of the function that an entry of the unit, always the same one, stands for: its name and its first line.
    pub(super) fn call(&mut self, unit: &Unit<Slice<'data>>, entry: UnitOffset) -> Call {
        if let Some(known) = self.known.get(&entry.0) {
            return known.clone();
        }
        let mut call = Call::default();
        // What was found before an error stays.
        let _ = self.follow(unit, entry, &mut call);
        self.known.insert(entry.0, call.clone());
        call
    }

    fn follow(&mut self, unit: &Unit<Slice<'data>>, entry: UnitOffset, call: &mut Call) -> gimli::Result<()> {
        let (mut which, mut other, mut entry) = (Which::Main, None::<Arc<Unit<Slice<'data>>>>, entry);
        for _ in 0..MOST_STEPS {
            let next = self.read(which, other.as_deref().unwrap_or(unit), entry, call)?;
            match next {
                None => break,
                Some(Next::Same(offset)) => entry = offset,
                Some(Next::Other(to, unit, offset)) => (which, other, entry) = (to, Some(unit), offset),
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        which: Which,
        unit: &Unit<Slice<'data>>,
        entry: UnitOffset,
        call: &mut Call,
    ) -> gimli::Result<Option<Next<'data>>> {
        let dwarf = match which {
            Which::Main => self.dwarf,
            Which::Common => self.dwarf.sup().ok_or(gimli::Error::ExpectedStringAttributeValue)?,
        };
        let entry = unit.entry(entry)?;
        let mut attributes = entry.attrs();
        let mut next = None;
        while let Some(attribute) = attributes.next()? {
            let text = || {
                let text = dwarf.attr_string(unit, attribute.value()).ok()?;
                let text = text.to_slice().ok()?;
                (!text.is_empty()).then(|| Arc::<str>::from(printable(&text)))
            };
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name if !call.is_linker_name => {
                    if let Some(name) = text() {
                        (call.name, call.is_linker_name) = (Some(name), true);
                    }
                }
                gimli::DW_AT_name if call.name.is_none() => call.name = text(),
                gimli::DW_AT_decl_line if call.start_line == 0 => {
                    call.start_line = attribute.value().udata_value().unwrap_or(0);
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = Some(attribute.value()),
                _ => {}
            }
        }
        if call.is_linker_name && call.start_line != 0 {
            return Ok(None);
        }
        Ok(next.and_then(|next| match next {
            AttributeValue::UnitRef(offset) => Some(Next::Same(offset)),
            AttributeValue::DebugInfoRef(offset) => self.enter(which, offset),
            AttributeValue::DebugInfoRefSup(offset) => self.enter(Which::Common, offset),
            _ => None,
        }))
    }

    /// The unit that has the entry at `offset` of `.debug_info`.
    fn enter(&mut self, which: Which, offset: DebugInfoOffset) -> Option<Next<'data>> {
        let dwarf = match which {
            Which::Main => self.dwarf,
            Which::Common => self.dwarf.sup()?,
        };
        let starts = self.starts[which as usize]?.get_or_init(|| {
            let mut starts = Vec::new();
            let mut headers = dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                starts.extend(header.offset().as_debug_info_offset().map(|offset| offset.0 as u64));
            }
            starts
        });
        let at = starts.partition_point(|&start| start <= offset.0 as u64);
        let start = *starts.get(at.checked_sub(1)?)?;
        if self.units.len() >= MOST_UNITS {
            self.units.clear();
        }
        let unit = self.units.entry((which, start)).or_insert_with(|| {
            let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start as usize)).ok()?;
            dwarf.unit(header).ok().map(Arc::new)
        });
        let unit = unit.clone()?;
        let offset = offset.to_unit_offset(&unit.header)?;
        Some(Next::Other(which, unit, offset))
    }
}
