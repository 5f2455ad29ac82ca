//! Functions of the executable, sorted by address.

use crate::{
    error::{Error, ErrorKind},
    formats::{gmon::Layout, map_file},
    symbolize::{Position, SourceLine, SourceLines},
};
use object::{
    Architecture, Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SectionFlags, SectionIndex,
    SymbolFlags, elf,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    path::Path,
    sync::Arc,
};

/// A function, another symbol of code, or code of a source line.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    /// The linker name.
    pub(super) name: String,
    /// First address.
    pub(super) start: u64,
    /// End of the code.
    pub(super) end: u64,
    /// End of the function's code; `end` is that of its first line if functions are divided.
    pub(super) function_end: u64,
    /// The linker knows it as a function.
    pub(super) is_function: bool,
    /// It is a part of a function: the code of a source line.
    pub(super) is_line: bool,
    /// It is local to its file.
    pub(super) is_static: bool,
    /// File and line of its definition, or of the code.
    pub(super) source: Option<SourceLine>,
}

/// Which symbols of an executable become functions.
#[derive(Clone, Copy, Debug)]
pub struct SymbolOptions {
    /// Leave out static functions: their code belongs to the function before (`-a`).
    pub omits_static: bool,
    /// Leave out symbols that are not functions (`-D`).
    pub only_functions: bool,
    /// Divide functions by source line (`-l`).
    pub by_line: bool,
    /// Choose symbols as gprof does: without local ones with `.` or `$` in their names, such as
    /// `f.part.0`, but with data.
    pub is_compatible: bool,
}

/// Code.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Its address.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// It is for x86 or x86-64.
    pub(super) is_x86: bool,
}

impl Text {
    /// The address after it.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

/// An executable.
#[derive(Debug)]
pub struct Executable {
    /// Byte order and address size.
    pub layout: Layout,
    /// Sorted by address, without two at an address.
    symbols: Vec<Symbol>,
    /// The section `.text`.
    pub(super) text: Text,
    /// Source files, in the order of the symbol table.
    pub(super) files: Vec<Arc<str>>,
    known_files: HashSet<Arc<str>>,
    /// Names of all code, also of what is hidden, sorted by address.
    names: Vec<(u64, String)>,
}

impl Executable {
    /// Reads the symbols of an ELF file, and their source lines.
    ///
    /// # Errors
    /// If it cannot be read, is not an ELF file, or has no symbols.
    pub fn open(path: &Path, options: SymbolOptions) -> Result<Self, Error> {
        let fails = |error| Error::io(path, "read the program", error);
        let file = File::open(path).map_err(fails)?;
        if !file.metadata().map_err(fails)?.is_file() {
            return Err(Error::new(ErrorKind::Io, "is not a regular file").at(path));
        }
        if file.metadata().map_err(fails)?.len() == 0 {
            return Err(Error::new(ErrorKind::Format, "the file is empty (0 bytes)").at(path));
        }
        let bytes = map_file(&file).map_err(fails)?;
        let (mut executable, order) = Self::read(&bytes, options).map_err(|error| error.at(path))?;
        let lines = SourceLines::open(path)?;
        let addresses = executable.symbols.iter().map(|symbol| symbol.start).collect();
        for (symbol, position) in executable.symbols.iter_mut().zip(lines.find(addresses)) {
            symbol.source = position.map(|position| position.line);
        }
        let functions: Vec<usize> = order.iter().filter_map(|&start| executable.find(start)).collect();
        functions.into_iter().for_each(|function| executable.add_file(function));
        if options.by_line {
            executable.divide(&lines, options.is_compatible);
            (0..executable.symbols.len()).for_each(|symbol| executable.add_file(symbol));
        }
        Ok(executable)
    }

    /// Adds the source file of a symbol to the list.
    fn add_file(&mut self, symbol: usize) {
        let Some(SourceLine { file, .. }) = &self.symbols[symbol].source else { return };
        if self.known_files.insert(file.clone()) {
            self.files.push(file.clone());
        }
    }

