//! Profiles, spools and maps of about [`SIZE`] bytes, written in pieces.

use flate2::{Compression, write::GzEncoder};
use std::io::{Result, Write};

/// The approximate bytes of an input.
pub(crate) const SIZE: usize = 1 << 20;

type Out<'a> = &'a mut dyn Write;

// The fields of a profile (analysis/src/formats/pprof/mod.rs).
const SAMPLE_TYPE: u8 = 1;
const SAMPLE: u8 = 2;
const MAPPING: u8 = 3;
const LOCATION: u8 = 4;
const FUNCTION: u8 = 5;
const TEXT: u8 = 6;

/// A number in groups of seven bits, the least first: protobuf, and DWARF's ULEB128.
pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn number(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

fn bytes(field: u8, contents: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2], &*varint(contents.len() as u64), contents].concat()
}

fn message(field: u8, fields: &[(u8, u64)]) -> Vec<u8> {
    bytes(field, &fields.iter().flat_map(|&(field, value)| number(field, value)).collect::<Vec<u8>>())
}

/// Profiles of a few bytes, one after another.
pub(crate) fn tiny_profiles(out: Out<'_>) -> Result<()> {
    let mut profile = message(SAMPLE_TYPE, &[(1, 1)]);
    profile.extend([bytes(TEXT, b""), bytes(TEXT, b"x")].concat());
    fill(out, SIZE, |_| profile.clone()).map(drop)
}

/// The same as CPU profiles.
pub(crate) fn tiny_cpu_profiles(out: Out<'_>) -> Result<()> {
    let profile: Vec<u8> =
        [0_u64, 3, 0, 1000, 0, 0, 1, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    fill(out, SIZE, |_| profile.clone()).map(drop)
}

/// The sample type `samples`, and the texts "", "samples", "count".
fn head(out: Out<'_>) -> Result<()> {
    out.write_all(&message(SAMPLE_TYPE, &[(1, 1), (2, 2)]))?;
    [&b""[..], b"samples", b"count"].iter().try_for_each(|text| out.write_all(&bytes(TEXT, text)))
}

/// Writes parts, numbered from 1, until there are `size` bytes; returns their number.
fn fill(out: Out<'_>, size: usize, mut part: impl FnMut(u64) -> Vec<u8>) -> Result<u64> {
    let (mut written, mut count) = (0, 0);
    while written < size {
        count += 1;
        let part = part(count);
        written += part.len();
        out.write_all(&part)?;
    }
    Ok(count)
}

/// A sample of one value with the locations from 1 to `count`.
fn chain(out: Out<'_>, count: u64) -> Result<()> {
    let ids: Vec<u8> = (1..=count).flat_map(varint).collect();
    out.write_all(&bytes(SAMPLE, &[bytes(1, &ids), number(2, 1)].concat()))
}

pub(crate) fn empty_texts(out: Out<'_>) -> Result<()> {
    head(out)?;
    fill(out, SIZE, |_| bytes(TEXT, b"")).map(drop)
}

/// Functions with three distinct texts each.
pub(crate) fn functions(out: Out<'_>) -> Result<()> {
    head(out)?;
    let texts = |i: u64| [bytes(TEXT, b""), bytes(TEXT, b"a"), bytes(TEXT, &varint(i))].concat();
    fill(out, SIZE, |i| {
        let function = message(FUNCTION, &[(1, i), (2, 3 * i), (3, 3 * i + 1), (4, 3 * i + 2)]);
        [texts(i), function].concat()
    })
    .map(drop)
}

pub(crate) fn locations(out: Out<'_>) -> Result<()> {
    head(out)?;
    let count = fill(out, SIZE * 2 / 3, |i| message(LOCATION, &[(1, i), (3, i)]))?;
    chain(out, count)
}

/// The IDs do not count upwards, so each needs an entry in a table.
pub(crate) fn locations_backwards(out: Out<'_>) -> Result<()> {
    head(out)?;
    let first = 150_000;
    let count = fill(out, SIZE * 2 / 3, |i| message(LOCATION, &[(1, first - i)]))?;
    let ids: Vec<u8> = (1..=count).flat_map(|i| varint(first - i)).collect();
    out.write_all(&bytes(SAMPLE, &[bytes(1, &ids), number(2, 1)].concat()))
}

/// One location with all lines.
pub(crate) fn lines(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&message(FUNCTION, &[(1, 1), (2, 1)]))?;
    let mut location = number(1, 1);
    fill(&mut location, SIZE, |i| bytes(4, &[number(1, 1), number(2, i)].concat()))?;
    out.write_all(&bytes(LOCATION, &location))?;
    chain(out, 1)
}

