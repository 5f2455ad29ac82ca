//! Names for addresses, from the ELF files that were mapped there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use gimli::UnwindSection;
use object::elf::{PF_X, SHF_EXECINSTR};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};
use object::{ReadCache, SectionFlags, SegmentFlags, SymbolKind};
use sigprof::format::Mapping;

/// The mapped objects met so far, by path and build id; `None` for those that cannot be read.
#[derive(Default)]
pub(crate) struct Objects {
    known: HashMap<(Vec<u8>, Vec<u8>), Option<Object>>,
}

impl Objects {
    /// What to call the function that has `address`, an address of the process, in it.
    pub(crate) fn label(&mut self, mappings: &[Mapping<'_>], address: u64) -> String {
        let Some(mapping) = mappings.iter().find(|mapping| mapping.contains(address)) else {
            return "[unmapped]".into();
        };
        let key = (mapping.path.to_vec(), mapping.build_id.to_vec());
        let object = self.known.entry(key).or_insert_with(|| Object::open(mapping));
        let name = object_name(&mapping.path);
        let offset = (address - mapping.start).saturating_add(mapping.offset);
        let label = object.as_ref().and_then(|object| object.label(&name, offset));
        printable(&label.unwrap_or_else(|| format!("[{name}]")))
    }
}

/// The last part of a path, without the kernel's decoration: `a.so` for `/lib/a.so (deleted)`.
fn object_name(path: &[u8]) -> String {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let name = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]")).unwrap_or(name);
    if name.is_empty() { "anonymous".into() } else { String::from_utf8_lossy(name).into_owned() }
}

/// Keeps a name from being more than text to the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

type Elf<'data> = object::File<'data, &'data ReadCache<File>>;

/// The code of an ELF file. Addresses are those that the file gives itself.
struct Object {
    /// The executable segments: the bytes of the file, and the address of the first.
    segments: Vec<(Range<u64>, u64)>,
    /// Sorted by start.
    symbols: Vec<Symbol>,
    /// Functions that `.eh_frame` describes, with or without a name, sorted.
    frames: Vec<(u64, u64)>,
}

impl Object {
    fn open(mapping: &Mapping<'_>) -> Option<Self> {
        let path = PathBuf::from(OsString::from_vec(mapping.path.to_vec()));
        let cache = open_cached(&path)?;
        let elf = Elf::parse(&cache).ok()?;
        let build_id = elf.build_id().ok().flatten();
        let is_other_build = !mapping.build_id.is_empty()
            && build_id.is_some_and(|id| !mapping.build_id.eq_ignore_ascii_case(hex(id).as_bytes()));
        if is_other_build {
            return None;
        }
        let mut symbols = Vec::new();
        collect_symbols(&elf, &mut symbols);
        if elf.symbol_table().is_none() {
            collect_debug_symbols(&path, &elf, &mut symbols);
        }
        let segments = elf.segments().filter_map(|segment| {
            let SegmentFlags::Elf { p_flags } = segment.flags() else { return None };
            let (start, size) = segment.file_range();
            (p_flags & PF_X != 0).then_some((start..start.saturating_add(size), segment.address()))
        });
        let segments = segments.collect();
        Some(Self { segments, symbols: close_symbols(symbols), frames: frames(&elf).unwrap_or_default() })
    }

    /// Names the code at `offset` in the file; `None` where the file is not executable.
    fn label(&self, object: &str, offset: u64) -> Option<String> {
        let (bytes, start) = self.segments.iter().find(|(bytes, _)| bytes.contains(&offset))?;
        let address = (offset - bytes.start).wrapping_add(*start);
        if let Some(symbol) = find_symbol(&self.symbols, address) {
            return Some(format!("{} [{object}]", demangle(&symbol.name)));
        }
        let after = self.frames.partition_point(|&(start, _)| start <= address);
        let frame = self.frames[..after].last().filter(|&&(_, end)| address < end);
        Some(format!("[{object}]+0x{:x}", frame.map_or(address, |&(start, _)| start)))
    }
}

/// Regular files only: to open a pipe or a device could wait or have effects.
fn open_cached(path: &Path) -> Option<ReadCache<File>> {
    let is_file = path.is_absolute() && fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file { File::open(path).ok().map(ReadCache::new) } else { None }
}

/// A named range of code.
struct Symbol {
    name: String,
    start: u64,
    /// Behind the last byte; equal to `start` in a symbol without size until [`close_symbols`] sets it.
    end: u64,
    section_end: u64,
    is_local: bool,
    /// The highest end of this symbol and all before it.
    reach: u64,
}

impl Symbol {
    /// Of several symbols with one start, the lowest is shown: the longest range, then the plainest name.
    fn preference(&self) -> impl Ord + use<'_> {
        let underscores = self.name.bytes().take_while(|&byte| byte == b'_').count();
        (self.start, u64::MAX - self.end, self.is_local, underscores, self.name.len(), &self.name)
    }
}

