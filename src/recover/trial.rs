//! Recovery of spools from arbitrary bytes, for tests and fuzzing only.

use super::profile::write_profile;
use crate::format::{
    CpuProfile, SlotWidth,
    spool::{ARENA, Head, OBJECTS, SpoolSource, SpooledRecord, TEXT, THREADS, thread_of},
};
use std::io;

/// A spool with the start of each of its five parts; the gaps are zeros.
pub(crate) struct Sparse<'b> {
    pub(crate) parts: [(usize, &'b [u8]); 5],
}

impl<'b> Sparse<'b> {
    /// Reads the lengths of the first four parts (two bytes each, little endian), then the parts.
    pub(crate) fn new(bytes: &'b [u8]) -> Option<Self> {
        let (&[a, b, c, d, e, f, g, h], mut rest) = bytes.split_first_chunk::<LENGTHS>()?;
        let mut take = |low, high| {
            let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
            let (taken, left) = rest.split_at(length);
            rest = left;
            taken
        };
        let (head, text, objects, threads) = (take(a, b), take(c, d), take(e, f), take(g, h));
        let parts = [(0, head), (TEXT, text), (OBJECTS, objects), (THREADS, threads), (ARENA, rest)];
        Some(Self { parts })
    }

    pub(crate) fn length(&self) -> usize {
        let [.., (start, last)] = self.parts;
        start + last.len()
    }
}

impl SpoolSource for Sparse<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.length());
        let length = buffer.len().min(self.length() - start);
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        buffer.fill(0);
        for (place, part) in self.parts {
            for (i, &byte) in part.iter().enumerate() {
                if let Some(to) = (place + i).checked_sub(start).and_then(|at| buffer.get_mut(at)) {
                    *to = byte;
                }
            }
        }
        Ok(length)
    }
}

const LENGTHS: usize = 8;

/// Reads a spool, and writes and reads its profile; returns its records, None if it is refused.
pub(crate) fn any_bytes(bytes: &[u8]) -> Option<usize> {
    let source = Sparse::new(bytes)?;
    let head = Head::read(&source).ok()?;
    let records = head.records(&source).expect("this source has no errors");
    let mut mappings = head.mappings(&source).expect("this source has no errors");
    let threads = head.threads(&source).expect("this source has no errors");
    let is_right = |record: &SpooledRecord| {
        let is_known = thread_of(&threads, record.thread).is_none_or(|thread| thread.id != 0);
        let is_marked = (record.thread != 0) == head.is_by_thread;
        let is_chain = (1..=4096).contains(&record.pcs.len()) && !record.pcs.contains(&0);
        record.count > 0 && is_chain && is_known && is_marked
    };
    assert!(records.iter().all(is_right), "no record of a session");
    let held: usize = records.iter().map(|record| 2 + record.pcs.len()).sum();
    assert!(held * head.word_bytes <= source.length() - ARENA, "more records than bytes");
    mappings.sort_by_key(|mapping| mapping.start);
    assert!(mappings.iter().all(|mapping| mapping.start < mapping.end));
    assert!(mappings.is_sorted_by(|one, next| one.end <= next.start), "one place has two names");
    let mut written = Vec::new();
    // The spill file has the bytes of the arena.
    let [.., (_, tail)] = source.parts;
    let spilled = Sparse { parts: [(0, tail), (0, &[]), (0, &[]), (0, &[]), (0, tail)] };
    let sum =
        write_profile(&head, Some(&spilled), &records, &mappings, &mut written).expect("a vector takes all");
    let spilled_bytes = head
        .spilled
        .as_ref()
        .map_or(0, |spilled| usize::try_from(spilled.bytes).unwrap_or(usize::MAX))
        .min(tail.len());
    let (spilled_records, _) = head.spilled_records(tail.get(..spilled_bytes).unwrap_or_default());
    let profile = CpuProfile::parse(&written).expect("what was written can be read");
    assert_eq!(profile.period_micros, head.period_micros);
    assert_eq!(profile.layout.width == SlotWidth::Four, head.word_bytes == 4);
    let samples: u128 = records.iter().chain(&spilled_records).map(|record| u128::from(record.count)).sum();
    assert_eq!(profile.total_samples(), samples, "no sample is lost on the way");
    assert_eq!(u128::from(sum), samples.min(u64::MAX.into()), "what is told is what was written");
    assert_eq!(profile.mappings.len(), mappings.len());
    Some(records.len())
}

