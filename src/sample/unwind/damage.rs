//! Tests that damaged call frame information does no harm.
//!
//! # Safety
//! Makes slices of leaked mappings.
#![allow(unsafe_code)]

use super::{
    Trust,
    frame_index::SectionKind,
    objects,
    sections::{Description, mapped_from},
    trial::{Numbers, Outcome, Trial, by_index, stack_apart},
};
use crate::sys::{
    arch::Registers,
    memory::{OwnedMapping, PAGE, choose_probe},
};

const MIN_OUTCOMES: usize = 100;

/// Copies `bytes` to before a guard page.
fn before_guard(bytes: &[u8]) -> &'static mut [u8] {
    let room = bytes.len().next_multiple_of(PAGE);
    let mapping = OwnedMapping::writable(room + PAGE).unwrap();
    mapping.guard(room, room + PAGE).unwrap();
    // SAFETY: the bytes end at the guard page, so the offset is in the mapping.
    let start = unsafe { mapping.start().add(room - bytes.len()) };
    core::mem::forget(mapping);
    // SAFETY: as above; the mapping is used only here and never unmapped.
    let copy = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), bytes.len()) };
    copy.copy_from_slice(bytes);
    copy
}

#[derive(Default, Debug)]
struct Outcomes([usize; 5]);

impl Outcomes {
    fn note(&mut self, outcome: Outcome) {
        self.0[outcome as usize] += 1;
    }

    #[track_caller]
    fn expect_all(&self) {
        assert!(self.has_all(), "{self:?}");
    }

    fn has_all(&self) -> bool {
        self.0.iter().all(|&count| count >= MIN_OUTCOMES)
    }
}

/// Changes one to eight bytes near `place`; returns the old ones.
fn damage(numbers: &mut Numbers, bytes: &mut [u8], place: usize, reach: usize) -> Vec<(usize, u8)> {
    let mut before = Vec::new();
    for _ in 0..1 + numbers.below(8) {
        let at = (place + numbers.below(reach)).min(bytes.len() - 1);
        before.push((at, bytes[at]));
        bytes[at] = match numbers.below(4) {
            0 => 0xff,
            1 => bytes[at] ^ 1 << numbers.below(8),
            _ => numbers.next() as u8,
        };
    }
    before
}

fn repair(bytes: &mut [u8], before: Vec<(usize, u8)>) {
    for (at, byte) in before.into_iter().rev() {
        bytes[at] = byte;
    }
}

struct Own {
    header: Vec<u8>,
    header_address: usize,
    frames: Vec<u8>,
    frames_address: usize,
    /// PCs, and the offsets of their entries.
    places: Vec<(usize, usize)>,
}

impl Own {
    fn new() -> Self {
        objects::prepare();
        let here = objects::prepare as *const () as usize;
        let guard = objects::pin(here, Trust::Live).unwrap();
        let dso = guard.find(here).unwrap();
        let frames = Description::find(&dso, None, here).unwrap().sections.frames;
        let frames = gimli::Section::reader(&frames).slice();
        let (frames_address, header_address) = (frames.as_ptr() as usize, dso.object.eh_frame_hdr);
        // The linker puts the table first, in the same segment.
        let header = mapped_from(&dso, None, header_address).unwrap();
        let header = header.slice()[..frames_address - header_address].to_vec();
        let pcs = (here..here + (1 << 20)).step_by(149);
        let entry = |pc| Some((pc, Description::find(&dso, None, pc)?.entry.offset()));
        let places = pcs.filter_map(entry).collect();
        Self { header, header_address, frames: frames.to_vec(), frames_address, places }
    }
}

/// At least 100 000 rounds, until each outcome was seen: it depends on the compiler's output.
#[test]
fn survives_damage_to_this_programs_sections() {
    choose_probe().unwrap();
    let Own { header, header_address, frames, frames_address, places } = Own::new();
    assert!(places.len() > 1000);
    let (header, frames) = (before_guard(&header), before_guard(&frames));
    let mut numbers = Numbers::new(20_261_121);
    let stack = stack_apart();
    let mut seen = Outcomes::default();
    for round in 0..1_000_000 {
        if round >= 100_000 && seen.has_all() {
            break;
        }
        let (pc, entry) = places[numbers.below(places.len())];
        let header_before = match round % 4 {
            0 => damage(&mut numbers, header, 0, 24),
            1 => {
                let place = numbers.below(header.len());
                damage(&mut numbers, header, place, 16)
            }
            _ => Vec::new(),
        };
        let frames_before = match round % 3 {
            0 => damage(&mut numbers, frames, entry, 48),
            1 => damage(&mut numbers, frames, entry, 16),
            _ => {
                let place = numbers.below(frames.len());
                damage(&mut numbers, frames, place, 64)
            }
        };
        let trial = Trial { header, header_address, frames, frames_address };
        let mut registers = numbers.registers(stack);
        seen.note(trial.by_table(pc, &mut registers));
        let anywhere = numbers.next() as usize >> (8 * numbers.below(8));
        trial.by_table(anywhere, &mut registers);
        repair(frames, frames_before);
        repair(header, header_before);
    }
    // Compilers write no rows that must be evaluated; damage makes some.
    seen.expect_all();
}

