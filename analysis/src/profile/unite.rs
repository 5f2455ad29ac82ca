//! Equal samples of one profile as one.
//!
//! Some who write profiles write a call chain each time that they meet it, some write a place in code anew for each sample, with a
//! number of its own and all else equal. Reports add up what a person takes for the same.

use super::{FunctionId, Label, LabelSetId, LabelValue, LocationId, Profile};
use foldhash::fast::RandomState;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash},
    sync::Arc,
};

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
        if let Some(first) = first_sets(&self.label_sets) {
            for id in self.samples.labels_mut() {
                *id = LabelSetId(first[id.index()]);
            }
        }
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

/// As [`firsts`]. A text of any length may be in each of many sets, so each text is read once, and known by a number then.
fn first_sets(sets: &[Vec<Label>]) -> Option<Vec<u32>> {
    let mut by_text: HashMap<&str, u32, RandomState> = HashMap::default();
    let mut by_place: HashMap<*const u8, u32, RandomState> = HashMap::default();
    for text in sets.iter().flatten().flat_map(texts) {
        by_place.entry(text.as_ptr()).or_insert_with(|| {
            let next = by_text.len() as u32;
            // Texts that are empty may lie in one place; that is no matter, since all of them are equal.
            *by_text.entry(text).or_insert(next)
        });
    }
    let number = |text: &Arc<str>| by_place.get(&text.as_ptr()).copied();
    let plain = |label: &Label| {
        let [key, other] = texts(label).map(number);
        let value = if let LabelValue::Number(value, _) = &label.value { Some(*value) } else { None };
        (key, other, value)
    };
    let hashes = RandomState::default();
    let hash = |set: &Vec<Label>| {
        let mut hasher = hashes.build_hasher();
        set.iter().for_each(|label| plain(label).hash(&mut hasher));
        std::hash::Hasher::finish(&hasher)
    };
    let mut known: HashTable<u32> = HashTable::with_capacity(sets.len());
    let first: Vec<u32> = sets
        .iter()
        .zip(0..)
        .map(|(set, place)| {
            let is_equal = |other: &u32| sets[*other as usize].iter().map(plain).eq(set.iter().map(plain));
            match known.entry(hash(set), is_equal, |other| hash(&sets[*other as usize])) {
                Entry::Occupied(first) => *first.get(),
                Entry::Vacant(vacant) => *vacant.insert(place).get(),
            }
        })
        .collect();
    (known.len() < sets.len()).then_some(first)
}

/// The texts of a label: its key, and its text or its unit.
fn texts(label: &Label) -> [&Arc<str>; 2] {
    let (LabelValue::Text(other) | LabelValue::Number(_, other)) = &label.value;
    [&label.key, other]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Function, Line, Location};

    #[test]
    fn sets_are_equal_by_what_their_texts_say() {
        let set = |key: &str, value: LabelValue| vec![Label { key: key.into(), value }];
        let text = |text: &str| LabelValue::Text(text.into());
        let sets = [
            vec![],
            set("a", text("b")),
            set("a", LabelValue::Number(0, "b".into())),
            set("a", text("b")),
            set("b", text("a")),
            set("a", LabelValue::Number(1, "b".into())),
            set("a", LabelValue::Number(0, "b".into())),
            vec![],
        ];
        assert_eq!(first_sets(&sets), Some(vec![0, 1, 2, 1, 4, 5, 2, 0]));
        assert_eq!(first_sets(&sets[..3]), None);
    }

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
