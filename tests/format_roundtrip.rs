//! The CPU profile format. An independent encoder and checker, and google/pprof, judge the writer.
//! The reader gets that encoder's files, also truncated and altered, and noise.

#[path = "support/checker.rs"]
mod checker;
mod format_encoder;
#[path = "support/skip.rs"]
mod skip;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Output};

use checker::{check, faults};
use format_encoder::{Encoder, LAYOUTS};
use sigprof::format::{
    ByteOrder, CpuProfile, Mapping, ProfileWriter, ReadError, Record, SlotLayout, SlotWidth, write_records,
};
use skip::{Lack, skip};

const MAPS: &str = "\
00400000-00452000 r-xp 00000000 08:02 173521                             /usr/bin/example\n\
7f1c3d600000-7f1c3d628000 r-xp 00001000 fe:00 1234                       /usr/lib/libc.so.6\n\
7ffc1b2f1000-7ffc1b312000 rw-p 00000000 00:00 0                          [stack]\n";

fn layout_of((wide, big): (bool, bool)) -> SlotLayout {
    SlotLayout {
        width: if wide { SlotWidth::Eight } else { SlotWidth::Four },
        order: if big { ByteOrder::Big } else { ByteOrder::Little },
    }
}

/// Records with extreme counts and depths that fit the slot width.
fn edge_records(wide: bool) -> Vec<(u64, Vec<u64>)> {
    let largest = if wide { u64::MAX } else { u64::from(u32::MAX) };
    let mut counts = vec![1, 2, largest - 1, largest];
    if wide {
        counts.extend([u64::from(u32::MAX), u64::from(u32::MAX) + 1]);
    }
    let mut records: Vec<(u64, Vec<u64>)> =
        counts.into_iter().map(|count| (count, vec![1, largest, 0x1000])).collect();
    for depth in [1, 2, 254, 255, 256, 4096] {
        records.push((7, (1..=depth).map(|place| largest - place).collect()));
    }
    records.extend((0..3000).map(|n| (n + 1, vec![n + 0x1000; n as usize % 5 + 1])));
    records
}

fn small_file(layout: (bool, bool)) -> Vec<u8> {
    let mut encoder = Encoder::with_header(layout, 10_000);
    encoder.record(5, &[0xa0000, 0xc0000, 0xe0000]);
    encoder.record(1, &[0xa0004]);
    encoder.trailer();
    encoder.text(MAPS);
    encoder.file
}

#[test]
fn reads_every_value_in_every_layout() {
    for layout in LAYOUTS {
        let records = edge_records(layout.0);
        let mut encoder = Encoder::with_header(layout, 4000);
        records.iter().for_each(|(count, pcs)| encoder.record(*count, pcs));
        encoder.trailer();
        encoder.text("  build=/opt/app\n$nonsense\n");
        encoder.text(MAPS);
        encoder.text("00600000-00601000 r-xp 00000000 08:02 9 $build/lib.so");

        let profile = CpuProfile::parse(&encoder.file).unwrap();
        assert_eq!(profile.layout, layout_of(layout));
        assert_eq!(profile.period_micros, 4000);
        let total: u128 = records.iter().map(|(count, _)| u128::from(*count)).sum();
        assert_eq!(profile.total_samples(), total);
        assert_eq!(profile.records.len(), records.len());
        for (found, (count, pcs)) in profile.records.iter().zip(records) {
            assert_eq!(*found, Record { count, pcs });
        }
        assert_eq!(profile.unknown_lines, [b"$nonsense"]);
        assert_eq!(profile.mappings.len(), 4);
        assert_eq!(profile.mappings[1].offset, 0x1000);
        assert_eq!(*profile.mappings[3].path, b"/opt/app/lib.so"[..]);
    }
}

