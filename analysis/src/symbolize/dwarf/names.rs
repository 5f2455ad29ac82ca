//! Names of functions, which may be in another entry, unit or file.

use super::{Dwarf, NamedCall, Slice};
use crate::symbolize::texts::Texts;
use gimli::{
    AttributeValue, DebugAbbrevOffset, DebugInfoOffset, Reader as _, Section as _, Unit, UnitOffset,
};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

/// Limit of references to follow. Two are usual: from call to definition, and to declaration.
const MAX_STEPS: usize = 16;
/// Limit of units kept open for references.
const MAX_UNITS: usize = 1024;
/// Approximate size of a file table entry in the file: a name and a directory index.
const FILE_ENTRY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Which {
    Main,
    Common,
}

/// The next entry to follow.
enum Next<'data> {
    Same(UnitOffset),
    Other(Which, Arc<Unit<Slice<'data>>>, UnitOffset),
}

pub(super) struct Names<'a, 'data> {
    dwarf: &'a Dwarf<'data>,
    texts: &'a Texts,
    starts: [Option<&'a OnceLock<Vec<u64>>>; 2],
    units: HashMap<(Which, u64), OpenUnit<'data>>,
    /// Size of the data that `units` were decoded from, in bytes.
    open_bytes: usize,
    known: HashMap<usize, NamedCall>,
    /// Declarations without a linker name, until their scopes are found.
    unscoped: Vec<Unscoped>,
}

/// None for a unit that cannot be opened, or need not be.
type OpenUnit<'data> = Option<Arc<Unit<Slice<'data>>>>;

/// A function with an unknown scope.
pub(super) struct Unscoped {
    /// Key in `known`.
    known: usize,
    /// File and unit of the declaration, which is reopened later; None for the same unit.
    pub(super) other: Option<(Which, DebugInfoOffset)>,
    pub(super) entry: UnitOffset,
}

/// The last entry that was followed to.
struct EntryPosition<'data> {
    /// None for the unit of `Names`.
    other: Option<(Which, Arc<Unit<Slice<'data>>>)>,
    entry: UnitOffset,
    is_external: bool,
}

impl<'a, 'data> Names<'a, 'data> {
    /// Creates a cache for one unit. With unit lists, references to other units are followed.
    pub(super) fn new(
        dwarf: &'a Dwarf<'data>,
        texts: &'a Texts,
        main: Option<&'a OnceLock<Vec<u64>>>,
        common: Option<&'a OnceLock<Vec<u64>>>,
    ) -> Self {
        Self {
            dwarf,
            texts,
            starts: [main, common],
            units: HashMap::new(),
            open_bytes: 0,
            known: HashMap::new(),
            unscoped: Vec::new(),
        }
    }

    /// Returns the name and first line of the function of an entry; `unit` must always be the same.
    pub(super) fn call(&mut self, unit: &Unit<Slice<'data>>, entry: UnitOffset) -> NamedCall {
        if let Some(known) = self.known.get(&entry.0) {
            return known.clone();
        }
        let mut call = NamedCall::default();
        let mut last = EntryPosition { other: None, entry, is_external: false };
        // Results before an error are kept.
        let _ = self.follow(unit, &mut last, &mut call);
        // A scoped external function has a linker name, except `extern "C"` and Rust's `no_mangle`.
        if call.name.is_some() && !call.is_linker_name && !last.is_external {
            let start = |unit: &Unit<Slice<'data>>| unit.header.offset().as_debug_info_offset();
            let other = last.other.map(|(which, unit)| start(&unit).map(|start| (which, start)));
            // Declarations in a type unit do not refer to other units.
            if other != Some(None) {
                self.unscoped.push(Unscoped { known: entry.0, other: other.flatten(), entry: last.entry });
            }
        }
        self.known.insert(entry.0, call.clone());
        call
    }

    /// Takes the functions without a linker name that were requested, by declaring unit.
    pub(super) fn take_unscoped(&mut self) -> Vec<Unscoped> {
        let mut unscoped = std::mem::take(&mut self.unscoped);
        unscoped.sort_by_key(|one| (one.other, one.entry.0));
        unscoped
    }

    /// Returns the declaring unit of such a function, or None for the same unit, and its cache.
    pub(super) fn declaring(&mut self, one: &Unscoped) -> Option<(OpenUnit<'data>, Names<'a, 'data>)> {
        let Some((which, start)) = one.other else {
            return Some((None, Names::new(self.dwarf, self.texts, None, None)));
        };
        let entry = DebugInfoOffset(start.0.saturating_add(one.entry.0));
        let Some(Next::Other(_, unit, _)) = self.enter(which, entry) else { return None };
        Some((Some(unit), Names::new(self.file(which)?, self.texts, None, None)))
    }

