//! Conversion of address stacks to the model: from CPU profiles, spools and profiles in memory.

use crate::profile::{
    Known, Label, LabelSetId, LabelSets, Location, LocationId, Mapping, MappingId, Profile, ValueType,
};
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Collects call stacks, then assigns their addresses to mapped objects.
///
/// Callers are return addresses. The model has the address to look up, one less. The runtime writes
/// the second frame of some records as one less already, so that google/pprof does not delete it as
/// a profiler frame (`src/format/second_frame.rs` of the crate `sigprof`). Both denote the same
/// call, as no call instruction has one byte; if both occur, the lower becomes the higher.
#[derive(Debug)]
pub(super) struct Chains {
    profile: Profile,
    nanos: i64,
    /// By the address to look up.
    places: HashMap<u64, LocationId, RandomState>,
    /// How each location occurs.
    occurrences: Vec<Occurrence>,
    label_sets: LabelSets,
    chain: Vec<LocationId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Occurrence {
    as_leaf: bool,
    as_caller: bool,
}

impl Chains {
    /// Creates an empty collection with a period of `period_micros`.
    pub(super) fn new(period_micros: u64) -> Self {
        let mut profile = Profile::new(Profile::cpu_types());
        let nanos = i64::try_from(period_micros).ok().and_then(|micros| micros.checked_mul(1000));
        profile.is_clamped = nanos.is_none();
        let nanos = nanos.unwrap_or(i64::MAX);
        profile.period = nanos;
        profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
        Self {
            profile,
            nanos,
            places: HashMap::default(),
            occurrences: Vec::new(),
            label_sets: LabelSets::default(),
            chain: Vec::new(),
        }
    }

    pub(super) fn reserve(&mut self, samples: usize, frames: usize) {
        self.profile.samples.reserve(samples, frames);
    }

    pub(super) fn labels(&mut self, labels: &[Label]) -> LabelSetId {
        self.label_sets.intern(&mut self.profile.label_sets, labels)
    }

    /// Adds `count` samples of one call stack, innermost frame first.
    pub(super) fn push(&mut self, count: u64, pcs: impl Iterator<Item = u64>, labels: LabelSetId) {
        self.chain.clear();
        for (depth, pc) in pcs.enumerate() {
            let address = if depth == 0 { pc } else { pc.saturating_sub(1) };
            let id = *self.places.entry(address).or_insert_with(|| {
                self.profile.locations.push(Location { address, ..Location::default() });
                self.occurrences.push(Occurrence::default());
                LocationId::at(self.occurrences.len() - 1)
            });
            let occurrence = &mut self.occurrences[id.index()];
            if depth == 0 {
                occurrence.as_leaf = true
            } else {
                occurrence.as_caller = true
            }
            self.chain.push(id);
        }
        let values = [i128::from(count), i128::from(count) * i128::from(self.nanos)].map(i64::try_from);
        self.profile.is_clamped |= values.iter().any(Result::is_err);
        self.profile.samples.push(&self.chain, &values.map(|value| value.unwrap_or(i64::MAX)), labels);
    }

