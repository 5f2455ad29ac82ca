//! Malicious objects: small files with sections that claim, repeat or expand.

use super::inputs::{CODE, varint};
use flate2::{Compression, write::ZlibEncoder};
use std::io::Write as _;

/// A section: name, type, flags, linked section, bytes.
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    link: u32,
    bytes: Vec<u8>,
}

fn section(name: &'static str, bytes: Vec<u8>) -> Section {
    Section { name, kind: 1, flags: 0, link: 0, bytes }
}

/// Returns the size of the code in [`file`]'s segment: 16 bytes for each address.
fn code_bytes(addresses: usize) -> u64 {
    16 * addresses as u64
}

/// Creates an ELF file for x86-64. Its first bytes are mapped at [`CODE`] as code.
fn file(addresses: usize, sections: Vec<Section>) -> Vec<u8> {
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut body = Vec::new();
    let body_at = 64 + 56_u64;
    let count = sections.len() + 2;
    let mut all = sections;
    all.push(section(".shstrtab", Vec::new()));
    for (place, section) in all.iter().enumerate() {
        let name = names.len() as u32;
        names.extend([section.name.as_bytes(), &[0]].concat());
        let is_last = place + 2 == count;
        let bytes = if is_last { &names } else { &section.bytes };
        headers.extend([name.to_le_bytes(), section.kind.to_le_bytes()].concat());
        for number in [section.flags, 0, body_at + body.len() as u64, bytes.len() as u64] {
            headers.extend(number.to_le_bytes());
        }
        headers.extend([section.link.to_le_bytes(), 0_u32.to_le_bytes()].concat());
        headers
            .extend([1_u64.to_le_bytes(), if section.kind == 2 { 24_u64 } else { 0 }.to_le_bytes()].concat());
        body.extend_from_slice(bytes);
    }
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for number in [CODE, 64, body_at + body.len() as u64] {
        file.extend(number.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for number in [64, 56, 1, 64, count as u16, count as u16 - 1] {
        file.extend(number.to_le_bytes());
    }
    // A loaded segment, readable and executable.
    file.extend([1_u32.to_le_bytes(), 5_u32.to_le_bytes()].concat());
    for number in [0, CODE, CODE, code_bytes(addresses), code_bytes(addresses), 0x1000] {
        file.extend(number.to_le_bytes());
    }
    [file, body, headers].concat()
}

/// Debug sections with headers that claim huge sizes at any offset.
pub(crate) fn claims(addresses: usize) -> Vec<u8> {
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_str",
        ".eh_frame",
        ".eh_frame_hdr",
        ".symtab",
        ".gnu_debugdata",
    ];
    let sections = names.map(|name| section(name, vec![0xff; 64]));
    let mut bytes = file(addresses, sections.into());
    let headers = bytes.len() - 64 * (names.len() + 2);
    for (place, claim) in
        (1..=names.len()).zip([u64::MAX, 1 << 40, 1 << 62, u64::MAX / 2].into_iter().cycle())
    {
        let at = headers + 64 * place + 32;
        bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
    }
    bytes
}

/// An abbreviation: code, tag, whether it has children; attributes with their forms.
fn abbreviation(code: u64, tag: u8, children: u8, attributes: &[(u8, u8)]) -> Vec<u8> {
    let attributes = attributes.iter().flat_map(|&(attribute, form)| [attribute, form]);
    [varint(code), vec![tag, children], attributes.collect(), vec![0, 0]].concat()
}

const COMPILE_UNIT: u8 = 0x11;
const SUBPROGRAM: u8 = 0x2e;
const INLINED: u8 = 0x1d;
const CODE_RANGE: [(u8, u8); 2] = [(0x11, 1), (0x12, 7)];
const NAME: (u8, u8) = (3, 0x0e);

/// The values of [`CODE_RANGE`].
fn code_range(start: u64, length: u64) -> Vec<u8> {
    [start.to_le_bytes(), length.to_le_bytes()].concat()
}

/// A DWARF 4 unit with these entries.
fn unit(abbreviations_at: u32, entries: &[u8]) -> Vec<u8> {
    let unit = [&[4, 0], &abbreviations_at.to_le_bytes()[..], &[8], entries].concat();
    [&(unit.len() as u32).to_le_bytes()[..], &unit].concat()
}

/// Many abbreviations, of which one is used.
pub(crate) fn abbreviations(addresses: usize) -> Vec<u8> {
    let mut table = abbreviation(1, COMPILE_UNIT, 1, &CODE_RANGE);
    for code in 2..100_000 {
        table.extend(abbreviation(code, SUBPROGRAM, 0, &[(1, 1)]));
    }
    table.push(0);
    let entries = [vec![1], code_range(CODE, code_bytes(addresses)), vec![0]].concat();
    file(addresses, vec![section(".debug_abbrev", table), section(".debug_info", unit(0, &entries))])
}

/// Functions with origins in other units; each abbreviation table is the rest of the one before.
pub(crate) fn units_of_one_table(addresses: usize) -> Vec<u8> {
    const OTHERS: u32 = 600;
    let mut table = Vec::new();
    let mut starts = Vec::new();
    for code in 0..OTHERS {
        starts.push(table.len() as u32);
        table.extend(abbreviation(1000 + u64::from(code), SUBPROGRAM, 0, &[(3, 8)]));
    }
    table.extend(abbreviation(1, COMPILE_UNIT, 1, &CODE_RANGE));
    // An abstract origin by its offset in the section (DW_FORM_ref_addr).
    table.extend(abbreviation(2, SUBPROGRAM, 0, &[CODE_RANGE[0], CODE_RANGE[1], (0x31, 0x10)]));
    table.extend(abbreviation(3, SUBPROGRAM, 0, &[(3, 8)]));
    for code in 4..900 {
        table.extend(abbreviation(code, SUBPROGRAM, 0, &[(1, 1)]));
    }
    table.push(0);
    let mut info = Vec::new();
    let mut origins = Vec::new();
    for &start in &starts {
        origins.push(info.len() as u32 + 11);
        info.extend(unit(start, b"\x03name\0"));
    }
    let mut entries = [vec![1], code_range(CODE, code_bytes(addresses))].concat();
    for place in 0..addresses as u64 {
        entries.push(2);
        entries.extend(code_range(CODE + 16 * place, 16));
        entries.extend(origins[place as usize % origins.len()].to_le_bytes());
    }
    entries.push(0);
    info.extend(unit(0, &entries));
    file(addresses, vec![section(".debug_abbrev", table), section(".debug_info", info)])
}

/// A DWARF 5 line table with files of a byte each.
pub(crate) fn files(addresses: usize) -> Vec<u8> {
    const FILES: u64 = 1 << 20;
    // DW_LNCT_path as a number; one directory.
    let tables =
        [vec![1, 1, 0x0f], varint(1), vec![0], vec![1, 1, 0x0f], varint(FILES), vec![0; FILES as usize]]
            .concat();
    let header = [&[1, 1, 1, 0xfb, 14, 1], &tables[..]].concat();
    let program = [&[5, 0, 8, 0], &(header.len() as u32).to_le_bytes()[..], &header].concat();
    let lines = [&(program.len() as u32).to_le_bytes()[..], &program].concat();
    let table =
        [abbreviation(1, COMPILE_UNIT, 0, &[CODE_RANGE[0], CODE_RANGE[1], (0x10, 0x17)]), vec![0]].concat();
    let entries = [vec![1], code_range(CODE, code_bytes(addresses)), vec![0; 4]].concat();
    let sections = vec![
        section(".debug_abbrev", table),
        section(".debug_info", unit(0, &entries)),
        section(".debug_line", lines),
    ];
    file(addresses, sections)
}

/// The size of an uncompressed section.
const EXPANDED: usize = 60 << 20;
const EXPANDING: [&str; 8] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_addr",
    ".debug_rnglists",
];