    pub(super) fn name(&self, one: &Unscoped) -> Option<&str> {
        self.known.get(&one.known)?.name.as_deref()
    }

    pub(super) fn set_scope(&mut self, one: &Unscoped, scope: Option<Arc<str>>) {
        if let Some(call) = self.known.get_mut(&one.known) {
            call.scope = scope;
        }
    }

    pub(super) fn text(
        &self,
        unit: &Unit<Slice<'data>>,
        value: AttributeValue<Slice<'data>>,
    ) -> Option<Arc<str>> {
        let text = self.dwarf.attr_string(unit, value).ok()?;
        Some(self.texts.get(&text.to_slice().ok()?))
    }

    fn file(&self, which: Which) -> Option<&'a Dwarf<'data>> {
        match which {
            Which::Main => Some(self.dwarf),
            Which::Common => self.dwarf.sup(),
        }
    }

    pub(super) fn texts(&self) -> &'a Texts {
        self.texts
    }

    fn follow(
        &mut self,
        unit: &Unit<Slice<'data>>,
        last: &mut EntryPosition<'data>,
        call: &mut NamedCall,
    ) -> gimli::Result<()> {
        for _ in 0..MAX_STEPS {
            let (which, other) =
                last.other.as_ref().map_or((Which::Main, None), |(which, unit)| (*which, Some(unit.clone())));
            let is_external = &mut last.is_external;
            let next = self.read(which, other.as_deref().unwrap_or(unit), last.entry, call, is_external)?;
            match next {
                None => break,
                Some(Next::Same(offset)) => last.entry = offset,
                Some(Next::Other(to, unit, offset)) => (last.other, last.entry) = (Some((to, unit)), offset),
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        which: Which,
        unit: &Unit<Slice<'data>>,
        entry: UnitOffset,
        call: &mut NamedCall,
        is_external: &mut bool,
    ) -> gimli::Result<Option<Next<'data>>> {
        let dwarf = self.file(which).ok_or(gimli::Error::ExpectedStringAttributeValue)?;
        let entry = unit.entry(entry)?;
        let mut attributes = entry.attrs();
        let mut next = None;
        while let Some(attribute) = attributes.next()? {
            let text = || {
                let text = dwarf.attr_string(unit, attribute.value()).ok()?;
                let text = text.to_slice().ok()?;
                (!text.is_empty()).then(|| self.texts.get(&text))
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
                gimli::DW_AT_external => *is_external = true,
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

    /// Returns the unit with the entry at `offset` of `.debug_info`.
    fn enter(&mut self, which: Which, offset: DebugInfoOffset) -> Option<Next<'data>> {
        let dwarf = self.file(which)?;
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
        // Bounds memory: units that share one huge abbreviation or file table are not kept.
        let most_bytes = dwarf.debug_abbrev.reader().len() + dwarf.debug_line.reader().len();
        if self.units.len() >= MAX_UNITS || self.open_bytes > most_bytes {
            self.units.clear();
            self.open_bytes = 0;
        }
        let open_bytes = &mut self.open_bytes;
        let unit = self.units.entry((which, start)).or_insert_with(|| {
            let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start as usize)).ok()?;
            *open_bytes += bytes_of_abbreviations(dwarf, header.debug_abbrev_offset());
            let unit = dwarf.unit(header).ok()?;
            if let Some(program) = &unit.line_program {
                let header = program.header();
                *open_bytes += FILE_ENTRY * (header.file_names().len() + header.include_directories().len());
            }
            Some(Arc::new(unit))
        });
        let unit = unit.clone()?;
        let offset = offset.to_unit_offset(&unit.header)?;
        Some(Next::Other(which, unit, offset))
    }
}

/// Returns the length of the abbreviation table at `offset` (DWARF 5, 7.5.3).
fn bytes_of_abbreviations(dwarf: &Dwarf<'_>, offset: DebugAbbrevOffset) -> usize {
    let mut table = *dwarf.debug_abbrev.reader();
    if table.skip(offset.0).is_err() {
        return 0;
    }
    let whole = table.len();
    let mut pass_over = || -> gimli::Result<()> {
        // Code, tag, has-children flag; pairs of attribute and form, terminated by zeros.
        while table.read_uleb128()? != 0 {
            table.skip_leb128()?;
            table.skip(1)?;
            loop {
                let (attribute, form) = (table.read_uleb128()?, table.read_uleb128()?);
                if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                    table.skip_leb128()?;
                }
                if (attribute, form) == (0, 0) {
                    break;
                }
            }
        }
        Ok(())
    };
    // Damage is reported when the unit is read.
    let _ = pass_over();
    whole - table.len()
}