pub(crate) fn mappings(out: Out<'_>) -> Result<()> {
    head(out)?;
    fill(out, SIZE, |i| message(MAPPING, &[(1, i), (5, 1)])).map(drop)
}

pub(crate) fn samples(out: Out<'_>) -> Result<()> {
    head(out)?;
    fill(out, SIZE, |_| message(SAMPLE, &[(2, 1)])).map(drop)
}

pub(crate) fn deep_chain(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&message(LOCATION, &[(1, 1), (3, 9)]))?;
    out.write_all(&bytes(SAMPLE, &[bytes(1, &vec![1; SIZE]), number(2, 1)].concat()))
}

pub(crate) fn labels_of_one_sample(out: Out<'_>) -> Result<()> {
    head(out)?;
    let mut sample = number(2, 1);
    fill(&mut sample, SIZE, |_| message(3, &[(1, 1)]))?;
    out.write_all(&bytes(SAMPLE, &sample))
}

/// Each has another number.
pub(crate) fn sets_of_labels(out: Out<'_>) -> Result<()> {
    head(out)?;
    fill(out, SIZE, |i| bytes(SAMPLE, &[number(2, 1), message(3, &[(1, 1), (3, i)])].concat())).map(drop)
}

pub(crate) fn sets_with_a_long_text(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&bytes(TEXT, &vec![b'x'; SIZE / 2]))?;
    fill(out, SIZE / 2, |i| {
        let labels = [message(3, &[(1, 1), (2, 3)]), message(3, &[(1, 1), (3, i)])].concat();
        bytes(SAMPLE, &[number(2, 1), labels].concat())
    })
    .map(drop)
}

pub(crate) fn types(out: Out<'_>) -> Result<()> {
    head(out)?;
    fill(out, SIZE, |_| bytes(SAMPLE_TYPE, b"")).map(drop)
}

/// All are one text, half of the file.
pub(crate) fn comments(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&bytes(TEXT, &vec![b'x'; SIZE / 2]))?;
    out.write_all(&bytes(13, &vec![3; SIZE / 2]))
}

pub(crate) fn mappings_of_one_path(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&bytes(TEXT, &vec![b'/'; SIZE / 2]))?;
    fill(out, SIZE / 2, |i| message(MAPPING, &[(1, i), (5, 3)])).map(drop)
}

/// A pattern for frames to drop.
pub(crate) fn long_expression(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&bytes(TEXT, "(a|b)".repeat(SIZE / 5).as_bytes()))?;
    out.write_all(&number(7, 3))
}

pub(crate) fn too_many_values(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&bytes(SAMPLE, &bytes(2, &vec![1; SIZE])))
}