fn compressed(addresses: usize, kind: u32, packed: &[u8]) -> Vec<u8> {
    let header =
        [&kind.to_le_bytes()[..], &[0; 4], &(EXPANDED as u64).to_le_bytes(), &1_u64.to_le_bytes()].concat();
    let sections =
        EXPANDING.map(|name| Section { flags: 0x800, ..section(name, [&header, packed].concat()) });
    file(addresses, sections.into())
}

pub(crate) fn zlib(addresses: usize) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    (0..EXPANDED >> 20).for_each(|_| packed.write_all(&[0; 1 << 20]).expect("memory takes everything"));
    compressed(addresses, 1, &packed.finish().expect("memory takes everything"))
}

/// Blocks of 128 KiB that repeat a byte, in four bytes each (RFC 8878, 3.1.1).
pub(crate) fn zstd(addresses: usize) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    // A window of 128 KiB, and no other field.
    let mut packed = [&0xfd2f_b528_u32.to_le_bytes()[..], &[0, 7 << 3]].concat();
    let blocks = EXPANDED / BLOCK;
    for block in 1..=blocks {
        let repeats = 1 << 1;
        let head = u32::from(block == blocks) | repeats | (BLOCK as u32) << 3;
        packed.extend(&head.to_le_bytes()[..3]);
        packed.push(0);
    }
    compressed(addresses, 2, &packed)
}

/// Nested inlined calls around all addresses.
pub(crate) fn inlined(addresses: usize) -> Vec<u8> {
    const CALLS: usize = 600;
    let range = code_range(CODE, code_bytes(addresses));
    let table = [
        abbreviation(1, COMPILE_UNIT, 1, &CODE_RANGE),
        abbreviation(2, SUBPROGRAM, 1, &[CODE_RANGE[0], CODE_RANGE[1], (3, 8)]),
        abbreviation(3, INLINED, 1, &[CODE_RANGE[0], CODE_RANGE[1], (3, 8)]),
        vec![0],
    ];
    let mut entries = [&[1], &range[..], &[2], &range, b"f\0"].concat();
    (0..CALLS).for_each(|_| entries.extend([&[3], &range[..], b"g\0"].concat()));
    entries.extend(vec![0; CALLS + 2]);
    file(addresses, vec![section(".debug_abbrev", table.concat()), section(".debug_info", unit(0, &entries))])
}