#[test]
fn the_writer_agrees_with_the_encoder_byte_for_byte() {
    for layout in LAYOUTS {
        let mut encoder = Encoder::with_header(layout, 10_000);
        let mut writer = ProfileWriter::new(Vec::new(), layout_of(layout));
        writer.header(10_000).unwrap();
        for (count, pcs) in edge_records(layout.0) {
            encoder.record(count, &pcs);
            writer.record(count, &pcs).unwrap();
        }
        let narrow = [0x1000_usize, 0x2000, 0x3000];
        encoder.record(3, &narrow.map(|pc| pc as u64));
        writer.record_from(3, narrow.into_iter()).unwrap();
        encoder.trailer();
        writer.trailer().unwrap();
        encoder.text(MAPS);
        for line in MAPS.lines() {
            let mapping = Mapping::parse_line(line.as_bytes()).unwrap();
            mapping.write_line(writer.text(), SlotWidth::Eight).unwrap();
        }
        assert_eq!(writer.bytes_written(), encoder.file.len() as u64);
        assert!(writer.into_inner() == encoder.file, "bytes differ in {layout:?}");
    }
}

#[test]
fn a_count_of_33_bits_is_spread_over_4_byte_records() {
    for big in [false, true] {
        let mut encoder = Encoder::new((false, big));
        encoder.record(u64::from(u32::MAX), &[1, 2]);
        encoder.record(1, &[1, 2]);
        let mut writer = ProfileWriter::new(Vec::new(), layout_of((false, big)));
        writer.record(u64::from(u32::MAX) + 1, &[1, 2]).unwrap();
        assert_eq!(writer.into_inner(), encoder.file);
    }
}

#[test]
fn longer_headers_are_read_and_others_refused() {
    for layout in LAYOUTS {
        for header_slots in [3_u64, 4, 5, 255, 256, 4096, 65_535] {
            let mut encoder = Encoder::new(layout);
            encoder.slots(&[0, header_slots, 0, 77]);
            (0..header_slots - 2).for_each(|filler| encoder.slot(filler));
            encoder.record(2, &[9]);
            encoder.trailer();
            let profile = CpuProfile::parse(&encoder.file).unwrap();
            assert_eq!((profile.layout, profile.period_micros), (layout_of(layout), 77));
            assert_eq!(profile.records, [Record { count: 2, pcs: vec![9] }]);
        }
        for header in [[1, 3, 0], [0, 2, 0], [0, 1, 0], [0, 3, 1], [0, 65_537, 0]] {
            let mut encoder = Encoder::new(layout);
            encoder.slots(&header);
            encoder.slots(&[77, 0]);
            encoder.trailer();
            let length = encoder.file.len();
            assert_eq!(
                CpuProfile::parse(&encoder.file),
                Err(ReadError::NotAProfile { length }),
                "{header:?}"
            );
        }
    }
}

#[test]
fn every_truncation_of_the_binary_part_is_an_error() {
    for layout in LAYOUTS {
        let file = small_file(layout);
        let binary = file.len() - MAPS.len();
        for length in 0..binary {
            assert!(CpuProfile::parse(&file[..length]).is_err(), "{length} of {binary} bytes in {layout:?}");
        }
        for length in binary..=file.len() {
            assert_eq!(CpuProfile::parse(&file[..length]).unwrap().records.len(), 2);
        }
        assert_eq!(CpuProfile::parse(&[]), Err(ReadError::Empty));
    }
}

#[test]
fn reports_impossible_depths_with_their_offset() {
    for layout in LAYOUTS {
        let largest = if layout.0 { u64::MAX } else { u64::from(u32::MAX) };
        for num_pcs in [4, 1000, largest / 8, largest / 4, largest / 2 + 1, largest] {
            let mut encoder = Encoder::with_header(layout, 1);
            encoder.slots(&[1, num_pcs]);
            encoder.trailer();
            let offset = 5 * encoder.slot_bytes();
            let expected = ReadError::ChainTooLong { offset, num_pcs, available: 3 };
            assert_eq!(CpuProfile::parse(&encoder.file), Err(expected));
        }
    }
}

#[test]
fn no_single_byte_can_make_the_reader_panic() {
    for layout in LAYOUTS {
        let mut file = small_file(layout);
        for place in 0..file.len() {
            let kept = file[place];
            for value in 0..=255 {
                file[place] = value;
                let _ = CpuProfile::parse(&file).map(|profile| (profile.total_samples(), profile.duration()));
            }
            file[place] = kept;
        }
    }
}