fn words(out: Out<'_>, words: &[u32]) -> Result<()> {
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

const HEADER: [u32; 5] = [0, 3, 0, 10_000, 0];
const TRAILER: [u32; 3] = [0, 1, 0];

/// Each has another address.
pub(crate) fn records(out: Out<'_>) -> Result<()> {
    words(out, &HEADER)?;
    (0..SIZE as u32 / 12).try_for_each(|i| words(out, &[1, 1, 0x1000 + 8 * i]))?;
    words(out, &TRAILER)
}

pub(crate) fn claimed_depth(out: Out<'_>) -> Result<()> {
    words(out, &HEADER)?;
    words(out, &[1, 0x7fff_ffff, 1])?;
    words(out, &TRAILER)
}

pub(crate) fn claimed_header(out: Out<'_>) -> Result<()> {
    words(out, &[0, 0xffff_fff0, 0, 10_000, 0])?;
    words(out, &[1, 1, 1])?;
    words(out, &TRAILER)
}

/// In words of 8 bytes.
pub(crate) fn large_counts(out: Out<'_>) -> Result<()> {
    let mut words = vec![0, 3, 0, 10_000, 0];
    words.extend((0..SIZE as u64 / 24).flat_map(|i| [u64::MAX, 1, 0x1000 + 8 * i]));
    words.extend([0, 1, 0]);
    words.iter().try_for_each(|word: &u64| out.write_all(&word.to_le_bytes()))
}

fn maps(out: Out<'_>, line: impl Fn(u64) -> String) -> Result<()> {
    words(out, &HEADER)?;
    words(out, &[1, 1, 0x1000])?;
    words(out, &TRAILER)?;
    fill(out, SIZE, |i| line(i).into_bytes()).map(drop)
}

pub(crate) fn short_maps(out: Out<'_>) -> Result<()> {
    maps(out, |_| "0-1 r-xp 0 0:0 0 a\n".into())
}

pub(crate) fn short_maps_with_ids(out: Out<'_>) -> Result<()> {
    maps(out, |_| "0-1: /a\n".into())
}

/// Returns a name of three letters for each number.
fn short_name(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
    let letter = |place: u32| char::from(LETTERS[(number >> (6 * place)) as usize % 64]);
    (0..3).map(letter).collect()
}

/// Folded stacks of distinct functions.
pub(crate) fn folded_lines(out: Out<'_>) -> Result<()> {
    fill(out, SIZE, |i| format!("{} 1\n", short_name(i)).into_bytes()).map(drop)
}

/// One stack of distinct functions.
pub(crate) fn folded_stack(out: Out<'_>) -> Result<()> {
    fill(out, SIZE, |i| format!("{};", short_name(i)).into_bytes())?;
    out.write_all(b" 1\n")
}

/// Folded stacks of functions without names.
pub(crate) fn folded_without_names(out: Out<'_>) -> Result<()> {
    fill(out, SIZE, |_| b";;;;;;; 1\n".to_vec()).map(drop)
}

const SCRIPT_HEAD: &[u8] = b"p 1 1.0: 1 e:\n";

/// Output of `perf script`: a sample of distinct addresses.
pub(crate) fn script_addresses(out: Out<'_>) -> Result<()> {
    out.write_all(SCRIPT_HEAD)?;
    fill(out, SIZE, |i| format!("\t{i:x}\n").into_bytes()).map(drop)
}

/// A sample of distinct symbols and files.
pub(crate) fn script_symbols(out: Out<'_>) -> Result<()> {
    out.write_all(SCRIPT_HEAD)?;
    fill(out, SIZE, |i| format!("\t0 {0} ({0})\n", short_name(i)).into_bytes()).map(drop)
}

/// Samples of distinct threads.
pub(crate) fn script_threads(out: Out<'_>) -> Result<()> {
    fill(out, SIZE, |i| format!("{} {i} 1.0: 1 e:\n", short_name(i)).into_bytes()).map(drop)
}

/// The Java dialect: addresses, and a name for each.
pub(crate) fn java(out: Out<'_>) -> Result<()> {
    words(out, &[0, 3, 1, 10_000, 0])?;
    let count = SIZE as u32 / 24;
    (0..count).try_for_each(|i| words(out, &[1, 1, i]))?;
    words(out, &TRAILER)?;
    (0..count).try_for_each(|i| writeln!(out, "0x{i:x} {}", short_name(i.into())))
}

/// The Java dialect: short lines without names.
pub(crate) fn java_lines(out: Out<'_>) -> Result<()> {
    words(out, &[0, 3, 1, 10_000, 0])?;
    words(out, &TRAILER)?;
    fill(out, SIZE, |_| b"a\n".to_vec()).map(drop)
}

/// The layout is in src/format/spool.rs of the crate `sigprof`.
fn spool_head(out: Out<'_>, arena_bytes: u64, claims: u64) -> Result<()> {
    const ARENA: usize = 1344 << 10;
    let mut head = vec![0; ARENA];
    head[..8].copy_from_slice(b"sigprofS");
    let state_of_ended = 3;
    for (offset, number) in [
        (8, 6),
        (16, 4),
        (24, state_of_ended),
        (32, 1),
        (64, 10_000),
        (72, arena_bytes),
        (88, claims),
        (96, claims),
    ] {
        head[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
    }
    out.write_all(&head)
}

const MARK: u32 = 0xffc0_0000;

pub(crate) fn spool(out: Out<'_>) -> Result<()> {
    let records = SIZE as u32 / 12;
    spool_head(out, u64::from(records) * 12, 0)?;
    (0..records).try_for_each(|i| words(out, &[1, MARK + 1, 0x1000 + 8 * i]))
}

pub(crate) fn spool_that_claims_much(out: Out<'_>) -> Result<()> {
    spool_head(out, u64::MAX, u64::MAX)?;
    words(out, &[1, MARK + 1, 0x1000])
}

pub(crate) fn bomb(out: Out<'_>) -> Result<()> {
    let mut packed = GzEncoder::new(out, Compression::best());
    (0..64).try_for_each(|_| packed.write_all(&[0; SIZE]))?;
    packed.finish().map(drop)
}

pub(crate) fn bomb_of_members(mut out: Out<'_>) -> Result<()> {
    (0..64).try_for_each(|_| {
        let mut packed = GzEncoder::new(&mut out, Compression::best());
        packed.write_all(&[0; SIZE])?;
        packed.finish().map(drop)
    })
}

/// Uncompressed, it is a bomb.
pub(crate) fn nested_bomb(out: Out<'_>) -> Result<()> {
    let mut packed = GzEncoder::new(out, Compression::none());
    bomb(&mut packed)?;
    packed.finish().map(drop)
}

pub(crate) fn packed_locations(out: Out<'_>) -> Result<()> {
    let mut packed = GzEncoder::new(out, Compression::best());
    locations(&mut packed)?;
    packed.finish().map(drop)
}

/// The start of [`generated_code`]'s addresses.
const GENERATED: u64 = 0x10_0000;

/// Samples of process 7 in code without a file.
pub(crate) fn generated_code(out: Out<'_>) -> Result<()> {
    head(out)?;
    out.write_all(&bytes(TEXT, b"pid"))?;
    for i in 1..=10_000 {
        out.write_all(&message(LOCATION, &[(1, i), (3, GENERATED + i)]))?;
        let fields = [number(1, i), number(2, 1), message(3, &[(1, 3), (3, 7)])].concat();
        out.write_all(&bytes(SAMPLE, &fields))?;
    }
    Ok(())
}

pub(crate) fn perf_map_of_one_line(out: Out<'_>) -> Result<()> {
    write!(out, "{GENERATED:x} 10000 ")?;
    out.write_all(&vec![b'x'; SIZE / 64])
}

pub(crate) fn perf_map_around_all(out: Out<'_>) -> Result<()> {
    fill(out, SIZE, |i| format!("{GENERATED:x} 10000 f{i}\n").into_bytes()).map(drop)
}

pub(crate) fn perf_map_of_short_lines(out: Out<'_>) -> Result<()> {
    fill(out, SIZE, |i| format!("{:x} 1 f\n", GENERATED + i).into_bytes()).map(drop)
}

/// The start of [`profile_of_object`]'s addresses in the object, 16 bytes apart.
pub(crate) const CODE: u64 = 0x1000;

/// Samples at `addresses` addresses of the program.
pub(crate) fn profile_of_object(out: Out<'_>, addresses: u64) -> Result<()> {
    words(out, &HEADER)?;
    (0..addresses as u32).try_for_each(|i| words(out, &[1, 1, CODE as u32 + 16 * i]))?;
    words(out, &TRAILER)?;
    writeln!(out, "{CODE:08x}-{:08x} r-xp 00000000 00:00 0 /nowhere/program", CODE + 16 * addresses)
}