/// A unit of these entries, with names in `texts`.
fn with_texts(addresses: usize, abbreviations: Vec<u8>, entries: &[u8], texts: Vec<u8>) -> Vec<u8> {
    let sections = vec![
        section(".debug_abbrev", abbreviations),
        section(".debug_info", unit(0, entries)),
        section(".debug_str", texts),
    ];
    file(addresses, sections)
}

/// Calls with names that are the ends of one text.
pub(crate) fn names_of_inlined(addresses: usize) -> Vec<u8> {
    const CALLS: usize = 24;
    let table = [
        abbreviation(1, COMPILE_UNIT, 1, &CODE_RANGE),
        abbreviation(2, SUBPROGRAM, 1, &[CODE_RANGE[0], CODE_RANGE[1], NAME]),
        abbreviation(3, INLINED, 1, &[CODE_RANGE[0], CODE_RANGE[1], NAME]),
        vec![0],
    ];
    let text = [vec![b'x'; 60_000], vec![0]].concat();
    let mut names = (0_u32..).flat_map(|name| (name % 50_000).to_le_bytes());
    let mut name = || -> Vec<u8> { names.by_ref().take(4).collect() };
    let mut entries = [vec![1], code_range(CODE, code_bytes(addresses))].concat();
    // More would take long to write.
    for place in 0..addresses.min(400) as u64 {
        let range = code_range(CODE + 16 * place, 16);
        entries.extend([&[2], &range[..], &name()].concat());
        (0..CALLS).for_each(|_| entries.extend([&[3], &range[..], &name()].concat()));
        entries.extend(vec![0; CALLS + 1]);
    }
    entries.push(0);
    with_texts(addresses, table.concat(), &entries, text)
}

/// Functions in many namespaces each, with names that are the ends of one text.
pub(crate) fn scopes(addresses: usize) -> Vec<u8> {
    const LEVELS: usize = 60;
    const NAMESPACE: u8 = 0x39;
    let table = [
        abbreviation(1, COMPILE_UNIT, 1, &CODE_RANGE),
        abbreviation(2, SUBPROGRAM, 0, &[CODE_RANGE[0], CODE_RANGE[1], NAME]),
        abbreviation(3, NAMESPACE, 1, &[NAME]),
        vec![0],
    ];
    let text = [vec![b'x'; 60_000], vec![0]].concat();
    let mut names = (0_u32..).flat_map(|name| (60_000 - 240 - name % 40).to_le_bytes());
    let mut name = || -> Vec<u8> { names.by_ref().take(4).collect() };
    let mut entries = [vec![1], code_range(CODE, code_bytes(addresses))].concat();
    for place in 0..addresses as u64 {
        (0..LEVELS).for_each(|_| entries.extend([&[3], &name()[..]].concat()));
        entries.extend([&[2], &code_range(CODE + 16 * place, 16)[..], &name()].concat());
        entries.extend(vec![0; LEVELS]);
    }
    entries.push(0);
    with_texts(addresses, table.concat(), &entries, text)
}

/// A symbol at each address; `name` is its offset in `texts`.
fn with_symbols(addresses: usize, texts: Vec<u8>, name: impl Fn(usize) -> u32) -> Vec<u8> {
    let mut table = vec![0; 24];
    for place in 0..addresses {
        // A global function of the first section.
        table.extend([&name(place).to_le_bytes()[..], &[0x12, 0], &1_u16.to_le_bytes()].concat());
        table.extend([(CODE + 16 * place as u64).to_le_bytes(), 16_u64.to_le_bytes()].concat());
    }
    let code = Section { flags: 6, ..section(".text", vec![0x90; 16]) };
    let symbols = Section { kind: 2, link: 3, ..section(".symtab", table) };
    let texts = Section { kind: 3, ..section(".strtab", texts) };
    file(addresses, vec![code, symbols, texts])
}

pub(crate) fn symbols(addresses: usize) -> Vec<u8> {
    let texts = [vec![0], vec![b'x'; 60_000], vec![0]].concat();
    with_symbols(addresses, texts, |place| 1 + place as u32)
}

/// Names in which each part doubles the length.
pub(crate) fn cpp_names(addresses: usize) -> Vec<u8> {
    const LENGTH: usize = 320;
    const NAMES: usize = 500;
    let digits = b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let name = |place: usize| {
        let parts = digits[..24].iter().map(|&digit| format!("S0_IS{0}_S{0}_E", char::from(digit)));
        format!("_Z8f{place:07}1a1pIS_S_E{}", parts.collect::<String>())
    };
    let mut texts = vec![0];
    for place in 0..NAMES {
        let mut name = name(place).into_bytes();
        assert!(name.len() < LENGTH, "{}", name.len());
        name.resize(LENGTH, 0);
        texts.extend(name);
    }
    with_symbols(addresses, texts, |place| (1 + LENGTH * (place % NAMES)) as u32)
}
