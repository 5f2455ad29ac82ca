//! Samples as columns: a million of them are four vectors, not a million of each.

use super::{LabelSetId, LocationId};

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
    #[should_panic(expected = "a value for each sample type")]
    fn a_sample_of_another_width_is_refused() {
        Samples::new(2).push(&[], &[1], LabelSetId(0));
    }
}