#[test]
fn survives_damage_to_made_up_sections() {
    choose_probe().unwrap();
    let (header, frames) = (before_guard(&made_up::header()), before_guard(&made_up::frames()));
    let mut numbers = Numbers::new(1);
    let stack = stack_apart();
    let (mut by_table_seen, mut by_index_seen) = (Outcomes::default(), Outcomes::default());
    for round in 0..20_000 {
        let header_before = if round % 4 == 0 { damage(&mut numbers, header, 0, 64) } else { Vec::new() };
        let place = numbers.below(frames.len());
        let frames_before = damage(&mut numbers, frames, place, 32);
        let (header_address, frames_address) = (made_up::HEADER, made_up::FRAMES);
        let trial = Trial { header, header_address, frames, frames_address };
        let kind = if round % 2 == 0 { SectionKind::EhFrame } else { SectionKind::DebugFrame };
        let index = trial.index(kind);
        let pc = made_up::CODE + numbers.below(made_up::CODE_BYTES);
        by_table_seen.note(trial.by_table(pc, &mut numbers.registers(stack)));
        by_index_seen.note(by_index(&index, pc, &mut numbers.registers(stack)));
        for (start, length) in index.places() {
            by_index(&index, start + numbers.below(length), &mut numbers.registers(stack));
        }
        repair(frames, frames_before);
        repair(header, header_before);
    }
    by_table_seen.expect_all();
    by_index_seen.expect_all();
}

/// The fuzzer starts with these sections. `BLESS=1` writes the file.
#[test]
fn matches_the_fuzzers_seed() {
    let seed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/cfi/made_up");
    let (header, frames) = (made_up::header(), made_up::frames());
    let length = (header.len() as u16).to_le_bytes();
    let expected = [&1u64.to_le_bytes()[..], &length, &header, &frames].concat();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&seed, &expected).unwrap();
    }
    assert_eq!(std::fs::read(&seed).unwrap(), expected, "{}", seed.display());
}

mod made_up {
    pub(super) const HEADER: usize = 0x10_000;
    pub(super) const FRAMES: usize = 0x20_000;
    pub(super) const CODE: usize = 0x30_000;
    const EACH: usize = 0x40;
    pub(super) const CODE_BYTES: usize = EACH * PROGRAMS.len();