/// Takes the functions of both symbol tables, and labels in executable sections.
fn collect_symbols(elf: &Elf<'_>, symbols: &mut Vec<Symbol>) {
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
        let (Some(section), Ok(name)) = (section, symbol.name()) else { continue };
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        // `SymbolKind::Unknown` is a label of assembly without a type; `$x` and the like mark data on Arm.
        let is_function = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown);
        let is_code = is_function && sh_flags & u64::from(SHF_EXECINSTR) != 0;
        if is_code && !name.is_empty() && !name.starts_with('$') {
            symbols.push(Symbol {
                // A symbol version such as `@@GLIBC_2.14` is not part of the name.
                name: name.split_once('@').map_or(name, |(name, _)| name).to_owned(),
                start: symbol.address(),
                end: symbol.address().saturating_add(symbol.size()),
                section_end: section.address().saturating_add(section.size()),
                is_local: symbol.is_local(),
                reach: 0,
            });
        }
    }
}

/// Sorts, keeps one symbol for each start, and gives those without size an end.
fn close_symbols(mut symbols: Vec<Symbol>) -> Vec<Symbol> {
    symbols.sort_by(|a, b| a.preference().cmp(&b.preference()));
    symbols.dedup_by_key(|symbol| symbol.start);
    let mut reach = 0;
    symbols.retain_mut(|symbol| {
        let is_label_within = symbol.start == symbol.end && symbol.start < reach;
        reach = reach.max(symbol.end);
        symbol.reach = reach;
        !is_label_within
    });
    let mut next = u64::MAX;
    for symbol in symbols.iter_mut().rev() {
        if symbol.start == symbol.end {
            symbol.end = next.min(symbol.section_end);
            symbol.reach = symbol.reach.max(symbol.end);
        }
        next = symbol.start;
    }
    symbols
}

/// The innermost symbol around `address`; none in the gap behind one that ends earlier.
fn find_symbol(symbols: &[Symbol], address: u64) -> Option<&Symbol> {
    let after = symbols.partition_point(|symbol| symbol.start <= address);
    let mut candidates = symbols[..after].iter().rev().take_while(|symbol| address < symbol.reach);
    candidates.find(|symbol| address < symbol.end)
}

/// Takes the symbols of the separate debug file: by build id, or else by name and checksum.
fn collect_debug_symbols(path: &Path, elf: &Elf<'_>, symbols: &mut Vec<Symbol>) {
    let build_id = elf.build_id().ok().flatten();
    let mut candidates = Vec::new();
    if let Some((first, rest)) = build_id.and_then(|id| id.split_first()) {
        let name = format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest));
        candidates.push((PathBuf::from(name), None));
    }
    if let (Ok(Some((name, crc))), Some(folder)) = (elf.gnu_debuglink(), path.parent()) {
        let name = Path::new(OsStr::from_bytes(name));
        let global = Path::new("/usr/lib/debug").join(folder.strip_prefix("/").unwrap_or(folder));
        let folders = [folder.to_owned(), folder.join(".debug"), global];
        candidates.extend(folders.map(|folder| (folder.join(name), Some(crc))));
    }
    for (candidate, crc) in candidates {
        let Some(cache) = open_cached(&candidate) else { continue };
        let Ok(debug) = Elf::parse(&cache) else { continue };
        let belongs = match (build_id, debug.build_id().ok().flatten()) {
            (Some(id), Some(debug_id)) => id == debug_id,
            _ => crc.is_some() && fs::read(&candidate).ok().map(|bytes| crc32(&bytes)) == crc,
        };
        if belongs {
            return collect_symbols(&debug, symbols);
        }
    }
}

/// The checksum of `.gnu_debuglink`, as GDB's manual defines it ("Debugging Information in Separate Files").
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Start and end of each function that `.eh_frame` describes, as far as it can be read.
fn frames(elf: &Elf<'_>) -> Option<Vec<(u64, u64)>> {
    let section = elf.section_by_name(".eh_frame")?;
    let endian =
        if elf.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big };
    let mut eh_frame = gimli::EhFrame::new(section.data().ok()?, endian);
    eh_frame.set_address_size(if elf.is_64() { 8 } else { 4 });
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = eh_frame.entries(&bases);
    let mut frames = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        if let Ok(fde) = partial.parse(gimli::EhFrame::cie_from_offset) {
            frames.push((fde.initial_address(), fde.end_address()));
        }
    }
    frames.sort_unstable();
    Some(frames)
}

fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash at the end.
        return format!("{rust:#}");
    }
    // `cpp_demangle` also takes a bare type, so it would turn the C function `f` into `float`.
    let cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok());
    cpp.flatten().unwrap_or_else(|| name.to_owned())
}
