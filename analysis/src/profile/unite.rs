//! Combining of equal samples of one profile.
//!
//! Some writers repeat call stacks, or write equal locations with different IDs.

use super::{FunctionId, LabelSetId, LabelSets, LocationId, Profile};
use foldhash::fast::RandomState;
use std::{collections::HashMap, hash::Hash};

impl Profile {
    /// Combines samples with equal locations and labels into one, at the index of the first, with
    /// the sums of their values. Samples with only zeros are removed.
    ///
    /// # Panics
    /// If IDs are out of range ([`Profile::check`]).
    pub fn unite_equal_samples(&mut self) {
        if let Some(first) = firsts(&self.functions) {
            for line in self.locations.iter_mut().flat_map(|location| &mut location.lines) {
                line.function = FunctionId(first[line.function.index()]);
            }
        }
        if let Some(first) = firsts(&self.locations) {
            for id in self.samples.locations_mut() {
                *id = LocationId(first[id.index()]);
            }
        }
        let (mut known, mut sets) = (LabelSets::default(), vec![Vec::new()]);
        let first: Vec<LabelSetId> = self.label_sets.iter().map(|set| known.intern(&mut sets, set)).collect();
        for id in self.samples.labels_mut() {
            *id = first[id.index()];
        }
        self.label_sets = sets;
        self.is_clamped |= self.samples.add_up_equal();
        self.samples.drop_zeros();
    }
}

/// Returns for each item the index of the first equal one; None if all differ.
fn firsts<T: Eq + Hash>(all: &[T]) -> Option<Vec<u32>> {
    let mut known: HashMap<&T, u32, RandomState> = HashMap::default();
    known.reserve(all.len());
    // IDs of a profile have 32 bits.
    let places = all.iter().zip(0..);
    let first: Vec<u32> = places.map(|(one, place)| *known.entry(one).or_insert(place)).collect();
    (known.len() < all.len()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Function, Label, LabelValue, Line, Location};

    /// A profile with each function, location and set of labels twice.
    fn doubled() -> Profile {
        let mut profile = Profile::new(Profile::cpu_types());
        for _ in 0..2 {
            let id = FunctionId::at(profile.functions.len());
            let (name, file) = ("f".into(), "f.c".into());
            profile.functions.push(Function { system_name: "f".into(), name, file, start_line: 1 });
            let lines = vec![Line { function: id, line: 2, column: 0 }];
            profile.locations.push(Location { address: 16, lines, ..Location::default() });
            let value = LabelValue::Number(7, "".into());
            profile.label_sets.push(vec![Label { key: "tid".into(), value }]);
        }
        profile.locations.push(Location { address: 17, ..profile.locations[0].clone() });
        profile
    }

    #[test]
    fn combines_samples_with_equal_locations_and_labels() {
        let mut profile = doubled();
        // Location, values, labels.
        let samples = [
            (0, [1, 10], 1),
            (2, [1, 10], 1),
            (1, [2, 20], 2),
            (1, [4, 40], 0),
            (2, [-1, -10], 2),
            (0, [0, 0], 0),
        ];
        for (location, values, labels) in samples {
            profile.samples.push(&[LocationId(location)], &values, LabelSetId(labels));
        }
        profile.unite_equal_samples();
        assert_eq!(profile.check(), Ok(()));
        let found =
            profile.samples.iter().map(|sample| (sample.chain[0].0, sample.values.to_vec(), sample.labels.0));
        assert_eq!(found.collect::<Vec<_>>(), [(0, vec![3, 30], 1), (0, vec![4, 40], 0)]);
        assert_eq!(profile.locations[1].lines, profile.locations[0].lines);
    }

    #[test]
    fn marks_sums_beyond_64_bits() {
        for (value, expected) in [(i64::MAX, true), (i64::MAX / 2, false)] {
            let mut profile = doubled();
            for location in [0, 1] {
                profile.samples.push(&[LocationId(location)], &[1, value], LabelSetId(0));
            }
            profile.unite_equal_samples();
            assert_eq!(profile.is_clamped, expected, "{value}");
        }
    }
}