    /// Returns an executable without source lines, and the addresses of symbols in the order of the
    /// symbol table.
    fn read(bytes: &[u8], options: SymbolOptions) -> Result<(Self, Vec<u64>), Error> {
        let file = object::File::parse(bytes).map_err(|error| {
            Error::new(ErrorKind::Format, format!("not a valid ELF file ({error})")).caused_by(error)
        })?;
        let layout = Layout { is_big_endian: file.endianness() == Endianness::Big, is_64_bit: file.is_64() };
        let text = file.section_by_name(".text").map(|section| Text {
            start: section.address(),
            bytes: section.data().unwrap_or_default().to_owned(),
            is_x86: matches!(file.architecture(), Architecture::I386 | Architecture::X86_64),
        });
        let text = text.unwrap_or_default();
        let strings = file.section_by_name(".strtab").and_then(|section| section.data().ok()).unwrap_or(&[]);
        let mut code: HashMap<SectionIndex, bool> = HashMap::new();
        let mut symbols: Vec<Symbol> = Vec::new();
        let mut names = BTreeMap::new();
        for symbol in file.symbols() {
            let Some(section) = symbol.section_index() else { continue };
            let is_code = *code.entry(section).or_insert_with(|| {
                file.section_by_index(section).is_ok_and(|section| {
                    matches!(section.flags(), SectionFlags::Elf { sh_flags }
                        if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0)
                })
            });
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
            let (binding, kind) = (st_info >> 4, st_info & 0xf);
            let is_weak = binding == elf::STB_WEAK;
            if matches!(kind, elf::STT_SECTION | elf::STT_FILE) {
                continue;
            }
            let is_function = matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
            let name = symbol.name_bytes().unwrap_or_default();
            let is_static = binding == elf::STB_LOCAL;
            if options.by_line && is_code && !name.is_empty() {
                let fit = (is_function, symbol.size());
                let best = names.entry(symbol.address()).or_insert((fit, name));
                if best.0 < fit {
                    *best = (fit, name);
                }
            }
            let is_chosen = if options.is_compatible {
                (is_code || is_weak && kind != elf::STT_OBJECT)
                    && kind != elf::STT_GNU_IFUNC
                    && !(is_static && is_hidden(from_name_on(strings, name)))
            } else {
                is_code && (is_function || !is_static)
            };
            // GNU gprof keeps global labels.
            let is_label = !is_function && (is_static || !options.is_compatible);
            let is_omitted = options.omits_static && is_static || options.only_functions && is_label;
            if !is_chosen || is_omitted || name.is_empty() {
                continue;
            }
            symbols.push(Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                start: symbol.address(),
                end: 0,
                function_end: 0,
                is_function,
                is_line: false,
                is_static,
                source: None,
            });
        }
        if symbols.is_empty() {
            let reason = "the file has no symbols";
            return Err(Error::new(ErrorKind::Format, reason)
                .advise("link the program without `-s`, and do not strip it"));
        }
        let order = symbols.iter().map(|symbol| symbol.start).collect();
        let names =
            names.into_iter().map(|(start, (_, name))| (start, String::from_utf8_lossy(name).into_owned()));
        let names = names.collect();
        let symbols = one_for_each_address(symbols, text.end());
        Ok((Self { layout, symbols, text, names, files: Vec::new(), known_files: HashSet::new() }, order))
    }

    /// Adds a symbol for each piece of code with a function and source line of its own.
    fn divide(&mut self, lines: &SourceLines, is_compatible: bool) {
        let text = self.text.start..self.text.end();
        let mut addresses = lines.boundaries();
        addresses.retain(|address| text.contains(address));
        let positions = lines.find(addresses.clone());
        let mut pieces: Vec<Symbol> = Vec::new();
        let mut last = None;
        for (address, position) in addresses.into_iter().zip(positions) {
            let Some(Position { function, line }) = position else { continue };
            let Some(function) = function.or_else(|| self.name_at(address)) else { continue };
            let known = last.replace((function.clone(), line.clone()));
            if known == last {
                continue;
            }
            let is_same_function =
                known.is_some_and(|(name, known)| name == function && known.file == line.file);
            let is_static = match pieces.last().filter(|_| is_same_function) {
                Some(piece) => piece.is_static,
                None => self.find(address).is_some_and(|function| self.symbols[function].is_static),
            };
            pieces.push(Symbol {
                name: function.to_string(),
                start: address,
                end: 0,
                function_end: 0,
                is_function: false,
                is_line: true,
                is_static,
                source: Some(line),
            });
        }
        pieces.append(&mut self.symbols);
        if is_compatible {
            // GNU gprof forgets the last one.
            pieces.pop();
        }
        self.symbols = one_for_each_address(pieces, text.end);
    }