    /// Returns the profile, with the executable `mappings`, of `process` if known.
    pub(super) fn finish(
        mut self,
        mappings: &[sigprof::format::Mapping<'_>],
        process: Option<u32>,
    ) -> Profile {
        self.unite_calls();
        let mut profile = self.profile;
        profile.is_clamped |= profile.samples.add_up_equal();
        profile.mappings = model_mappings(mappings, process);
        let mut places: Vec<(u64, u64, MappingId)> = profile
            .mappings
            .iter()
            .enumerate()
            .map(|(place, mapping)| (mapping.start, mapping.end, MappingId::at(place)))
            .collect();
        places.sort_unstable();
        for location in &mut profile.locations {
            let behind = places.partition_point(|&(start, _, _)| start <= location.address);
            let before = behind.checked_sub(1).map(|place| places[place]);
            location.mapping = before.filter(|&(_, end, _)| location.address < end).map(|(_, _, id)| id);
        }
        profile
    }

    /// Combines callers that denote the same call, and removes unused locations.
    fn unite_calls(&mut self) {
        let is_caller = |id: LocationId| self.occurrences[id.index()].as_caller;
        let mut calls: Vec<LocationId> = (0..self.occurrences.len()).map(LocationId::at).collect();
        let mut is_changed = false;
        for (location, call) in self.profile.locations.iter().zip(&mut calls) {
            let above = location.address.checked_add(1).and_then(|above| self.places.get(&above));
            if let Some(&above) = above.filter(|&&above| is_caller(*call) && is_caller(above)) {
                *call = above;
                is_changed = true;
            }
        }
        if !is_changed {
            return;
        }
        // Consecutive callers (damaged data) all become the highest: reading again changes nothing.
        let mut descending: Vec<LocationId> =
            calls.iter().enumerate().map(|(place, _)| LocationId::at(place)).collect();
        descending.sort_unstable_by_key(|id| std::cmp::Reverse(self.profile.location(*id).address));
        for id in descending {
            calls[id.index()] = calls[calls[id.index()].index()];
        }
        let mut is_used: Vec<bool> = self.occurrences.iter().map(|occurrence| occurrence.as_leaf).collect();
        for (occurrence, call) in self.occurrences.iter().zip(&calls) {
            is_used[call.index()] |= occurrence.as_caller;
        }
        let mut next = 0;
        let number = |&is_used: &bool| {
            let id = LocationId(next);
            next += u32::from(is_used);
            id
        };
        let numbers: Vec<LocationId> = is_used.iter().map(number).collect();
        self.profile.samples.rename(|depth, id| {
            let id = if depth == 0 { id } else { calls[id.index()] };
            numbers[id.index()]
        });
        let mut is_used = is_used.into_iter();
        self.profile.locations.retain(|_| is_used.next().unwrap_or(true));
    }
}

/// Returns the executable mappings, the program's first.
fn model_mappings(mappings: &[sigprof::format::Mapping<'_>], process: Option<u32>) -> Vec<Mapping> {
    let executable = mappings.iter().enumerate().filter(|(_, mapping)| mapping.is_executable());
    let mut model: Vec<Mapping> = executable
        .map(|(place, mapping)| {
            let first = moved_from(mappings, place);
            let of = first.unwrap_or(mapping);
            let (path, is_deleted) = of.file();
            Mapping {
                start: mapping.start,
                end: mapping.end,
                file_offset: first.map_or(mapping.offset, |first| mapping.start - first.start),
                file: PathBuf::from(OsStr::from_bytes(path)),
                build_id: String::from_utf8_lossy(&of.build_id).to_lowercase().into(),
                is_deleted,
                is_moved: first.is_some(),
                process,
                has: Known::default(),
            }
        })
        .collect();
    if let Some(main) = model.iter().position(|mapping| may_be_program(&mapping.file)) {
        model[..=main].rotate_right(1);
    }
    model
}

/// Returns the first mapping of the file that the code in `mappings[place]` was copied from, if it
/// is anonymous memory between two mappings of one file. Some programs copy code to huge pages.
fn moved_from<'a>(
    mappings: &'a [sigprof::format::Mapping<'a>],
    place: usize,
) -> Option<&'a sigprof::format::Mapping<'a>> {
    if !mappings[place].is_anonymous() {
        return None;
    }
    // The kernel's list is sorted by address; another list has no neighbours.
    let is_file =
        |mapping: &&sigprof::format::Mapping<'_>| mapping.path.starts_with(b"/") && !mapping.is_anonymous();
    let below = mappings[..place].iter().rev().find(|mapping| !mapping.is_anonymous()).filter(is_file)?;
    let above = mappings[place + 1..].iter().find(|mapping| !mapping.is_anonymous()).filter(is_file)?;
    let is_between = below.end <= mappings[place].start && mappings[place].end <= above.start;
    let is_first =
        |mapping: &&sigprof::format::Mapping<'_>| mapping.path == below.path && mapping.offset == 0;
    let first = mappings[..place].iter().rev().find(is_first)?;
    (is_between && above.path == below.path && first.start <= below.start).then_some(first)
}

/// Whether a file may be the program rather than a library, by its name, as in google/pprof.
fn may_be_program(file: &Path) -> bool {
    let name = file.as_os_str().as_bytes();
    let is_library = || {
        let mut behind = name.windows(3).enumerate().filter(|(_, bytes)| bytes == b".so");
        behind.any(|(place, _)| match name.get(place + 3..) {
            Some([]) | None => true,
            Some([b'.' | b'_', rest @ ..]) => !rest.is_empty() && rest.iter().all(u8::is_ascii_digit),
            Some(_) => false,
        })
    };
    !name.is_empty() && !name.starts_with(b"[") && !name.starts_with(b"//") && !is_library()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sigprof::format::Mapping as Mapped;

    fn addresses(profile: &Profile) -> Vec<(i64, Vec<u64>)> {
        let address = |id: &LocationId| profile.location(*id).address;
        let sample = |sample: crate::profile::SampleRef<'_>| {
            (sample.values[0], sample.chain.iter().map(address).collect())
        };
        profile.samples.iter().map(sample).collect()
    }

