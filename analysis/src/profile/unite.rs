//! Equal samples of one profile as one.
//!
//! Some who write profiles write a call chain each time that they meet it, some write a place in code anew for each sample, with a
//! number of its own and all else equal. Reports add up what a person takes for the same.

use super::{FunctionId, LabelSetId, LabelSets, LocationId, Profile};
use foldhash::fast::RandomState;
use std::{collections::HashMap, hash::Hash};

impl Profile {
    /// Makes one of all samples whose places and labels are equal, in the place of the first, with the sums of their values. Samples of
    /// which nothing is left, or was there, are gone.
    ///
    /// # Panics
    /// For a profile whose numbers do not fit together ([`Profile::check`]).
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

/// For each the place of the first that is equal; None where no two are.
fn firsts<T: Eq + Hash>(all: &[T]) -> Option<Vec<u32>> {
    let mut known: HashMap<&T, u32, RandomState> = HashMap::default();
    known.reserve(all.len());
    // Numbers of a profile have 32 bits.
    let places = all.iter().zip(0..);
    let first: Vec<u32> = places.map(|(one, place)| *known.entry(one).or_insert(place)).collect();
    (known.len() < all.len()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Function, Label, LabelValue, Line, Location};

    /// A profile in which nothing is there once: all functions, places and sets of labels are two.
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
    fn samples_are_equal_where_their_places_and_labels_are() {
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
    fn sums_that_do_not_fit_are_told() {
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