#[test]
fn reads_or_refuses_a_hundred_thousand_noisy_inputs() {
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let whole = LAYOUTS.map(small_file);
    let (mut profiles, mut mappings) = (0, 0);
    for round in 0..100_000 {
        let mut bytes = whole[noise.below(4)].clone();
        match round % 4 {
            0 => bytes.iter_mut().for_each(|byte| *byte = noise.next() as u8),
            1 => bytes.truncate(noise.below(bytes.len())),
            2 => {
                let from = noise.below(bytes.len());
                bytes.drain(from..from + noise.below(bytes.len() - from));
            }
            _ => {}
        }
        for _ in 0..noise.below(4) {
            if !bytes.is_empty() {
                let place = noise.below(bytes.len());
                bytes[place] = [noise.next() as u8, 0, 1, 0xff][noise.below(4)];
            }
        }
        if let Ok(profile) = CpuProfile::parse(&bytes) {
            profiles += 1;
            let slots: usize = profile.records.iter().map(|record| record.pcs.len() + 2).sum();
            assert!(slots * 4 <= bytes.len());
            assert!(profile.records.iter().all(|record| record.count > 0 && !record.pcs.is_empty()));
        }

        let line = noisy_line(&mut noise);
        if let Some(mapping) = Mapping::parse_line(&line) {
            mappings += 1;
            assert!(mapping.start < mapping.end);
            let mut written = Vec::new();
            mapping.write_line(&mut written, SlotWidth::NATIVE).unwrap();
            let again = Mapping::parse_line(written.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!((again.start, again.end, again.offset), (mapping.start, mapping.end, mapping.offset));
        }
    }
    assert!(profiles > 1000 && mappings > 1000, "{profiles} profiles and {mappings} mappings were valid");
}

/// A valid mapping line with a few changed bytes, or random characters of its alphabet.
fn noisy_line(noise: &mut Noise) -> Vec<u8> {
    const ALPHABET: &[u8] = b"0123456789abcdefx-:() @/rwps\n$_ g\xff";
    let lines: [&[u8]; 4] = [
        MAPS.lines().next().unwrap_or_default().as_bytes(),
        b"7f00-7fff: /lib/a.so (@1000) 0123abcd",
        b"0x40000-0x80000 r-xp /path/to/binary (@FF00) abc123456",
        b"",
    ];
    let mut line = lines[noise.below(4)].to_vec();
    if line.is_empty() {
        line = (0..noise.below(60)).map(|_| ALPHABET[noise.below(ALPHABET.len())]).collect();
    }
    for _ in 0..noise.below(4) {
        let place = noise.below(line.len() + 1);
        line.splice(place..place, [ALPHABET[noise.below(ALPHABET.len())]]);
        line.remove(noise.below(line.len()));
    }
    line
}

/// The writer must work without an allocator.
#[test]
fn writing_a_profile_allocates_nothing() {
    let samples = [(3_u64, [0x40_0010_usize, 0x40_0020, 0x40_0030]), (u64::MAX, [0x40_0014, 0x40_0020, 0])];
    let mapping = Mapping::parse_line(MAPS.lines().next().unwrap().as_bytes()).unwrap();
    let layout = SlotLayout { width: SlotWidth::Eight, ..SlotLayout::NATIVE };
    let mut room = [0_u8; 1024];
    let before = ALLOCATIONS.get();
    let mut writer = ProfileWriter::new(&mut room[..], layout);
    writer.header(10_000).unwrap();
    let number =
        write_records(&mut writer, || samples.iter().map(|(count, pcs)| (*count, pcs.iter().copied())));
    writer.record(1, &[5, 6, 7]).unwrap();
    writer.trailer().unwrap();
    mapping.write_line(writer.text(), SlotWidth::Eight).unwrap();
    let length = writer.bytes_written() as usize;
    let too_much = (0..100).map(|_| writer.record(1, &[1, 2, 3])).find(Result::is_err);
    let after = ALLOCATIONS.get();
    assert_eq!(before, after, "the writer allocated");
    assert_eq!(number.unwrap(), 2);
    assert!(too_much.is_some(), "the sink was meant to run full");
    assert_eq!(CpuProfile::parse(&room[..length]).unwrap().records.len(), 3);
    drop(vec![1]);
    assert_ne!(ALLOCATIONS.get(), after, "the count of allocations is stuck");
}

#[test]
fn an_independent_checker_finds_no_fault() {
    for layout in LAYOUTS {
        for number in [1, 2, 40] {
            let samples = one_call_site(number);
            check(&TemporaryFile::new("checker", &guarded_file(&samples, layout_of(layout))).0);
        }
    }
}

/// Shows that the test above can fail.
#[test]
fn the_checker_reports_each_breach_of_a_rule() {
    let sound = (10_000, 5, &[0xa0000, 0xc0000][..], &[0, 1, 0][..], MAPS);
    let (period, count, pcs, trailer, text) = sound;
    let stack = "7ffc1b2f1000-7ffc1b312000 rw-p 00000000 00:00 0 [stack]\n";
    let files = [
        ("", sound),
        ("the period is 0", (0, count, pcs, trailer, text)),
        ("the sample count is 0", (period, 0, pcs, trailer, text)),
        ("no PC", (period, count, &[], trailer, text)),
        ("PC 1 is 0", (period, count, &[1, 0], trailer, text)),
        ("ends before the trailer", (period, count, pcs, &[], "")),
        ("100 PCs, of which the file has 1", (period, count, pcs, &[7, 100, 1], "")),
        ("no list of mapped objects", (period, count, pcs, trailer, "")),
        ("neither a mapping nor a build specifier", (period, count, pcs, trailer, "nonsense\n")),
        ("the last line has no end", (period, count, pcs, trailer, MAPS.trim_end())),
        ("a mapping that is empty", (period, count, pcs, trailer, &*MAPS.replace("00452000", "00400000"))),
        ("no executable mapping", (period, count, pcs, trailer, stack)),
    ];
    for (fault, (period, count, pcs, trailer, text)) in files {
        let mut encoder = Encoder::with_header((true, false), period);
        encoder.record(count, pcs);
        encoder.slots(trailer);
        encoder.text(text);
        let Some(found) = faults(&TemporaryFile::new("fault", &encoder.file).0) else { return };
        assert!(found.contains(fault) && found.is_empty() == fault.is_empty(), "{fault}: {found:?}");
    }
    let found = faults(&TemporaryFile::new("empty", b"").0).expect("there is python3");
    assert!(found.contains("no header"), "{found:?}");
}

/// google/pprof must list every frame of every record (`src/format/second_frame.rs`).
#[test]
fn google_pprof_keeps_every_frame() {
    for layout in LAYOUTS {
        for number in [1, 2, 3, 31, 32, 33, 64, 65, 200] {
            let mut samples = one_call_site(number);
            if number == 200 {
                samples.push((1, vec![0x40_2000, 0x40_2000, 0x40_3000]));
            }
            let bytes = guarded_file(&samples, layout_of(layout));
            let Some(chains) = chains_seen_by_pprof("guarded", &bytes) else { return };
            let mut expected: Vec<(u64, Vec<u64>)> = CpuProfile::parse(&bytes)
                .unwrap()
                .records
                .into_iter()
                .map(|record| (record.count, looked_up(&record.pcs)))
                .collect();
            expected.sort();
            assert_eq!(chains, expected, "{number} records in {layout:?}");
        }
    }
}

/// Shows that the test above can fail.
#[test]
fn google_pprof_deletes_frames_of_an_unguarded_file() {
    let mut encoder = Encoder::with_header((true, false), 10_000);
    for (count, pcs) in one_call_site(40) {
        encoder.record(count, &pcs.iter().map(|&pc| pc as u64).collect::<Vec<u64>>());
    }
    encoder.trailer();
    encoder.text(MAPS);
    let Some(chains) = chains_seen_by_pprof("unguarded", &encoder.file) else { return };
    assert_eq!(chains.len(), 40);
    assert!(chains.iter().all(|(_, addresses)| addresses.len() == 2), "{chains:x?}");
}

/// gperftools' Perl reader prints which frames it removes; it must remove none.
#[test]
fn google_pprof_in_perl_removes_no_frame() {
    for number in [1, 2, 3, 31, 32, 33, 64, 65] {
        let bytes = guarded_file(&one_call_site(number), SlotLayout::NATIVE);
        let file = TemporaryFile::new("perl", &bytes);
        let output = Command::new("google-pprof").arg("--text").arg("/bin/true").arg(&file.0).output();
        let Ok(output) = output else {
            return skip(Lack::Tool, "no google-pprof");
        };
        let notes = String::from_utf8_lossy(&output.stderr);
        assert!(!notes.contains("Removing"), "{number} records: {notes}");
        let total = format!("Total: {} samples", 2 * number);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&total), "{number} records: {text}{notes}");
    }
}