    fn of(records: &[(u64, &[u64])]) -> Profile {
        let mut chains = Chains::new(10_000);
        for (count, pcs) in records {
            chains.push(*count, pcs.iter().copied(), LabelSetId(0));
        }
        let profile = chains.finish(&[], None);
        assert_eq!(profile.check(), Ok(()));
        profile
    }

    #[test]
    fn looks_callers_up_one_byte_earlier() {
        let profile = of(&[(3, &[0x100, 0x200, 0x100]), (2, &[0x1ff])]);
        assert_eq!(addresses(&profile), [(3, vec![0x100, 0x1ff, 0xff]), (2, vec![0x1ff])]);
        // A leaf and a caller at one address are one location.
        assert_eq!(profile.locations.len(), 3);
        assert_eq!((profile.period, profile.total(1)), (10_000_000, 50_000_000));
    }

    #[test]
    fn combines_two_addresses_of_the_same_call() {
        let profile = of(&[(3, &[0x100, 0x200, 0x300]), (2, &[0x100, 0x1ff, 0x300]), (1, &[0x108, 0x1ff])]);
        assert_eq!(addresses(&profile), [(5, vec![0x100, 0x1ff, 0x2ff]), (1, vec![0x108, 0x1ff])]);
        assert_eq!(profile.locations.len(), 4, "the place of the second way is gone");
    }

    #[test]
    fn leaves_innermost_frames_unchanged() {
        // 0x1fe is a leaf, one byte below a caller; 0x1ff is both a caller and a leaf.
        let profile = of(&[(1, &[0x1fe, 0x200]), (1, &[0x1ff, 0x200]), (1, &[0x1fe, 0x1ff])]);
        let expected = [(1, vec![0x1fe, 0x1ff]), (1, vec![0x1ff, 0x1ff])];
        assert_eq!(addresses(&profile)[1], expected[1]);
        assert_eq!(addresses(&profile)[0], (2, expected[0].1.clone()));
        assert_eq!(of(&[(1, &[5, 9]), (1, &[8])]).locations.len(), 2);
    }

    #[test]
    fn combines_consecutive_callers_into_the_highest() {
        let profile = of(&[(1, &[1, 11]), (1, &[1, 10]), (1, &[1, 12]), (1, &[0, 0, 1, u64::MAX])]);
        assert_eq!(addresses(&profile), [(3, vec![1, 11]), (1, vec![0, 0, 0, u64::MAX - 1])]);
    }

    #[test]
    fn counts_saturate_and_are_marked() {
        let is_clamped = |records: &[(u64, &[u64])]| of(records).is_clamped;
        assert_eq!(addresses(&of(&[(u64::MAX, &[1])])), [(i64::MAX, vec![1])]);
        assert!(is_clamped(&[(u64::MAX, &[1])]));
        assert_eq!(Chains::new(u64::MAX).finish(&[], None).period, i64::MAX);
        assert!(Chains::new(u64::MAX).finish(&[], None).is_clamped);
        // Periods of 10 ms: the count fits in 64 bits, the time does not.
        let most = i64::MAX as u64 / 10_000_000;
        assert!(is_clamped(&[(most + 1, &[1])]) && !is_clamped(&[(most, &[1])]));
        // Each of two records fits, their sum does not.
        assert!(is_clamped(&[(most, &[1]), (1, &[1])]) && !is_clamped(&[(most, &[1]), (1, &[2])]));
    }

