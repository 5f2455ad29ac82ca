//! A mapped object, and all files with its names.

use super::{
    debug_files::Places,
    dwarf::{DebugInfo, NamedAddress, NamedCall, UnitAddresses},
    frame_bounds,
    image::Image,
    section, stand_in,
    symbol_table::{self, leading_underscores},
    texts::Texts,
};
use crate::{error::Error, symbolize::demangle::is_mangled};
use object::{Object as _, ObjectSection as _};
use std::{cmp::Ordering, ops::Range, path::Path, sync::Arc, sync::OnceLock};

/// A mapped object. Addresses are the file's.
pub(super) struct ObjectFile {
    image: Arc<Image>,
    /// The executed file is missing, and `image` is its debug file.
    is_debug_file: bool,
    places: Places,
    names: OnceLock<NameFiles>,
}

/// The files with an object's names.
struct NameFiles {
    /// The object, its debug file, and its MiniDebugInfo, if they exist.
    symbols: Vec<Arc<Image>>,
    debug: Option<DebugInfo>,
    texts: Texts,
    notes: Vec<String>,
}

/// Addresses to look up by unit, possibly in several threads.
pub(super) struct Plan {
    /// Sorted, without duplicates.
    pub(super) addresses: Vec<u64>,
    pub(super) units: Vec<UnitAddresses>,
}

/// Result of a lookup.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// The calls, innermost first; empty if unknown. All have names.
    pub(super) calls: Vec<NamedCall>,
    /// The function's code, if known.
    pub(super) range: Option<Range<u64>>,
    /// The name is a stand-in, made of the function's start address.
    pub(super) is_nameless: bool,
}

impl Named {
    pub(super) fn of_code(code: &super::perf_map::Code) -> Self {
        let call = NamedCall { name: Some(code.name.clone()), ..NamedCall::default() };
        Self { calls: vec![call], range: Some(code.range.clone()), is_nameless: false }
    }
}

impl ObjectFile {
    pub(super) fn new(image: Image, is_debug_file: bool, places: Places) -> Self {
        Self { image: Arc::new(image), is_debug_file, places, names: OnceLock::new() }
    }

    /// Returns the file's build ID; empty without one.
    pub(super) fn build_id(&self) -> String {
        self.image.build_id()
    }

    /// Returns the file with instructions; None if there is only a debug file.
    pub(super) fn path(&self) -> Option<&Path> {
        (!self.is_debug_file).then(|| self.image.path())
    }

    /// Returns the file's address `distance` bytes after the start of a mapping of `offset`.
    pub(super) fn address(&self, offset: u64, distance: u64) -> Option<u64> {
        if self.is_debug_file {
            return self.image.only_code_page()?.checked_add(distance);
        }
        self.image.address_of_offset(offset.checked_add(distance)?)
    }

    /// Returns the file offset of moved code
    /// ([`Mapping::is_moved`](crate::profile::Mapping::is_moved)).
    pub(super) fn offset_of_code(&self, distance: u64) -> Option<u64> {
        self.image.offset_of_code(distance).filter(|_| !self.is_debug_file)
    }

    pub(super) fn notes(&self) -> &[String] {
        &self.names().notes
    }

    fn names(&self) -> &NameFiles {
        self.names.get_or_init(|| NameFiles::find(&self.image, self.is_debug_file, &self.places))
    }

    /// Finds the units of `addresses`, which are sorted and unique.
    pub(super) fn plan(&self, addresses: Vec<u64>) -> Plan {
        let debug = self.names().debug.as_ref();
        let units = debug.map_or_else(Vec::new, |debug| debug.units(&addresses));
        Plan { addresses, units }
    }

    /// Looks up the addresses of one unit of a plan.
    pub(super) fn look_up_unit(&self, plan: &Plan, unit: &UnitAddresses) -> Vec<NamedAddress> {
        let addresses: Vec<u64> = unit.places.iter().map(|&place| plan.addresses[place]).collect();
        let names = self.names();
        names.debug.as_ref().map_or_else(Vec::new, |debug| debug.look_up(unit, &names.texts, &addresses))
    }

