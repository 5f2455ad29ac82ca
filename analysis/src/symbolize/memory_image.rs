//! Reconstruction of a deleted ELF file from process memory: segments, build ID, and symbols of the
//! dynamic linker (System V ABI, "Dynamic Linking"; `.gnu.hash` is a GNU extension).
//!
//! The memory is untrusted, and may change while it is read. [`MAX_BYTES`] limits the size.

use object::{
    Endianness, LittleEndian as Little, Pod, U16, U32, U64,
    elf::{
        DT_GNU_HASH, DT_HASH, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMTAB, ELFCLASS64, ELFDATA2LSB, ELFMAG,
        ELFOSABI_SYSV, ET_DYN, EV_CURRENT, FileHeader32, FileHeader64, Ident, PF_X, PT_DYNAMIC, PT_LOAD,
        PT_NOTE, ProgramHeader64, SHF_ALLOC, SHF_EXECINSTR, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_NOTE,
        SHT_STRTAB, SectionHeader64, Sym64,
    },
    pod::{bytes_of_slice, slice_from_bytes},
    read::elf::{Dyn as _, FileHeader, ProgramHeader as _, Sym as _},
};
use std::{
    io::{self, ErrorKind},
    mem::size_of,
};

/// Limit of bytes of symbols and their names.
const MAX_BYTES: u64 = 64 << 20;
/// Limit of program headers; linkers write about a dozen.
const MAX_SEGMENTS: usize = 60;
/// Limit of bytes of the dynamic section, and of each group of notes.
const MAX_OF_SECTION: u64 = 64 << 10;

