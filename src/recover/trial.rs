//! Recovery of spools that are made of any bytes: for tests and fuzzing only.

use super::write_profile;
use crate::format::{
    CpuProfile, SlotWidth,
    spool::{ARENA, Head, OBJECTS, Source, TEXT},
};
use std::io;

/// A spool of which only the beginnings of its four parts are there; what lies between them is zeros.
struct Sparse<'b> {
    parts: [(usize, &'b [u8]); 4],
}

impl<'b> Sparse<'b> {
    /// Takes three lengths of two bytes, little endian, for what the first three parts get of the rest; the last part,
    /// the records, gets what is left.
    fn new(bytes: &'b [u8]) -> Option<Self> {
        let (&[a, b, c, d, e, f], mut rest) = bytes.split_first_chunk::<6>()?;
        let mut take = |low, high| {
            let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
            let (taken, left) = rest.split_at(length);
            rest = left;
            taken
        };
        let (head, text, objects) = (take(a, b), take(c, d), take(e, f));
        Some(Self { parts: [(0, head), (TEXT, text), (OBJECTS, objects), (ARENA, rest)] })
    }

    fn length(&self) -> usize {
        let [.., (start, last)] = self.parts;
        start + last.len()
    }
}

impl Source for Sparse<'_> {
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

/// Reads a spool that is made of `bytes`, and writes and reads its profile. Gives the number of its records; None for a
/// spool that is refused.
pub(crate) fn any_bytes(bytes: &[u8]) -> Option<usize> {
    let source = Sparse::new(bytes)?;
    let head = Head::read(&source).ok()?;
    let records = head.records(&source).expect("this source has no errors");
    let mut mappings = head.mappings(&source).expect("this source has no errors");
    let is_right =
        |(count, pcs): &(u64, Vec<u64>)| *count > 0 && (1..=4096).contains(&pcs.len()) && !pcs.contains(&0);
    assert!(records.iter().all(is_right), "no record of a session");
    let held: usize = records.iter().map(|(_, pcs)| 2 + pcs.len()).sum();
    assert!(held * head.word_bytes <= source.length() - ARENA, "more records than bytes");
    mappings.sort_by_key(|mapping| mapping.start);
    assert!(mappings.iter().all(|mapping| mapping.start < mapping.end));
    assert!(mappings.is_sorted_by(|one, next| one.end <= next.start), "one place has two names");
    let mut written = Vec::new();
    write_profile(&head, &records, &mappings, &mut written).expect("a vector takes all");
    let profile = CpuProfile::parse(&written).expect("what was written can be read");
    assert_eq!(profile.period_micros, head.period_micros);
    assert_eq!(profile.layout.width == SlotWidth::Four, head.word_bytes == 4);
    let samples: u128 = records.iter().map(|(count, _)| u128::from(*count)).sum();
    assert_eq!(profile.total_samples(), samples, "no sample is lost on the way");
    assert_eq!(profile.mappings.len(), mappings.len());
    Some(records.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::spool::{
        MAGIC, MOST_OBJECTS, OBJECT_BYTES, OBJECT_SEGMENTS, PATHS, State, VERSION, field,
    };
    use std::{fs, path::Path};

    /// Where the name stands in an object.
    const OBJECT_NAME: usize = 8 * (3 + 3 * OBJECT_SEGMENTS);

    /// Puts the four parts together as `Sparse` takes them apart.
    fn joined(head: &[u8], text: &[u8], objects: &[u8], records: &[u8]) -> Vec<u8> {
        let lengths = [head, text, objects].map(|part| (part.len() as u16).to_le_bytes());
        [lengths.as_flattened(), head, text, objects, records].concat()
    }

    /// A small spool with something of each kind, in words of so many bytes.
    fn small(word_bytes: usize, words: &[u64]) -> Vec<u8> {
        let text =
            b"1000-2000 r-xp 00000000 08:01 7                  /a program\n5000-6000 r-xp 10 08:01 8 /old\n";
        let numbers = [
            (field::MAGIC, MAGIC),
            (field::VERSION, VERSION),
            (field::WORD_BYTES, word_bytes as u64),
            (field::STATE, State::Running as u64),
            (field::PROCESS, 17),
            (field::PERIOD_MICROS, 10_000),
            (field::ARENA_BYTES, (word_bytes * words.len()) as u64),
            (field::TEXT_BYTES, text.len() as u64),
            (field::OBJECTS, 2),
            (field::TARGET_BYTES, 2),
            (field::PROGRAM_BYTES, 2),
        ];
        let mut head = vec![0; PATHS];
        for (offset, number) in numbers {
            head[offset..offset + 8].copy_from_slice(&number.to_ne_bytes());
        }
        head.extend(b"/t/p");
        let mut objects = vec![0; 2 * OBJECT_BYTES];
        for (i, (meeting, start)) in [(2u64, 0x5800u64), (1, 0x9000)].into_iter().enumerate() {
            for (j, number) in [meeting, 4, 1, start, start + 0x1000, 0x40].into_iter().enumerate() {
                let at = i * OBJECT_BYTES + 8 * j;
                objects[at..at + 8].copy_from_slice(&number.to_ne_bytes());
            }
            objects[i * OBJECT_BYTES + OBJECT_NAME..][..4].copy_from_slice(b"/new");
        }
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes().into_iter().take(word_bytes));
        joined(&head, text, &objects, &bytes.collect::<Vec<u8>>())
    }

    fn wide() -> Vec<u8> {
        let mark = 0xffc0_5a6d_9e37_0000;
        small(8, &[3, mark | 2, 0x1010, 0x1020, 0, mark | 3, 0x1030, 0, 0, 0, 0, 1, mark | 1, 0x9010])
    }

    fn narrow() -> Vec<u8> {
        let mark = 0xffc0_0000;
        small(4, &[u64::from(u32::MAX), mark | 2, 0x1010, 0x1020, 0, 0, 1, mark | 1, 0x5810])
    }

    /// The fuzzer begins with these. `BLESS=1` writes the files.
    #[test]
    fn the_fuzzers_seeds_are_spools() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/spool");
        for (name, seed) in [("words_of_8", wide()), ("words_of_4", narrow())] {
            assert_eq!(any_bytes(&seed), Some(2), "{name}");
            if std::env::var_os("BLESS").is_some() {
                fs::write(seeds.join(name), &seed).unwrap();
            }
            assert_eq!(fs::read(seeds.join(name)).unwrap(), seed, "{name}");
        }
    }

    /// What the fuzzer has found, or begins with, comes to no harm.
    #[test]
    fn all_seeds_come_to_a_valid_profile_or_none() {
        let seeds = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/spool")).unwrap();
        let mut replayed = 0;
        for seed in seeds {
            any_bytes(&fs::read(seed.unwrap().path()).unwrap());
            replayed += 1;
        }
        assert!(replayed >= 2);
    }

    #[test]
    fn damaged_spools_come_to_a_valid_profile_or_none() {
        let mut state = 1u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % limit
        };
        let (mut taken, mut refused) = (0, 0);
        for round in 0..4000 {
            let mut bytes = if round % 2 == 0 { wide() } else { narrow() };
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

    /// Sizes that the head claims, and the file does not have.
    #[test]
    fn what_a_head_claims_costs_nothing() {
        let mut bytes = wide();
        for (offset, number) in [
            (field::ARENA_BYTES, u64::MAX),
            (field::TEXT_BYTES, u64::MAX),
            (field::OBJECTS, MOST_OBJECTS as u64 + 1),
        ] {
            bytes[6 + offset..6 + offset + 8].copy_from_slice(&number.to_ne_bytes());
        }
        assert_eq!(any_bytes(&bytes), Some(2));
    }
}