/// Chains of four PCs with different leaves and the same callers, two samples each.
fn one_call_site(number: usize) -> Vec<(u64, Vec<usize>)> {
    (0..number).map(|n| (2, vec![0x40_1000 + 4 * n, 0x40_2000, 0x40_3000, 0x40_4000])).collect()
}

fn guarded_file(samples: &[(u64, Vec<usize>)], layout: SlotLayout) -> Vec<u8> {
    let mut writer = ProfileWriter::new(Vec::new(), layout);
    writer.header(10_000).unwrap();
    write_records(&mut writer, || samples.iter().map(|(count, pcs)| (*count, pcs.iter().copied()))).unwrap();
    writer.trailer().unwrap();
    for line in MAPS.lines() {
        Mapping::parse_line(line.as_bytes()).unwrap().write_line(writer.text(), SlotWidth::Eight).unwrap();
    }
    writer.into_inner()
}

/// The addresses that a reader looks up: of callers, one byte before the return address.
fn looked_up(pcs: &[u64]) -> Vec<u64> {
    pcs.iter().enumerate().map(|(depth, &pc)| if depth == 0 { pc } else { pc - 1 }).collect()
}

/// Counts and addresses in `go tool pprof -raw`, sorted; `None`, with a note, without go.
fn chains_seen_by_pprof(name: &str, bytes: &[u8]) -> Option<Vec<(u64, Vec<u64>)>> {
    let file = TemporaryFile::new(name, bytes);
    let output = Command::new("go")
        .args(["tool", "pprof", "-symbolize=none", "-raw"])
        .arg(&file.0)
        .env("PPROF_TMPDIR", std::env::temp_dir())
        .output();
    let output = match output {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("no such tool") => output,
        _ => {
            skip(Lack::Tool, "go tool pprof cannot be run");
            return None;
        }
    };
    assert!(output.status.success(), "{output:?}");
    Some(parse_raw(&output))
}

