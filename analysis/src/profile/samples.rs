//! Samples as columns: a million of them are four vectors, not a million of each.

use super::{LabelSetId, LocationId};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher as _;

/// The samples of a profile, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    width: usize,
    /// `width` of each sample.
    values: Vec<i64>,
    /// All chains, one behind the other.
    locations: Vec<LocationId>,
    /// Where each sample's chain ends in `locations`; it begins where that of the one before ends.
    ends: Vec<usize>,
    labels: Vec<LabelSetId>,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRef<'a> {
    /// Its call chain, innermost first; may be empty.
    pub chain: &'a [LocationId],
    /// A value for each of the profile's sample types.
    pub values: &'a [i64],
    /// Its labels.
    pub labels: LabelSetId,
}

impl Samples {
    /// None yet, of `width` values each.
    pub fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    /// Makes room for `samples` more, with `frames` in all.
    pub fn reserve(&mut self, samples: usize, frames: usize) {
        self.values.reserve(samples.saturating_mul(self.width));
        self.ends.reserve(samples);
        self.labels.reserve(samples);
        self.locations.reserve(frames);
    }

    /// Adds one.
    ///
    /// # Panics
    /// Where `values` are not [`width`](Self::width) many.
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

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of frames of all chains.
    pub fn frames(&self) -> usize {
        self.locations.len()
    }

    /// The sample at `place`.
    ///
    /// # Panics
    /// Where there are not so many.
    pub fn get(&self, place: usize) -> SampleRef<'_> {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        SampleRef {
            chain: &self.locations[begin..self.ends[place]],
            values: &self.values[place * self.width..(place + 1) * self.width],
            labels: self.labels[place],
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SampleRef<'_>> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// Puts other locations in the place of those of all chains; `new_id` gets the depth of each, 0 for the innermost.
    pub fn rename(&mut self, mut new_id: impl FnMut(usize, LocationId) -> LocationId) {
        let mut begin = 0;
        for &end in &self.ends {
            for (depth, id) in self.locations[begin..end].iter_mut().enumerate() {
                *id = new_id(depth, *id);
            }
            begin = end;
        }
    }

    /// Makes one of all samples that have the same chain and the same labels; it stands in the place of the first of them, and
    /// its values are their sums, which saturate. Tells whether one did.
    #[must_use]
    pub fn add_up_equal(&mut self) -> bool {
        let mut is_clamped = false;
        let hashes = RandomState::default();
        // With the hash: as the table grows, no chain is read again.
        let mut known: HashTable<(u32, u32)> = HashTable::new();
        // The table looks at both ends of a hash.
        let spread = |hash: u32| u64::from(hash) << 32 | u64::from(hash);
        let (mut kept, mut kept_frames, mut begin) = (0, 0, 0);
        for place in 0..self.len() {
            let (end, labels) = (self.ends[place], self.labels[place]);
            let hash = hashes.hash_one((&self.locations[begin..end], labels)) as u32;
            // What is known has moved down to its new place already.
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

    /// Leaves out the samples whose values are all 0.
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

    /// Multiplies one value of each sample by `factor`. True if a product did not fit, and saturated.
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

    /// Puts the sample at `place`, whose chain begins at `begin`, to an earlier place.
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

    /// The locations of all chains, to be replaced by others in their place.
    pub fn locations_mut(&mut self) -> &mut [LocationId] {
        &mut self.locations
    }

    /// The values of all samples, [`width`](Self::width) of each.
    pub fn values_mut(&mut self) -> &mut [i64] {
        &mut self.values
    }

    /// The sets of labels, one of each sample.
    pub fn labels_mut(&mut self) -> &mut [LabelSetId] {
        &mut self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back_as_they_were_given() {
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
    fn equal_samples_are_added_up_where_the_first_stood() {
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
    fn samples_of_which_nothing_is_left_are_dropped() {
        let mut samples = Samples::new(2);
        for (id, values) in [(1, [0, 0]), (2, [0, -1]), (3, [0, 0]), (4, [7, 0])] {
            samples.push(&[LocationId(id), LocationId(9)], &values, LabelSetId(id));
        }
        samples.drop_zeros();
        let found = samples.iter().map(|sample| (sample.chain[0].0, sample.values.to_vec(), sample.labels.0));
        assert_eq!(found.collect::<Vec<_>>(), [(2, vec![0, -1], 2), (4, vec![7, 0], 4)]);
    }

    #[test]
    fn columns_are_kept_and_multiplied() {
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
    fn many_samples_are_added_up_as_a_map_would() {
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
    fn a_sample_of_another_width_is_refused() {
        Samples::new(2).push(&[], &[1], LabelSetId(0));
    }
}
