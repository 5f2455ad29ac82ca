//! Samples stored as columns: a million samples need four vectors.

use super::{LabelSetId, LocationId};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

/// The samples of a profile, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    width: usize,
    /// `width` values for each sample.
    values: Vec<i64>,
    /// All call stacks, concatenated.
    locations: Vec<LocationId>,
    /// End of each sample's call stack in `locations`; the next one begins there.
    ends: Vec<usize>,
    labels: Vec<LabelSetId>,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRef<'a> {
    /// The call stack, innermost frame first; may be empty.
    pub chain: &'a [LocationId],
    /// A value for each of the profile's sample types.
    pub values: &'a [i64],
    /// The ID of its labels.
    pub labels: LabelSetId,
}

impl Samples {
    /// Creates an empty list with `width` values for each sample.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Reserves memory for `samples` more, with `frames` in total.
    pub fn reserve(&mut self, samples: usize, frames: usize) {
        self.values.reserve(samples.saturating_mul(self.width));
        self.ends.reserve(samples);
        self.labels.reserve(samples);
        self.locations.reserve(frames);
    }

    /// Adds a sample.
    ///
    /// # Panics
    /// If the number of `values` is not [`width`](Self::width).
    pub fn push(&mut self, chain: &[LocationId], values: &[i64], labels: LabelSetId) {
        assert_eq!(values.len(), self.width, "a value for each sample type");
        self.values.extend_from_slice(values);
        self.locations.extend_from_slice(chain);
        self.ends.push(self.locations.len());
        self.labels.push(labels);
    }

    /// Number of values of each sample.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of frames of all call stacks.
    pub fn frames(&self) -> usize {
        self.locations.len()
    }