/// Memory of a process.
pub trait Memory {
    /// Fills `buffer` with the bytes at `address`.
    ///
    /// # Errors
    /// If not all of them can be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Reconstructs the object mapped at `base`. Code has the same offsets as in the original file.
///
/// # Errors
/// If the memory cannot be read, or is not an ELF object with symbols for the dynamic linker.
pub(super) fn read(memory: &impl Memory, base: u64) -> io::Result<Vec<u8>> {
    const START: usize =
        size_of::<FileHeader64<Little>>() + MAX_SEGMENTS * size_of::<ProgramHeader64<Little>>();
    const { assert!(START <= 4096, "no page has less") };
    let start = bytes(memory, base, START as u64)?;
    if start.get(4) == Some(&ELFCLASS64) {
        Ok(Object::find::<FileHeader64<Endianness>>(memory, base, &start)?.file())
    } else {
        Ok(Object::find::<FileHeader32<Endianness>>(memory, base, &start)?.file())
    }
}

/// Contents of the file to write.
#[derive(Default)]
struct Object {
    machine: u16,
    segments: Vec<ProgramHeader64<Little>>,
    /// Each group with its alignment.
    notes: Vec<(u64, Vec<u8>)>,
    symbols: Vec<Sym64<Little>>,
    names: Vec<u8>,
}

impl Object {
    fn find<H: FileHeader<Endian = Endianness>>(
        memory: &impl Memory,
        base: u64,
        start: &[u8],
    ) -> io::Result<Self> {
        let header = H::parse(start).map_err(not_elf)?;
        let endian = header.endian().map_err(not_elf)?;
        let headers = header.program_headers(endian, start).map_err(not_elf)?;
        let is_load = |segment: &&H::ProgramHeader| segment.p_type(endian) == PT_LOAD;
        let first = headers.iter().filter(is_load).find(|load| load.p_offset(endian).into() == 0);
        let first = first.ok_or_else(|| not_elf("no segment begins with the file"))?;
        let bias = base.wrapping_sub(first.p_vaddr(endian).into());
        let mut object = Self { machine: header.e_machine(endian), ..Self::default() };
        let mut end = base;
        let mut dynamic = None;
        for segment in headers {
            let (address, size) = (segment.p_vaddr(endian).into(), segment.p_memsz(endian).into());
            match segment.p_type(endian) {
                PT_LOAD => {
                    end = end.max(address.wrapping_add(bias).saturating_add(size));
                    object.segments.push(ProgramHeader64 {
                        p_type: U32::new(Little, PT_LOAD),
                        p_flags: U32::new(Little, segment.p_flags(endian)),
                        p_offset: U64::new(Little, segment.p_offset(endian).into()),
                        p_vaddr: U64::new(Little, address),
                        p_paddr: U64::new(Little, address),
                        p_filesz: U64::new(Little, segment.p_filesz(endian).into()),
                        p_memsz: U64::new(Little, size),
                        p_align: U64::new(Little, segment.p_align(endian).into()),
                    });
                }
                PT_NOTE if size <= MAX_OF_SECTION => {
                    if let Ok(notes) = bytes(memory, address.wrapping_add(bias), size) {
                        object.notes.push((segment.p_align(endian).into(), notes));
                    }
                }
                PT_DYNAMIC => dynamic = Some((address.wrapping_add(bias), size.min(MAX_OF_SECTION))),
                _ => {}
            }
        }
        let (address, size) = dynamic.ok_or_else(|| not_elf("no dynamic section"))?;
        let dynamic = bytes(memory, address, size)?;
        let entries = array::<H::Dyn>(&dynamic)?;
        let number = |tag: u32| {
            let mut entries =
                entries.iter().take_while(|entry| entry.d_tag(endian).into() != u64::from(DT_NULL));
            entries
                .find(|entry| entry.d_tag(endian).into() == u64::from(tag))
                .map(|entry| entry.d_val(endian).into())
        };
        // glibc replaces the file's addresses by the process's, musl does not.
        let place = |tag: u32| {
            let value = number(tag)?;
            Some(if (base..end).contains(&value) { value } else { value.wrapping_add(bias) })
        };
        let missing = || not_elf("no symbols for the dynamic linker");
        let (symbols, names) = (place(DT_SYMTAB).ok_or_else(missing)?, place(DT_STRTAB).ok_or_else(missing)?);
        let names_size = number(DT_STRSZ).ok_or_else(missing)?;
        let count = match (place(DT_HASH), place(DT_GNU_HASH)) {
            (Some(table), _) => u64::from(words::<2>(memory, table)?[1]),
            (None, Some(table)) => count_in_gnu_hash(memory, table, size_of::<H::Word>() as u64)?,
            (None, None) => return Err(missing()),
        };
        let size = count.saturating_mul(size_of::<H::Sym>() as u64);
        if size.saturating_add(names_size) > MAX_BYTES {
            return Err(not_elf("too many symbols"));
        }
        let symbols = bytes(memory, symbols, size)?;
        object.names = bytes(memory, names, names_size)?;
        for symbol in array::<H::Sym>(&symbols)? {
            let address: u64 = symbol.st_value(endian).into();
            let is_defined = symbol.st_shndx(endian) != SHN_UNDEF;
            let Some(section) = object.section_of(address).filter(|_| is_defined) else { continue };
            object.symbols.push(Sym64 {
                st_name: U32::new(Little, symbol.st_name(endian)),
                st_info: symbol.st_info(),
                st_other: symbol.st_other(),
                st_shndx: U16::new(Little, section),
                st_value: U64::new(Little, address),
                st_size: U64::new(Little, symbol.st_size(endian).into()),
            });
        }
        Ok(object)
    }

    fn code(&self) -> impl Iterator<Item = &ProgramHeader64<Little>> {
        self.segments.iter().filter(|segment| segment.p_flags.get(Little) & PF_X != 0)
    }

    /// Returns the index of the code section with the address; section 0 is reserved.
    fn section_of(&self, address: u64) -> Option<u16> {
        let has = |segment: &ProgramHeader64<Little>| {
            address
                .checked_sub(segment.p_vaddr.get(Little))
                .is_some_and(|at| at < segment.p_memsz.get(Little))
        };
        u16::try_from(self.code().position(has)? + 1).ok()
    }

