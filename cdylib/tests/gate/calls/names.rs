//! Names for places in the library, by its line tables: they tell inlined functions too, so that a name depends on the
//! source and little on what a compiler makes of it.

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

/// See the module.
pub(crate) struct Names<'b> {
    context: Context<Reader<'b>>,
    image: &'b Image,
    root: &'b Path,
}

impl<'b> Names<'b> {
    /// Of the library with these bytes; sources below `root` are told without it.
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

    /// The function of ours, or of a library that we use, whose source has the instruction: `file: function`. Where there is
    /// none, the symbol of the function of Rust's libraries.
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

    /// What stands at `place` in the source: a line for each function, innermost first, the inlined ones too.
    pub(crate) fn lines(&self, place: Place) -> Vec<String> {
        self.chain(place).into_iter().map(|(file, function)| format!("{file}: {function}")).collect()
    }

    /// File and function of each frame at `place`, innermost first.
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

    /// A source's path without what depends on the machine: its checkout, the registry's folder, the crate's version.
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

/// A function's name without its path and its types.
fn without_parameters(name: &str) -> String {
    let end = name.char_indices().skip(1).find(|(_, letter)| *letter == '<').map_or(name.len(), |(at, _)| at);
    let name = if name.starts_with('<') { name } else { &name[..end] };
    name.trim_end_matches("::").rsplit("::").next().unwrap_or(name).to_owned()
}
