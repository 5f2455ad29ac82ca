//! Names for places in the library, from its line tables. These include inlined functions, so a
//! name depends on the source and little on the compiler.

use std::path::Path;

use addr2line::{
    Context,
    gimli::{Dwarf, EndianSlice, LittleEndian, SectionId},
};
use object::{Object, ObjectSection};

use super::image::{Image, plain_name};
use super::reach::Place;

type Reader<'b> = EndianSlice<'b, LittleEndian>;

/// Rust's own libraries, and the allocator that they call.
const OF_RUST: [&str; 4] = ["core/", "alloc/", "std/", "cdylib/src/reserve.rs"];

pub(crate) struct Names<'b> {
    context: Context<Reader<'b>>,
    image: &'b Image,
    root: &'b Path,
}

impl<'b> Names<'b> {
    /// Reads the library with these bytes; paths of sources are relative to `root`.
    pub(crate) fn read(bytes: &'b [u8], image: &'b Image, root: &'b Path) -> Self {
        let file = object::File::parse(bytes).expect("an ELF file");
        let load = |id: SectionId| -> Result<Reader<'b>, addr2line::gimli::Error> {
            let section = file.section_by_name(id.name());
            let data =
                section.map_or(&[][..], |section| section.data().expect("a section that is not compressed"));
            Ok(EndianSlice::new(data, LittleEndian))
        };
        let dwarf = Dwarf::load(load).expect("debugging information");
        Self { context: Context::from_dwarf(dwarf).expect("line tables"), image, root }
    }

    /// The function of the crate, or of a crate that it uses, that has the instruction in its
    /// source: `file: function`. Otherwise the symbol of the function in Rust's libraries.
    pub(crate) fn site(&self, place: Place) -> String {
        let chain = self.chain(place);
        let is_own = |(file, function): &&(String, String)| {
            !function.starts_with('{') && !OF_RUST.iter().any(|rust| file.starts_with(rust))
        };
        match chain.iter().find(is_own) {
            Some((file, function)) => format!("{file}: {function}"),
            None => self.image.name_at(place.function).to_owned(),
        }
    }

    /// A line for each function at `place` in the source, inlined ones too, innermost first.
    pub(crate) fn lines(&self, place: Place) -> Vec<String> {
        self.chain(place).into_iter().map(|(file, function)| format!("{file}: {function}")).collect()
    }

    fn chain(&self, place: Place) -> Vec<(String, String)> {
        let mut frames = self.context.find_frames(place.at).skip_all_loads().expect("line tables");
        let mut chain = Vec::new();
        while let Some(frame) = frames.next().expect("line tables") {
            let Some(file) = frame.location.and_then(|location| location.file) else { continue };
            let Some(function) = frame.function else { continue };
            let name = plain_name(&function.raw_name().expect("a name in UTF-8"));
            chain.push((self.plain_file(file), without_parameters(&name)));
        }
        chain
    }

    /// A source's path without parts that depend on the machine: checkout, registry, version.
    fn plain_file(&self, file: &str) -> String {
        let file = Path::new(file).strip_prefix(self.root).ok().and_then(Path::to_str).unwrap_or(file);
        if let Some((_, rust)) = file.split_once("/library/") {
            return rust.to_owned();
        }
        let Some((_, registry)) = file.split_once("/registry/src/") else { return file.to_owned() };
        let mut parts = registry.splitn(3, '/').skip(1);
        let package = parts.next().and_then(|package| package.rsplit_once('-')).map_or("?", |(name, _)| name);
        format!("{package}/{}", parts.next().unwrap_or_default())
    }
}

fn without_parameters(name: &str) -> String {
    let end = name.char_indices().skip(1).find(|(_, letter)| *letter == '<').map_or(name.len(), |(at, _)| at);
    let name = if name.starts_with('<') { name } else { &name[..end] };
    name.trim_end_matches("::").rsplit("::").next().unwrap_or(name).to_owned()
}