#[cfg(not(loom))]
pub(crate) fn any_input(bytes: &[u8]) {
    any_bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        double_buffer::{BufferState, Other},
        spool::{
            MAGIC, MAX_OBJECTS, OBJECT_BYTES, OBJECT_SEGMENTS, PATHS, Spilled, SpoolState, THREAD_BYTES,
            VERSION, field,
        },
    };
    use std::{fs, path::Path};

    const OBJECT_NAME: usize = 8 * (3 + 3 * OBJECT_SEGMENTS);

    /// Joins the parts for [`Sparse::new`].
    fn joined(head: &[u8], text: &[u8], objects: &[u8], threads: &[u8], records: &[u8]) -> Vec<u8> {
        let lengths = [head, text, objects, threads].map(|part| (part.len() as u16).to_le_bytes());
        [lengths.as_flattened(), head, text, objects, threads, records].concat()
    }

    fn small(word_bytes: usize, words: &[u64]) -> Vec<u8> {
        with_threads(word_bytes, words, &[])
    }

    fn with_threads(word_bytes: usize, words: &[u64], threads: &[(u64, &[u8])]) -> Vec<u8> {
        let text =
            b"1000-2000 r-xp 00000000 08:01 7                  /a program\n5000-6000 r-xp 10 08:01 8 /old\n";
        let numbers = [
            (field::MAGIC, MAGIC),
            (field::VERSION, VERSION),
            (field::WORD_BYTES, word_bytes as u64),
            (field::STATE, SpoolState::Running as u64),
            (field::PROCESS, 17),
            (field::PERIOD_MICROS, 10_000),
            (field::ARENA_BYTES, (word_bytes * words.len()) as u64),
            (field::TEXT_BYTES, text.len() as u64),
            (field::OBJECTS, 2),
            (field::TARGET_BYTES, 2),
            (field::PROGRAM_BYTES, 2),
            (field::IS_BY_THREAD, u64::from(!threads.is_empty())),
        ];
        let mut head = vec![0; PATHS];
        for (offset, number) in numbers {
            head[offset..offset + 8].copy_from_slice(&number.to_ne_bytes());
        }
        head.extend(b"/t/p");
        let mut objects = vec![0; 2 * OBJECT_BYTES];
        for (i, (sighting, start)) in [(2u64, 0x5800u64), (1, 0x9000)].into_iter().enumerate() {
            for (j, number) in [sighting, 4, 1, start, start + 0x1000, 0x40].into_iter().enumerate() {
                let at = i * OBJECT_BYTES + 8 * j;
                objects[at..at + 8].copy_from_slice(&number.to_ne_bytes());
            }
            objects[i * OBJECT_BYTES + OBJECT_NAME..][..4].copy_from_slice(b"/new");
        }
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes().into_iter().take(word_bytes));
        let mut entries = vec![0; threads.len() * THREAD_BYTES];
        for (entry, (id, name)) in entries.chunks_mut(THREAD_BYTES).zip(threads) {
            entry[..8].copy_from_slice(&id.to_ne_bytes());
            entry[8..8 + name.len()].copy_from_slice(name);
        }
        joined(&head, text, &objects, &entries, &bytes.collect::<Vec<u8>>())
    }

    /// Records by known, unknown and invalid threads.
    fn by_thread() -> Vec<u8> {
        let mark = 0xffc0_5a6d_9e37_0000;
        let records = [
            &[3, mark | 3, 0x1010, 0x1020, 2][..],
            &[4, mark | 3, 0x1010, 0x1020, 3],
            &[5, mark | 3, 0x1010, 0x1020, 1],
            &[1, mark | 2, 0x1010, 4, 0, mark | 2, 0x1030, 0],
            &[6, mark | 2, 0x9010, u64::MAX, 7, mark | 1, 2],
        ];
        with_threads(8, &records.concat(), &[(41, b"one"), (42, b"two\n\xff"), (1 << 32, b"none"), (0, b"")])
    }

    fn wide() -> Vec<u8> {
        let mark = 0xffc0_5a6d_9e37_0000;
        small(8, &[3, mark | 2, 0x1010, 0x1020, 0, mark | 3, 0x1030, 0, 0, 0, 0, 1, mark | 1, 0x9010])
    }

    fn narrow() -> Vec<u8> {
        let mark = 0xffc0_0000;
        small(4, &[u64::from(u32::MAX), mark | 2, 0x1010, 0x1020, 0, 0, 1, mark | 1, 0x5810])
    }

    /// Two halves of seven words; the first one is spilled up to its third word.
    fn halves() -> Vec<u8> {
        let mark = 0xffc0_5a6d_9e37_0000;
        let first = [2, 1, 0x1010, 5, mark | 1, 0x1020, 0];
        let second = [1, mark | 2, 0x1030, 0x1040, 4, mark | 1, 0x1050];
        let mut bytes = small(8, &[first, second].concat());
        let state = BufferState { active: 1, other: Other::Records(3), spilled: 3 };
        for (offset, number) in [
            (field::HALF_WORDS, 7),
            (field::BUFFER_STATE, state.word()),
            (field::SPILLED_WORDS, 3),
            (field::SPILLED_PERIODS, 2),
        ] {
            bytes[LENGTHS + offset..LENGTHS + offset + 8].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[LENGTHS + field::SPILL_NAME..][..12].copy_from_slice(b".sigprof-0.r");
        bytes[LENGTHS + field::SPILL_NAME + 12..][..6].copy_from_slice(b"ecords");
        bytes
    }

    #[test]
    fn reads_records_of_both_halves_and_of_the_spill_file() {
        let bytes = halves();
        let source = Sparse::new(&bytes).unwrap();
        let head = Head::read(&source).unwrap();
        assert_eq!(head.spilled, Some(Spilled { bytes: 24, periods: 2 }));
        assert_eq!(head.spill_name.as_deref(), Some(&b".sigprof-0.records"[..]));
        let records = head.records(&source).unwrap();
        let record = |count, pcs: &[u64]| SpooledRecord { count, pcs: pcs.to_vec(), thread: 0 };
        assert_eq!(records, [record(5, &[0x1020]), record(1, &[0x1030, 0x1040]), record(4, &[0x1050])]);
        let file = [2u64, 1, 0x1010, 9, 1, 0x9999].map(u64::to_ne_bytes).concat();
        assert_eq!(head.spilled_records(&file[..24]), (vec![record(2, &[0x1010])], 24));
        for (state, expected) in [
            (BufferState { active: 1, other: Other::Clearing, spilled: 3 }, 2),
            (BufferState { active: 0, other: Other::Clean, spilled: 3 }, 1),
            (BufferState { active: 0, other: Other::Records(4), spilled: 0 }, 2),
        ] {
            let mut bytes = bytes.clone();
            bytes[LENGTHS + field::BUFFER_STATE..][..8].copy_from_slice(&state.word().to_ne_bytes());
            let source = Sparse::new(&bytes).unwrap();
            assert_eq!(Head::read(&source).unwrap().records(&source).unwrap().len(), expected, "{state:?}");
        }
    }

    #[test]
    fn writes_a_profile_without_threads_from_a_spool_by_thread() {
        let bytes = by_thread();
        let source = Sparse::new(&bytes).unwrap();
        let head = Head::read(&source).unwrap();
        let (threads, records) = (head.threads(&source).unwrap(), head.records(&source).unwrap());
        let shown: Vec<_> = records
            .iter()
            .map(|record| {
                let thread = thread_of(&threads, record.thread);
                (record.count, record.pcs[0], thread.map(|thread| (thread.id, thread.name.to_string())))
            })
            .collect();
        let expected = [
            (3, 0x1010, Some((41, "one".to_owned()))),
            (4, 0x1010, Some((42, "two \u{fffd}".to_owned()))),
            (5, 0x1010, None),
            (1, 0x1010, None),
            (6, 0x9010, None),
        ];
        assert_eq!(shown, expected);
        let mut written = Vec::new();
        let mappings = head.mappings(&source).unwrap();
        let none: Option<&Sparse<'_>> = None;
        assert_eq!(write_profile(&head, none, &records, &mappings, &mut written).unwrap(), 19);
        let profile = CpuProfile::parse(&written).unwrap();
        let mut counts: Vec<_> =
            profile.records.iter().map(|record| (record.pcs.len(), record.count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [(1, 1), (1, 6), (2, 12)]);
    }

    #[test]
    fn writes_records_that_cannot_be_added_up_several_times() {
        let bytes = by_thread();
        let source = Sparse::new(&bytes).unwrap();
        let head = Head::read(&source).unwrap();
        let mut records = vec![SpooledRecord { count: u64::MAX, pcs: vec![1, 2], thread: 1 }; 2];
        records.extend((0..3000).map(|i| SpooledRecord { count: 1, pcs: vec![i % 2000 + 9], thread: 1 }));
        let mut written = Vec::new();
        let none: Option<&Sparse<'_>> = None;
        write_profile(&head, none, &records, &[], &mut written).unwrap();
        let profile = CpuProfile::parse(&written).unwrap();
        assert_eq!(profile.total_samples(), 2 * u128::from(u64::MAX) + 3000);
    }

    #[test]
    fn ignores_a_spill_file_with_an_invalid_name() {
        for name in [&b".sigprof-/../x.records"[..], b"other.records", b".sigprof-0", b""] {
            let mut bytes = halves();
            bytes[LENGTHS + field::SPILL_NAME..][..32].fill(0);
            bytes[LENGTHS + field::SPILL_NAME..][..name.len()].copy_from_slice(name);
            assert_eq!(Head::read(&Sparse::new(&bytes).unwrap()).unwrap().spilled, None);
        }
    }

    /// `BLESS=1` writes the files.
    #[test]
    fn reads_all_seeds_of_the_fuzzer() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/spool");
        let seeds_and_records = [
            ("words_of_8", wide(), 2),
            ("words_of_4", narrow(), 2),
            ("halves", halves(), 3),
            ("by_thread", by_thread(), 5),
        ];
        for (name, seed, records) in seeds_and_records {
            assert_eq!(any_bytes(&seed), Some(records), "{name}");
            if std::env::var_os("BLESS").is_some() {
                fs::write(seeds.join(name), &seed).unwrap();
            }
            assert_eq!(fs::read(seeds.join(name)).unwrap(), seed, "{name}");
        }
    }

    #[test]
    fn refuses_damaged_spools_or_writes_a_valid_profile() {
        let mut state = 1u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % limit
        };
        let (mut taken, mut refused) = (0, 0);
        for round in 0..4000 {
            let mut bytes = [wide, narrow, halves, by_thread][round % 4]();
            for _ in 0..=below(4) {
                let at = below(bytes.len());
                bytes[at] = [below(256) as u8, 0, 0xff, 1][below(4)];
            }
            if below(8) == 0 {
                bytes.truncate(below(bytes.len()));
            }
            match any_bytes(&bytes) {
                Some(_) => taken += 1,
                None => refused += 1,
            }
        }
        assert!(taken > 1000 && refused > 100, "{taken} {refused}");
    }

    #[test]
    fn limits_the_sizes_that_a_head_claims() {
        let mut bytes = wide();
        for (offset, number) in [
            (field::ARENA_BYTES, u64::MAX),
            (field::TEXT_BYTES, u64::MAX),
            (field::OBJECTS, MAX_OBJECTS as u64 + 1),
        ] {
            bytes[LENGTHS + offset..LENGTHS + offset + 8].copy_from_slice(&number.to_ne_bytes());
        }
        assert_eq!(any_bytes(&bytes), Some(2));
    }
}