    /// Builds a file with an empty code section for each executable segment.
    fn file(&self) -> Vec<u8> {
        let mut sections = vec![section(0, 0, 0, 0, 0)];
        for segment in self.code() {
            let mut code =
                section(SHT_NOBITS, segment.p_offset.get(Little), segment.p_memsz.get(Little), 0, 0);
            code.sh_addr = segment.p_vaddr;
            code.sh_flags = U64::new(Little, u64::from(SHF_ALLOC | SHF_EXECINSTR));
            sections.push(code);
        }
        let mut body = Vec::new();
        let headers = size_of::<FileHeader64<Little>>() + size_of_val(&*self.segments);
        let mut append = |bytes: &[u8]| {
            body.resize(body.len().next_multiple_of(8), 0);
            let offset = headers + body.len();
            body.extend_from_slice(bytes);
            (offset as u64, bytes.len() as u64)
        };
        for (alignment, notes) in &self.notes {
            let (offset, size) = append(notes);
            let mut notes = section(SHT_NOTE, offset, size, 0, 0);
            notes.sh_addralign = U64::new(Little, *alignment);
            sections.push(notes);
        }
        let names = sections.len() as u32 + 1;
        // The first symbol is reserved.
        let none = [0; size_of::<Sym64<Little>>()];
        let (offset, size) = append(&[&none, bytes_of_slice(&self.symbols)].concat());
        sections.push(section(SHT_DYNSYM, offset, size, names, none.len() as u64));
        let (offset, size) = append(&self.names);
        sections.push(section(SHT_STRTAB, offset, size, 0, 0));
        let (sections_at, _) = append(bytes_of_slice(&sections));
        let header = FileHeader64::<Little> {
            e_ident: Ident {
                magic: ELFMAG,
                class: ELFCLASS64,
                data: ELFDATA2LSB,
                version: EV_CURRENT,
                os_abi: ELFOSABI_SYSV,
                abi_version: 0,
                padding: [0; 7],
            },
            e_type: U16::new(Little, ET_DYN),
            e_machine: U16::new(Little, self.machine),
            e_version: U32::new(Little, EV_CURRENT.into()),
            e_entry: U64::default(),
            e_phoff: U64::new(Little, size_of::<FileHeader64<Little>>() as u64),
            e_shoff: U64::new(Little, sections_at),
            e_flags: U32::default(),
            e_ehsize: half(size_of::<FileHeader64<Little>>()),
            e_phentsize: half(size_of::<ProgramHeader64<Little>>()),
            e_phnum: half(self.segments.len()),
            e_shentsize: half(size_of::<SectionHeader64<Little>>()),
            e_shnum: half(sections.len()),
            // All section names are empty, and a string table begins with an empty string.
            e_shstrndx: half(names as usize),
        };
        [bytes_of_slice(&[header]), bytes_of_slice(&self.segments), &body].concat()
    }
}

fn half(number: usize) -> U16<Little> {
    U16::new(Little, number as u16)
}

fn section(kind: u32, offset: u64, size: u64, link: u32, entry: u64) -> SectionHeader64<Little> {
    SectionHeader64 {
        sh_name: U32::default(),
        sh_type: U32::new(Little, kind),
        sh_flags: U64::default(),
        sh_addr: U64::default(),
        sh_offset: U64::new(Little, offset),
        sh_size: U64::new(Little, size),
        sh_link: U32::new(Little, link),
        sh_info: U32::default(),
        sh_addralign: U64::default(),
        sh_entsize: U64::new(Little, entry),
    }
}

/// Returns the number of symbols, from the end of the last chain: the table does not contain it.
fn count_in_gnu_hash(memory: &impl Memory, table: u64, word: u64) -> io::Result<u64> {
    let [buckets, first, bloom, _] = words::<4>(memory, table)?.map(u64::from);
    if buckets.saturating_mul(4) > MAX_BYTES {
        return Err(not_elf("too many symbols"));
    }
    let buckets_at = table.wrapping_add(16).wrapping_add(bloom.wrapping_mul(word));
    let heads = bytes(memory, buckets_at, buckets * 4)?;
    let last = array::<U32<Little>>(&heads)?.iter().map(|head| head.get(Little)).max().unwrap_or(0);
    let Some(mut place) = u64::from(last).checked_sub(first) else { return Ok(first) };
    let chains = buckets_at.wrapping_add(buckets * 4);
    // The lowest bit of a hash marks the end of its chain.
    while words::<1>(memory, chains.wrapping_add(place.wrapping_mul(4)))?[0] & 1 == 0 {
        place += 1;
        if place.saturating_mul(size_of::<Sym64<Little>>() as u64) > MAX_BYTES {
            return Err(not_elf("too many symbols"));
        }
    }
    Ok(first + place + 1)
}

/// Reads `size` bytes; the caller limits `size`.
fn bytes(memory: &impl Memory, address: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).map_err(not_elf)?];
    memory.read(address, &mut bytes)?;
    Ok(bytes)
}