    #[test]
    fn assigns_addresses_to_mappings_and_puts_the_program_first() {
        let lines = [
            &b"1000-2000 r-xp 00000000 08:01 7 /lib/libc.so.6"[..],
            b"2000-3000 r-xp 00001000 08:01 7 /lib/libc.so.6",
            b"3000-4000 rw-p 00000000 00:00 0 [heap]",
            b"5000-6000 r-xp 00000000 08:01 8 /bin/a program (deleted)",
            b"7000-8000: /lib/x.so (@200) ABCDEF",
        ];
        let mappings: Vec<Mapped<'_>> = lines.iter().filter_map(|line| Mapped::parse_line(line)).collect();
        let mut chains = Chains::new(1);
        let expected =
            [(0x5000, Some(0)), (0xfff, None), (0x1fff, Some(1)), (0x2000, Some(2)), (0x3000, None)];
        let expected = [&expected[..], &[(0x7fff, Some(3)), (0x8000, None)]].concat();
        for (leaf, _) in &expected {
            chains.push(1, [*leaf].into_iter(), LabelSetId(0));
        }
        let profile = chains.finish(&mappings, Some(9));
        let names: Vec<_> = profile.mappings.iter().map(|mapping| mapping.file.to_str().unwrap()).collect();
        assert_eq!(names, ["/bin/a program", "/lib/libc.so.6", "/lib/libc.so.6", "/lib/x.so"]);
        assert!(profile.mappings[0].is_deleted && !profile.mappings[1].is_deleted);
        assert_eq!((&*profile.mappings[3].build_id, profile.mappings[3].file_offset), ("abcdef", 0x200));
        assert_eq!(profile.mappings[3].process, Some(9));
        let place = |location: &Location| (location.address, location.mapping.map(|id| id.0));
        assert_eq!(profile.locations.iter().map(place).collect::<Vec<_>>(), expected);
    }

    /// `/proc/PID/maps` after a program moved its code.
    #[test]
    fn assigns_anonymous_memory_between_mappings_of_a_file_to_it() {
        let model = |lines: &[&str]| {
            let mappings: Vec<Mapped<'_>> =
                lines.iter().map(|line| Mapped::parse_line(line.as_bytes()).unwrap()).collect();
            let of = |mapping: &Mapping| {
                (
                    mapping.start,
                    mapping.file.to_str().unwrap().to_owned(),
                    mapping.file_offset,
                    mapping.is_moved,
                )
            };
            model_mappings(&mappings, None).iter().map(of).collect::<Vec<_>>()
        };
        let (first, text, last) = (
            "10000-11000 r--p 00000000 08:01 7 /bin/x",
            "11000-12000 r-xp 00001000 08:01 7 /bin/x",
            "14000-15000 rw-p 00003000 08:01 7 /bin/x",
        );
        for memory in ["", "/anon_hugepage (deleted)", "[anon:text]", "/memfd:x (deleted)"] {
            let moved = format!("12000-14000 r-xp 00000000 00:00 0 {memory}");
            let found = model(&[first, text, &moved, last]);
            let expected = (0x12000, "/bin/x".to_owned(), 0x2000, true);
            assert_eq!(found, [(0x11000, "/bin/x".to_owned(), 0x1000, false), expected.clone()], "{memory}");
            // All code was moved.
            assert_eq!(model(&[first, &moved, last]), [expected]);
        }
        let moved = "12000-14000 r-xp 00000000 00:00 0";
        let alone = [(0x12000, String::new(), 0, false)];
        assert_eq!(model(&[first, moved]), alone);
        assert_eq!(model(&[moved, last]), alone);
        assert_eq!(model(&[first, moved, "14000-15000 rw-p 00003000 08:01 7 /bin/y"]), alone);
        assert_eq!(model(&[&first.replace("00000000", "00005000"), moved, last]), alone);
        assert_eq!(model(&[first, "11000-12000 rw-p 00000000 00:00 0 [heap]", moved, last]), alone);
    }

    #[test]
    fn distinguishes_programs_from_libraries() {
        for file in ["/lib/libc.so", "/lib/libc.so.6", "/x.so_1", "[vdso]", "", "//anon"] {
            assert!(!may_be_program(Path::new(file)), "{file}");
        }
        for file in ["/bin/sh", "/lib/x.so.d/prog", "/x.so.", "/libc.so.6.debug", "/a.sox"] {
            assert!(may_be_program(Path::new(file)), "{file}");
        }
    }
}