    /// Instructions of the entries (DWARF 5, sections 6.4.2 and 7.24; operations: 7.7).
    const PROGRAMS: [&[u8]; 12] = [
        // Only the CIE's instructions.
        &[],
        // advance_loc, def_cfa_offset, offset, advance_loc1, def_cfa_register, restore.
        &[0x41, 0x0e, 16, 0x86, 2, 0x02, 3, 0x0d, 6, 0x43, 0xc6, 0x0c, 7, 8],
        // remember_state, advance_loc2, undefined (return address), restore_state, GNU_args_size.
        &[0x0a, 0x03, 4, 0, 0x07, 16, 0x04, 8, 0, 0, 0, 0x0b, 0x2e, 16],
        // def_cfa_expression: breg7 + 8 + ((breg16 & 15) >= 11) << 3, as for linkage tables.
        &[0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22],
        // def_cfa_expression: the word at breg10 - 8, as for realigned stacks.
        &[0x0f, 3, 0x7a, 0x78, 0x06],
        // val_offset, register, same_value, offset_extended_sf, def_cfa_sf.
        &[0x14, 3, 1, 0x09, 6, 12, 0x08, 13, 0x11, 14, 0x7e, 0x12, 7, 0x7f],
        // expression and val_expression for registers: lit, const, dup, arithmetic, a load.
        &[0x10, 3, 4, 0x08, 16, 0x1c, 0x06, 0x16, 6, 5, 0x23, 24, 0x31, 0x1e, 0x21],
        // The return address by an expression, as in a signal trampoline: breg7 + 160.
        &[0x10, 16, 3, 0x77, 0xa0, 1, 0x10, 7, 3, 0x77, 0xa8, 1],
        // set_loc into the entry's middle; val_expression of shifts and comparisons.
        &[
            0x01, 0x20, 2, 3, 0, 0x16, 3, 12, 0x32, 0x24, 0x33, 0x25, 0x31, 0x29, 0x30, 0x2d, 0x30, 0x2c,
            0x30, 0x2e,
        ],
        // Rules for too many registers.
        &[
            0x80, 1, 0x81, 1, 0x82, 1, 0x83, 1, 0x84, 1, 0x85, 1, 0x86, 1, 0x87, 1, 0x88, 1, 0x89, 1, 0x8a,
            1, 0x8b, 1, 0x8c, 1, 0x8d, 1, 0x8e, 1, 0x8f, 1, 0x90, 1, 0x91, 1, 0x92, 1, 0x93, 1, 0x94, 1,
            0x95, 1, 0x96, 1, 0x97, 1, 0x98, 1, 0x99, 1,
        ],
        // def_cfa_expression: too many values for its stack.
        &[
            0x0f, 40, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x30, 0x31, 0x32, 0x33,
            0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39,
            0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39,
        ],
        // def_cfa_expression: breg7 + 0, nop, and an endless loop.
        &[0x0f, 6, 0x77, 0, 0x96, 0x2f, 0xfc, 0xff],
    ];

    fn entry(id: u32, body: &[&[u8]]) -> Vec<u8> {
        let mut bytes = [&id.to_le_bytes()[..], &body.concat()].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    }

    /// Two CIEs, an ordinary one and a signal trampoline's, and an FDE for each program.
    fn entries() -> (Vec<u8>, Vec<usize>) {
        // Version 1, factors 1, -8, return address 16, 4-byte addresses; def_cfa 7 + 8, 16 at -8.
        let rest = [1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1];
        let mut bytes = entry(0, &[b"\x01zR\0", &rest]);
        let trampoline = bytes.len();
        bytes.extend(entry(0, &[b"\x01zRS\0", &rest]));
        let mut offsets = Vec::new();
        for (i, program) in PROGRAMS.into_iter().enumerate() {
            offsets.push(bytes.len());
            let shared = if i == 7 { trampoline } else { 0 };
            let back = bytes.len() + 4 - shared;
            let code = [CODE + i * EACH, EACH].map(|word| (word as u32).to_le_bytes());
            bytes.extend(entry(back as u32, &[&code[0], &code[1], &[0], program]));
        }
        (bytes, offsets)
    }

    pub(super) fn frames() -> Vec<u8> {
        entries().0
    }

    /// Version 1; section address and entry count, 4 bytes each; a sorted table.
    pub(super) fn header() -> Vec<u8> {
        let (_, offsets) = entries();
        let mut bytes = vec![1, 0x03, 0x03, 0x03];
        let words = [FRAMES, offsets.len()]
            .into_iter()
            .chain(offsets.iter().enumerate().flat_map(|(i, offset)| [CODE + i * EACH, FRAMES + offset]));
        words.for_each(|word| bytes.extend((word as u32).to_le_bytes()));
        bytes
    }
}

#[test]
fn resolves_undamaged_made_up_sections() {
    choose_probe().unwrap();
    let (header, frames) = (made_up::header(), made_up::frames());
    let (header_address, frames_address) = (made_up::HEADER, made_up::FRAMES);
    let trial = Trial { header: &header, header_address, frames: &frames, frames_address };
    let index = trial.index(SectionKind::EhFrame);
    assert_eq!(index.places().count(), 12);
    let mut stack = vec![0; 512];
    let middle = &raw const stack[256] as usize;
    stack.fill(middle);
    let mut registers = Registers::here();
    (0..17).for_each(|number| registers.set(number, Some(middle)));
    for (i, (start, length)) in index.places().enumerate() {
        let pc = start + length - 1;
        let outcomes = [trial.by_table(pc, &mut { registers }), by_index(&index, pc, &mut { registers })];
        let expected = match i {
            0..=4 => Outcome::Rule,
            5..=8 => Outcome::Stepped,
            9 => Outcome::Nothing,
            _ => Outcome::Lost,
        };
        assert_eq!(outcomes, [expected; 2], "{i}");
    }
}