    /// Returns the name of the code at an address.
    fn name_at(&self, address: u64) -> Option<Arc<str>> {
        let place = self.names.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        Some(self.names[place].1.as_str().into())
    }

    /// Returns the symbols, sorted by address.
    pub(super) fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Returns the index of the symbol that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let place = self.symbols.partition_point(|symbol| symbol.start <= address).checked_sub(1)?;
        (address < self.symbols[place].end).then_some(place)
    }
}

/// Returns the part of a string table that begins with one of its names.
fn from_name_on<'data>(table: &'data [u8], name: &'data [u8]) -> &'data [u8] {
    let offset = name.as_ptr().addr().wrapping_sub(table.as_ptr().addr());
    table.get(offset..).filter(|rest| rest.starts_with(name)).unwrap_or(name)
}

/// True for a local name that GNU gprof takes for a label of the compiler: with `$`, or with `.` that
/// no number follows. Nested functions end with a number, and some copies of functions have `.clone.`
/// or `.constprop.` in their names. `table` is the string table, from the name on: after a number at
/// the end of a name, gprof also examines the next name of the table.
fn is_hidden(table: &[u8]) -> bool {
    let byte = |place: usize| table.get(place).copied().unwrap_or(0);
    let mut place = 0;
    while place < table.len() && byte(place) != 0 {
        if byte(place) == b'$' {
            return true;
        }
        while byte(place) == b'.' {
            let name = table[place..].split(|&byte| byte == 0).next().unwrap_or(&[]);
            let copy = [&b".clone."[..], b".constprop."]
                .into_iter()
                .find(|copy| name.starts_with(copy) && name.len() > copy.len());
            place += copy.map_or(1, <[u8]>::len);
            let digits = place;
            while byte(place).is_ascii_digit() {
                place += 1;
            }
            if byte(place) != 0 && (byte(place) != b'.' || place == digits) {
                return true;
            }
        }
        // Past the end of the name, if it was reached in the loop above.
        place += 1;
    }
    false
}

/// Sorts symbols, and keeps the best name of each address.
fn one_for_each_address(mut symbols: Vec<Symbol>, text_end: u64) -> Vec<Symbol> {
    symbols.sort_by_key(|symbol| (symbol.start, !symbol.is_function));
    let mut kept: Vec<Symbol> = Vec::with_capacity(symbols.len());
    for symbol in symbols {
        match kept.last_mut() {
            Some(known) if known.start == symbol.start => {
                if is_better(&symbol, known) {
                    *known = symbol;
                }
            }
            _ => kept.push(symbol),
        }
    }
    for place in 0..kept.len() {
        kept[place].end = match kept.get(place + 1) {
            Some(next) => next.start,
            None => text_end.max(kept[place].start.saturating_add(1)).max(kept[place].function_end),
        };
        if kept[place].function_end == 0 {
            kept[place].function_end = kept[place].end;
        }
    }
    kept
}

/// True if a name is preferred to a known one of the same address: a function, a global one, and one
/// with fewer underscores at its beginning.
fn is_better(symbol: &Symbol, known: &Symbol) -> bool {
    if symbol.is_function != known.is_function {
        return symbol.is_function;
    }
    if symbol.is_static != known.is_static {
        return known.is_static;
    }
    let underscores = |symbol: &Symbol| symbol.name.bytes().take(2).take_while(|&byte| byte == b'_').count();
    underscores(symbol) < underscores(known)
}