    /// Returns the sample at index `place`.
    ///
    /// # Panics
    /// If `place` is out of range.
    pub fn get(&self, place: usize) -> SampleRef<'_> {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        SampleRef {
            chain: &self.locations[begin..self.ends[place]],
            values: &self.values[place * self.width..(place + 1) * self.width],
            labels: self.labels[place],
        }
    }

    /// Iterates over all samples.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SampleRef<'_>> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// Replaces all locations; `new_id` gets the depth of each, 0 for the innermost.
    pub fn rename(&mut self, mut new_id: impl FnMut(usize, LocationId) -> LocationId) {
        let mut begin = 0;
        for &end in &self.ends {
            for (depth, id) in self.locations[begin..end].iter_mut().enumerate() {
                *id = new_id(depth, *id);
            }
            begin = end;
        }
    }

    /// Combines equal call stacks and labels into the first; true if a sum of values saturated.
    #[must_use]
    pub fn add_up_equal(&mut self) -> bool {
        let mut is_clamped = false;
        let hashes = RandomState::default();
        // With the hash, so that no call stack is hashed again when the table grows.
        let mut known: HashTable<(u32, u32)> = HashTable::new();
        // The table uses both the low and the high bits of a hash.
        let spread = |hash: u32| u64::from(hash) << 32 | u64::from(hash);
        let (mut kept, mut kept_frames, mut begin) = (0, 0, 0);
        for place in 0..self.len() {
            let (end, labels) = (self.ends[place], self.labels[place]);
            let hash = hashes.hash_one((&self.locations[begin..end], labels)) as u32;
            // Samples in the table were already moved to their new index.
            let is_equal = |&(other_hash, other): &(u32, u32)| {
                other_hash == hash && {
                    let other = self.get(other as usize);
                    other.labels == labels && other.chain == &self.locations[begin..end]
                }
            };
            if let Some(&(_, first)) = known.find(spread(hash), is_equal) {
                for value in 0..self.width {
                    let added = self.values[place * self.width + value];
                    let sum = &mut self.values[first as usize * self.width + value];
                    is_clamped |= sum.checked_add(added).is_none();
                    *sum = sum.saturating_add(added);
                }
            } else {
                self.move_down(place, begin, kept, kept_frames);
                kept_frames += end - begin;
                if let Ok(number) = u32::try_from(kept) {
                    known.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
                }
                kept += 1;
            }
            begin = end;
        }
        self.cut(kept, kept_frames);
        is_clamped
    }

    /// Removes the samples with only zeros.
    pub fn drop_zeros(&mut self) {
        let (mut kept, mut kept_frames, mut begin) = (0, 0, 0);
        for place in 0..self.len() {
            let end = self.ends[place];
            let values = place * self.width..(place + 1) * self.width;
            if self.values[values].iter().any(|&value| value != 0) {
                self.move_down(place, begin, kept, kept_frames);
                kept += 1;
                kept_frames += end - begin;
            }
            begin = end;
        }
        self.cut(kept, kept_frames);
    }

    /// Keeps these values of each sample, in this order.
    ///
    /// # Panics
    /// If a column is not below [`width`](Self::width).
    pub fn keep_columns(&mut self, columns: &[usize]) {
        let rows = self.values.chunks_exact(self.width.max(1));
        self.values = rows.flat_map(|row| columns.iter().map(|&column| row[column])).collect();
        self.width = columns.len();
    }

    /// Multiplies one value of each sample by `factor`. True if a product saturated.
    ///
    /// # Panics
    /// If `column` is not below [`width`](Self::width).
    #[must_use]
    pub fn multiply(&mut self, column: usize, factor: i64) -> bool {
        let mut is_clamped = false;
        for row in self.values.chunks_exact_mut(self.width) {
            is_clamped |= row[column].checked_mul(factor).is_none();
            row[column] = row[column].saturating_mul(factor);
        }
        is_clamped
    }

    /// Moves the sample at `place`, with the call stack at `begin`, to an earlier index.
    fn move_down(&mut self, place: usize, begin: usize, to: usize, to_begin: usize) {
        let end = self.ends[place];
        self.locations.copy_within(begin..end, to_begin);
        self.values.copy_within(place * self.width..(place + 1) * self.width, to * self.width);
        self.ends[to] = to_begin + (end - begin);
        self.labels[to] = self.labels[place];
    }

    fn cut(&mut self, samples: usize, frames: usize) {
        self.ends.truncate(samples);
        self.labels.truncate(samples);
        self.values.truncate(samples * self.width);
        self.locations.truncate(frames);
    }

    /// Returns the locations of all call stacks, for replacement.
    pub fn locations_mut(&mut self) -> &mut [LocationId] {
        &mut self.locations
    }

    /// Returns the values of all samples, [`width`](Self::width) of each.
    pub fn values_mut(&mut self) -> &mut [i64] {
        &mut self.values
    }

    /// Returns the label set IDs, one for each sample.
    pub fn labels_mut(&mut self) -> &mut [LabelSetId] {
        &mut self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_samples_as_pushed() {
        let mut samples = Samples::new(2);
        assert!(samples.is_empty());
        let given: [(&[u32], [i64; 2], u32); 3] =
            [(&[7, 8], [1, 2], 0), (&[], [3, 4], 1), (&[9], [-5, 6], 2)];
        for (chain, values, labels) in given {
            let chain: Vec<LocationId> = chain.iter().copied().map(LocationId).collect();
            samples.push(&chain, &values, LabelSetId(labels));
        }
        assert_eq!((samples.len(), samples.frames()), (3, 3));
        for (sample, (chain, values, labels)) in samples.iter().zip(given) {
            let numbers: Vec<u32> = sample.chain.iter().map(|id| id.0).collect();
            assert_eq!((numbers.as_slice(), sample.values, sample.labels.0), (chain, &values[..], labels));
        }
    }

    #[test]
    fn adds_equal_samples_up_at_the_index_of_the_first() {
        let mut samples = Samples::new(2);
        let given: [(&[u32], [i64; 2], u32); 7] = [
            (&[1, 2], [1, 10], 0),
            (&[1, 2, 3], [2, 20], 0),
            (&[1, 2], [3, 30], 0),
            (&[1, 2], [4, 40], 1),
            (&[], [5, i64::MAX], 0),
            (&[1, 2, 3], [-6, -60], 0),
            (&[], [5, 1], 0),
        ];
        for (chain, values, labels) in given {
            let chain: Vec<LocationId> = chain.iter().copied().map(LocationId).collect();
            samples.push(&chain, &values, LabelSetId(labels));
        }
        assert!(samples.add_up_equal(), "the fifth and the last are beyond the largest number");
        let found =
            samples.iter().map(|sample| (sample.chain.len(), sample.values.to_vec(), sample.labels.0));
        let expected =
            [(2, vec![4, 40], 0), (3, vec![-4, -40], 0), (2, vec![4, 40], 1), (0, vec![10, i64::MAX], 0)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!((samples.len(), samples.frames()), (4, 7));
    }

    #[test]
    fn drops_samples_with_only_zeros() {
        let mut samples = Samples::new(2);
        for (id, values) in [(1, [0, 0]), (2, [0, -1]), (3, [0, 0]), (4, [7, 0])] {
            samples.push(&[LocationId(id), LocationId(9)], &values, LabelSetId(id));
        }
        samples.drop_zeros();
        let found = samples.iter().map(|sample| (sample.chain[0].0, sample.values.to_vec(), sample.labels.0));
        assert_eq!(found.collect::<Vec<_>>(), [(2, vec![0, -1], 2), (4, vec![7, 0], 4)]);
    }

    #[test]
    fn keeps_and_multiplies_columns() {
        let mut samples = Samples::new(3);
        samples.push(&[LocationId(1)], &[1, 2, 3], LabelSetId(0));
        samples.push(&[], &[4, i64::MIN, 6], LabelSetId(1));
        assert!(!samples.multiply(2, 1000));
        samples.keep_columns(&[2, 1]);
        let rows =
            |samples: &Samples| samples.iter().map(|sample| sample.values.to_vec()).collect::<Vec<_>>();
        assert_eq!(rows(&samples), [[3000, 2], [6000, i64::MIN]]);
        assert!(samples.multiply(1, 2));
        assert_eq!(rows(&samples), [[3000, 4], [6000, i64::MIN]]);
        assert_eq!((samples.width(), samples.get(0).chain.len()), (2, 1));
    }

    #[test]
    fn adds_many_samples_up_like_a_map() {
        let mut samples = Samples::new(1);
        let mut expected = std::collections::BTreeMap::new();
        let mut state = 1u32;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let chain: Vec<LocationId> =
                (0..state >> 30).map(|i| LocationId(state >> (20 + i) & 31)).collect();
            let labels = LabelSetId(state >> 12 & 1);
            samples.push(&chain, &[i64::from(state >> 8 & 15)], labels);
            *expected.entry((chain, labels)).or_insert(0) += i64::from(state >> 8 & 15);
        }
        assert!(!samples.add_up_equal());
        let found = samples.iter().map(|sample| ((sample.chain.to_vec(), sample.labels), sample.values[0]));
        assert_eq!(samples.len(), expected.len());
        assert_eq!(found.collect::<std::collections::BTreeMap<_, _>>(), expected);
    }

    #[test]
    #[should_panic(expected = "a value for each sample type")]
    fn panics_for_a_sample_of_another_width() {
        Samples::new(2).push(&[], &[1], LabelSetId(0));
    }
}