    /// Returns the addresses where the function or the line can change, according to the debug
    /// information: sorted, without duplicates.
    pub(super) fn boundaries(&self) -> Vec<u64> {
        let mut addresses = self.names().debug.as_ref().map_or_else(Vec::new, DebugInfo::boundaries);
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Combines `units` and symbol tables; unnamed functions get names of `object` and start.
    pub(super) fn finish(&self, plan: &Plan, units: Vec<Vec<NamedAddress>>, object: &str) -> Vec<Named> {
        let mut places: Vec<NamedAddress> = vec![NamedAddress::default(); plan.addresses.len()];
        for (unit, found) in plan.units.iter().zip(units) {
            for (&at, new) in unit.places.iter().zip(found) {
                let known = &mut places[at];
                let begin = |place: &NamedAddress| place.function.as_ref().map(|range| range.start);
                if known.calls.is_empty() || begin(&new) > begin(known) {
                    *known = new;
                }
            }
        }
        let mut symbols = vec![None; plan.addresses.len()];
        for image in &self.names().symbols {
            for (symbol, found) in
                symbols.iter_mut().zip(symbol_table::find(image, &self.names().texts, &plan.addresses))
            {
                *symbol = symbol.take().or(found);
            }
        }
        let mut nameless = Vec::new();
        let mut named = Vec::with_capacity(places.len());
        for ((at, place), symbol) in places.into_iter().enumerate().zip(symbols) {
            let found = name(place, symbol);
            if found.range.is_none() {
                nameless.push(at);
            }
            named.push(found);
        }
        let addresses: Vec<u64> = nameless.iter().map(|&at| plan.addresses[at]).collect();
        for (&at, range) in nameless.iter().zip(frame_bounds::find(&self.image, &addresses)) {
            let Some(range) = range else { continue };
            let named = &mut named[at];
            named.calls.resize_with(1, NamedCall::default);
            named.calls[0].name = Some(stand_in::name(object, range.start).into());
            named.is_nameless = true;
            named.range = Some(range);
        }
        for named in &mut named {
            named.calls.retain(|call| call.name.is_some());
        }
        named
    }

    pub(super) fn function_range(&self, address: u64) -> Option<Range<u64>> {
        let plan = self.plan(vec![address]);
        let units = plan.units.iter().map(|unit| self.look_up_unit(&plan, unit)).collect();
        let named = self.finish(&plan, units, "");
        named.into_iter().next()?.range
    }
}

/// Chooses the name from debug information, or the symbol if debug information has none or no
/// linker name. For C functions with several names it is the public one: `malloc` instead of
/// `__GI___libc_malloc`, which libc's debug information has.
fn name(place: NamedAddress, symbol: Option<symbol_table::Symbol>) -> Named {
    let NamedAddress { mut calls, function } = place;
    let Some(symbol) = symbol else { return Named { calls, range: function, is_nameless: false } };
    if calls.is_empty() {
        calls.push(NamedCall::default());
    }
    if let Some((outermost, inner)) = calls.split_last_mut() {
        // With only line tables, compilers omit linker names; the plain name is `new` or `run`.
        let is_plain = outermost.name.as_deref() == Some(&*symbol.name);
        let is_fuller = !outermost.is_linker_name && (is_mangled(&symbol.name) || is_plain);
        let is_plainer = outermost.name.as_ref().is_some_and(|name| {
            let [ours, theirs] = [&symbol.name, name].map(|name| leading_underscores(name.as_bytes()));
            // With a linker name from the sources, the function also has a plain name.
            let is_one_of_several = outermost.is_linker_name;
            !is_mangled(name)
                && match ours.cmp(&theirs) {
                    Ordering::Less => symbol.is_public || is_one_of_several,
                    Ordering::Equal => symbol.is_public && is_one_of_several,
                    Ordering::Greater => false,
                }
        });
        let is_same = function.as_ref().is_some_and(|range| range.start == symbol.range.start);
        if outermost.name.is_none() || is_same && (is_fuller || is_plainer) {
            let before = outermost.name.replace(symbol.name.clone());
            outermost.is_linker_name = true;
            // Part of the function inlined into the rest of it.
            for call in inner.iter_mut().filter(|call| before.is_some() && call.name == before) {
                call.name = Some(symbol.name.clone());
            }
        }
    }
    Named { calls, range: function.or(Some(symbol.range)), is_nameless: false }
}

impl NameFiles {
    fn find(image: &Arc<Image>, is_debug_file: bool, places: &Places) -> Self {
        let mut notes = Vec::new();
        let mut symbols = vec![image.clone()];
        let mut bytes = image.bytes().len();
        let mut debug = DebugInfo::read(image.clone(), image, places, &mut notes);
        let has_symbols = |image: &Image| image.elf().is_some_and(|elf| elf.symbol_table().is_some());
        if (debug.is_none() || !has_symbols(image)) && !is_debug_file {
            if let Some(separate) = places.debug_file(image).map(Arc::new) {
                debug = debug.or_else(|| DebugInfo::read(separate.clone(), image, places, &mut notes));
                bytes = bytes.saturating_add(separate.bytes().len());
                symbols.push(separate);
            }
        }
        if !symbols.iter().any(|image| has_symbols(image)) {
            match mini_debug_info(image) {
                Ok(mini) => symbols.extend(mini.map(Arc::new)),
                Err(reason) => notes.push(reason),
            }
        }
        let texts = Texts::of_files(bytes);
        Self { symbols, debug, texts, notes }
    }
}

/// Returns the symbol table that Fedora and others keep in stripped files.
fn mini_debug_info(image: &Image) -> Result<Option<Image>, String> {
    let Some(elf) = image.elf() else { return Ok(None) };
    let Some(section) = elf.section_by_name(".gnu_debugdata") else { return Ok(None) };
    let compressed = section.data().map_err(|error| format!(".gnu_debugdata: {error}"))?;
    let bytes = section::mini_debug_info(compressed)?;
    Image::from_bytes(image.path(), bytes)
        .map(Some)
        .map_err(|error: Error| format!(".gnu_debugdata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use symbol_table::Symbol;

    fn named(call: &str, is_linker_name: bool, symbol: &str, start: u64) -> String {
        let call = NamedCall { name: Some(call.into()), is_linker_name, ..NamedCall::default() };
        let place = NamedAddress { calls: vec![call], function: Some(0x10..0x20) };
        let (symbol, is_public) = symbol.strip_prefix("local ").map_or((symbol, true), |name| (name, false));
        let named = name(place, Some(Symbol { name: symbol.into(), range: start..0x20, is_public }));
        named.calls[0].name.as_deref().expect("has one").to_owned()
    }

    #[test]
    fn uses_the_public_name_of_several() {
        assert_eq!(named("__GI___libc_malloc", true, "malloc", 0x10), "malloc");
        assert_eq!(named("__write", false, "write", 0x10), "write");
        assert_eq!(named("__GI___errno_location", true, "__errno_location", 0x10), "__errno_location");
        assert_eq!(named("__GI__IO_file_xsgetn", true, "local _IO_file_xsgetn", 0x10), "_IO_file_xsgetn");
        // Not if it is private and the other the function's own, has more underscores, or as many
        // as the own or another private name, is another function's, or would replace a C++ name.
        assert_eq!(named("__write", false, "local write", 0x10), "__write");
        assert_eq!(named("_one", true, "local _two", 0x10), "_one");
        assert_eq!(named("qsort_r", true, "__qsort_r", 0x10), "qsort_r");
        assert_eq!(named("solve", false, "solve_", 0x10), "solve");
        assert_eq!(named("__inner", true, "outer", 0x8), "__inner");
        assert_eq!(named("_ZN3Job3runEv", true, "run_job", 0x10), "_ZN3Job3runEv");
    }

    /// As in libc's `mmap`: GCC inlines a split-off part into the function's other copy.
    #[test]
    fn function_inlined_into_itself_has_one_name() {
        let call =
            |name: &str| NamedCall { name: Some(name.into()), is_linker_name: true, ..NamedCall::default() };
        let calls = vec![call("__GI___mmap64"), call("other"), call("__GI___mmap64")];
        let symbol = Symbol { name: "mmap".into(), range: 0x10..0x20, is_public: true };
        let named = name(NamedAddress { calls, function: Some(0x10..0x20) }, Some(symbol));
        let names: Vec<&str> = named.calls.iter().filter_map(|call| call.name.as_deref()).collect();
        assert_eq!(names, ["mmap", "other", "mmap"]);
    }

    /// Clang's `-gline-tables-only` writes names without their classes.
    #[test]
    fn uses_a_linker_name_with_more_detail() {
        assert_eq!(named("run", false, "_ZN3Job3runEv", 0x10), "_ZN3Job3runEv");
        // Not if it is a C or another function's, or if debug information also has a linker name.
        assert_eq!(named("run", false, "__run", 0x10), "run");
        assert_eq!(named("run", false, "_ZN3Job5otherEv", 0x8), "run");
        assert_eq!(named("_ZN3Job3runEv", true, "_ZN3Job3runEv.llvm.1", 0x10), "_ZN3Job3runEv");
    }
}
