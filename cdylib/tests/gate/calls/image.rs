//! The library's file as the loader maps it: code, functions, and the values of pointers.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SymbolKind, elf};

/// Bytes of a stub in `.plt`, which has no symbol.
const STUB_BYTES: u64 = 16;

/// A word that the loader sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pointer {
    /// The address of another library's symbol.
    Import(String),
    /// An address in the library itself.
    Own(u64),
}

struct Section {
    addresses: Range<u64>,
    contents: Vec<u8>,
    is_code: bool,
    /// Only the loader writes to it, before any code of the library runs.
    is_final: bool,
}

pub(crate) struct Image {
    sections: Vec<Section>,
    /// End and names, by address; several names if the compiler merged functions.
    functions: BTreeMap<u64, (u64, Vec<String>)>,
    pointers: HashMap<u64, Pointer>,
    exports: Vec<String>,
}

impl Image {
    /// Reads the file `bytes`, which must have its symbol table.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let file = object::File::parse(bytes).expect("an ELF file");
        let sections = file.sections().filter(|section| section.address() != 0).map(|section| Section {
            addresses: section.address()..section.address() + section.size(),
            contents: section.uncompressed_data().expect("a section's contents").into_owned(),
            is_code: section.kind() == object::SectionKind::Text,
            is_final: !matches!(section.name(), Ok(".data" | ".bss")),
        });
        let sections = sections.collect();
        let mut functions = BTreeMap::<u64, (u64, Vec<String>)>::new();
        for symbol in
            file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        {
            let name = plain_name(symbol.name().expect("a name in UTF-8"));
            let function = functions.entry(symbol.address()).or_default();
            function.0 = function.0.max(symbol.address() + symbol.size());
            function.1.push(name);
        }
        assert!(functions.len() > 100, "no symbol table tells where the handlers of this file begin");
        let mut pointers = HashMap::new();
        for (place, relocation) in file.dynamic_relocations().expect("dynamic relocations") {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!("no ELF relocation") };
            let symbol = || {
                let RelocationTarget::Symbol(index) = relocation.target() else {
                    panic!("no symbol: {relocation:?}")
                };
                let table = file.dynamic_symbol_table().expect("dynamic symbols");
                object::ObjectSymbolTable::symbol_by_index(&table, index).expect("a symbol")
            };
            let pointer = match r_type {
                elf::R_X86_64_RELATIVE => Pointer::Own(relocation.addend() as u64),
                elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_64 => match symbol() {
                    symbol if symbol.is_definition() => Pointer::Own(symbol.address()),
                    symbol => Pointer::Import(symbol.name().expect("a name in UTF-8").to_owned()),
                },
                // Offsets of thread-locals, and copied variables: no code.
                elf::R_X86_64_DTPMOD64
                | elf::R_X86_64_DTPOFF64
                | elf::R_X86_64_TPOFF64
                | elf::R_X86_64_COPY => continue,
                other => panic!("relocation of type {other} at {place:#x}"),
            };
            pointers.insert(place, pointer);
        }
        let exported = file
            .dynamic_symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
        let exports = exported.map(|symbol| symbol.name().expect("a name in UTF-8").to_owned()).collect();
        Self { sections, functions, pointers, exports }
    }

    /// The addresses of functions with this name: a generic one has several.
    pub(crate) fn addresses_of(&self, name: &str) -> Vec<u64> {
        let named = self.functions.iter().filter(|(_, (_, names))| names.iter().any(|own| own == name));
        named.map(|(start, _)| *start).collect()
    }

    pub(crate) fn exports(&self) -> &[String] {
        &self.exports
    }

    /// The range of the function at `start`, if there is one.
    pub(crate) fn function_at(&self, start: u64) -> Option<Range<u64>> {
        match self.functions.get(&start) {
            Some((end, _)) => Some(start..*end),
            None => self.is_stub(start).then_some(start..start + STUB_BYTES),
        }
    }

    pub(crate) fn name_at(&self, start: u64) -> &str {
        self.functions.get(&start).map_or("a stub of the linker's", |(_, names)| names[0].as_str())
    }

    /// The loader's final value at `place`; `None` if the library can change it.
    pub(crate) fn pointer_at(&self, place: u64) -> Option<&Pointer> {
        self.sections.iter().find(|section| section.is_final && section.addresses.contains(&place))?;
        self.pointers.get(&place)
    }

    /// The file's bytes at `addresses`, if it has them.
    pub(crate) fn bytes(&self, addresses: Range<u64>) -> Option<&[u8]> {
        let section = self.sections.iter().find(|section| section.addresses.contains(&addresses.start))?;
        let offset = |address: u64| (address - section.addresses.start) as usize;
        section.contents.get(offset(addresses.start)..offset(addresses.end))
    }

    /// True for code without a symbol: a linker's stub that calls another library's function.
    pub(crate) fn is_stub(&self, start: u64) -> bool {
        let inside = self.functions.range(..=start).next_back().is_some_and(|(_, (end, _))| start < *end);
        !inside && self.sections.iter().any(|section| section.is_code && section.addresses.contains(&start))
    }
}

/// A symbol as in the source, without the compiler's hash.
pub(crate) fn plain_name(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}