fn words<const N: usize>(memory: &impl Memory, address: u64) -> io::Result<[u32; N]> {
    let bytes = bytes(memory, address, 4 * N as u64)?;
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().map_err(not_elf)?);
    }
    Ok(words)
}

/// Returns the complete entries of a table.
fn array<T: Pod>(bytes: &[u8]) -> io::Result<&[T]> {
    slice_from_bytes(bytes, bytes.len() / size_of::<T>())
        .map(|(entries, _)| entries)
        .map_err(|()| not_elf("a table is not aligned"))
}

fn not_elf(reason: impl ToString) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::{super::fuzzing::BytesAt, *};
    use object::{Object as _, ObjectSymbol as _};
    use std::{
        collections::BTreeMap,
        fs::{self, File},
        os::unix::fs::FileExt as _,
    };

    struct Own(File);

    impl Memory for Own {
        fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.0.read_exact_at(buffer, address)
        }
    }

    fn own() -> Own {
        Own(File::open("/proc/self/mem").unwrap())
    }

    /// Returns start address and path of a mapped file.
    fn mapped(wanted: &str) -> (u64, String) {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains(wanted)).unwrap();
        let (start, rest) = line.split_once('-').unwrap();
        (u64::from_str_radix(start, 16).unwrap(), rest.split_whitespace().last().unwrap().to_owned())
    }

    fn symbols<'data>(elf: &object::File<'data>) -> BTreeMap<String, (u64, u64)> {
        let code = elf
            .dynamic_symbols()
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition());
        code.map(|symbol| (symbol.name().unwrap().to_owned(), (symbol.address(), symbol.size()))).collect()
    }

    #[test]
    fn finds_the_symbols_of_the_file_in_memory() {
        let (base, path) = mapped("/libc.so");
        let bytes = read(&own(), base).unwrap();
        let (in_memory, file) = (object::File::parse(&*bytes).unwrap(), fs::read(path).unwrap());
        let file = object::File::parse(&*file).unwrap();
        assert_eq!(in_memory.build_id().unwrap(), file.build_id().unwrap());
        let expected = symbols(&file);
        assert!(expected.len() > 1000 && expected.contains_key("malloc"));
        assert_eq!(symbols(&in_memory), expected);
        assert_eq!(in_memory.architecture(), file.architecture());
    }

    #[test]
    fn survives_damage_in_any_byte() {
        let (base, _) = mapped("[vdso]");
        let mut vdso = vec![0; 4096];
        own().read(base, &mut vdso).unwrap();
        let intact = read(&BytesAt(base, &vdso), base).unwrap();
        assert!(symbols(&object::File::parse(&*intact).unwrap()).contains_key("__vdso_clock_gettime"));
        for place in 0..vdso.len() {
            for value in [0, 1, 0x7f, 0xff, vdso[place] ^ 0x10] {
                let mut damaged = vdso.clone();
                damaged[place] = value;
                if let Ok(bytes) = read(&BytesAt(base, &damaged), base) {
                    let elf = object::File::parse(&*bytes).unwrap();
                    assert!(elf.dynamic_symbols().all(|symbol| symbol.section_index().is_some()));
                }
            }
        }
        for length in (0..vdso.len()).step_by(16) {
            let _ = read(&BytesAt(base, &vdso[..length]), base);
        }
    }
}