fn parse_raw(output: &Output) -> Vec<(u64, Vec<u64>)> {
    let text = String::from_utf8_lossy(&output.stdout);
    let (samples, rest) = text
        .split_once("Samples:\n")
        .and_then(|(_, rest)| rest.split_once("Locations\n"))
        .expect("the sections");
    let locations: Vec<u64> = rest
        .lines()
        .take_while(|line| !line.starts_with("Mappings"))
        .map(|line| line.split_whitespace().nth(1).expect("an address"))
        .map(|address| u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("hexadecimal"))
        .collect();
    let mut chains: Vec<(u64, Vec<u64>)> = samples
        .lines()
        .skip(1)
        .map(|line| {
            let (values, ids) = line.split_once(':').expect("values and locations");
            let count = values.split_whitespace().next().expect("a count").parse().expect("a number");
            let ids = ids.split_whitespace().map(|id| id.parse::<usize>().expect("an id"));
            (count, ids.map(|id| locations[id - 1]).collect())
        })
        .collect();
    chains.sort();
    chains
}

struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("sigprof-format-{name}-{}.prof", std::process::id()));
        std::fs::write(&path, bytes).expect("the directory for temporary files is writable");
        Self(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Marsaglia's xorshift: the same numbers in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 24
    }

    /// A number below `limit`; 0 if that is 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of each thread's calls.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn count_allocation() {
    // A thread that exits may have destroyed its counter; nothing reads it afterwards.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to `System` with unchanged arguments. Counting neither allocates nor
// unwinds, so the trait's contract is kept as by `System`.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: the layout's size is not 0, guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees a block from here, hence from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation();
        // SAFETY: the caller guarantees a block from here, hence from `System`, with this layout,
        // and a new size that is not 0 and does not overflow when rounded up.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
