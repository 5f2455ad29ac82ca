//! Names for the PCs of a profile, from the symbol tables of the mapped files.

use std::collections::HashMap;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::profile::{Profile, Record};

/// Room for the few instructions of `_start`, from the entry point.
const START_BYTES: u64 = 64;

/// The end of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// In the entry point of the program or of the dynamic loader.
    Process,
    /// In libc, at this file offset, outside of any entry point.
    LibC(u64),
    /// Anywhere else: the stack is truncated.
    Elsewhere,
}

/// Names PCs; reads each file once.
#[derive(Default)]
pub(crate) struct Symbolizer {
    files: HashMap<String, Option<File>>,
}

struct File {
    entry: u64,
    /// File offset, size and address of each loadable segment.
    segments: Vec<(u64, u64, u64)>,
    /// Address, size and name of each function, by address.
    functions: Vec<(u64, u64, String)>,
}

impl Symbolizer {
    /// The names of a stack's functions, innermost first; without a symbol the file's name.
    pub(crate) fn names(&mut self, profile: &Profile, record: &Record) -> Vec<String> {
        let pcs = record.pcs.iter().enumerate();
        // A return address may already belong to the next function; the call before it does not.
        pcs.map(|(depth, pc)| self.name(profile, pc - usize::from(depth > 0))).collect()
    }

    /// Whether the functions of `chain`, innermost first, follow each other directly in the record.
    pub(crate) fn calls(&mut self, profile: &Profile, record: &Record, chain: &[&str]) -> bool {
        let names = self.names(profile, record);
        names
            .windows(chain.len())
            .any(|names| names.iter().zip(chain).all(|(name, part)| name.contains(part)))
    }

    pub(crate) fn root(&mut self, profile: &Profile, record: &Record) -> Root {
        let pc = *record.pcs.last().expect("a record has at least one PC");
        // An entry point has no caller: a walk that repeats it has missed its end.
        if record.pcs.iter().filter(|other| **other == pc).count() > 1 {
            return Root::Elsewhere;
        }
        let Some((path, offset)) = file_position(profile, pc) else { return Root::Elsewhere };
        let Some(file) = self.file(&path) else { return Root::Elsewhere };
        let in_start =
            file.address(offset).is_some_and(|at| (file.entry..file.entry + START_BYTES).contains(&at));
        match (in_start, path.contains("/libc.so")) {
            (true, false) => Root::Process,
            (_, true) => Root::LibC(offset),
            (false, false) => Root::Elsewhere,
        }
    }

    fn name(&mut self, profile: &Profile, pc: usize) -> String {
        let Some((path, offset)) = file_position(profile, pc) else { return format!("{pc:#x}") };
        let function = self.file(&path).and_then(|file| file.function(file.address(offset)?));
        function.map_or_else(|| path.clone(), str::to_owned)
    }

    fn file(&mut self, path: &str) -> Option<&File> {
        self.files.entry(path.to_owned()).or_insert_with(|| File::read(path)).as_ref()
    }
}

impl File {
    fn read(path: &str) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let object = object::File::parse(bytes.as_slice()).ok()?;
        let segment = |segment: object::Segment<'_, '_>| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        };
        let symbols = object.symbols().chain(object.dynamic_symbols());
        let mut functions: Vec<_> = symbols
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
            .collect();
        functions.sort();
        Some(Self { entry: object.entry(), segments: object.segments().map(segment).collect(), functions })
    }

    /// Converts a position in the file to an address, as in the file's own tables.
    fn address(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|(start, size, _)| (*start..start + size).contains(&offset));
        segment.map(|(start, _, address)| offset - start + address)
    }

    fn function(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _, _)| *start <= address);
        let (start, size, name) = self.functions[..after].last()?;
        (address < start + size).then_some(name)
    }
}

/// The file that contains `pc`, and the offset in it.
fn file_position(profile: &Profile, pc: usize) -> Option<(String, u64)> {
    let mapping = profile.mapping_of(pc)?;
    Some((mapping.path.clone(), (pc - mapping.start + mapping.file_offset) as u64))
}
