//! Values of a function on both sides of a comparison, and the noise of their difference.
//!
//! Sampling has an error: a function's number of samples `n` varies by about `sqrt(n)` between runs
//! (Poisson distribution). A sample of value `v` that represents `c` equal samples adds `v * v / c`
//! to the variance. A sample is added on each side, because a function without samples can have
//! used time: 0 beside 5 samples is noise and 0 beside 6 is not, as in the exact test at 5 %.

use crate::profile::{Profile, SampleRef};

/// Half width of the 95 % interval of a normal distribution, in standard deviations.
const WIDTH: f64 = 1.96;

/// A value on both sides of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// In the older profile.
    pub old: i64,
    /// In the newer profile.
    pub new: i64,
    /// Two equal runs differ by more in 1 of 20 cases; None if the profile has no sample counts.
    pub noise: Option<i64>,
}

impl Change {
    /// Returns the newer value minus the older one.
    pub fn difference(&self) -> i64 {
        self.new.saturating_sub(self.old)
    }

    /// False if the difference is within noise.
    pub fn is_significant(&self) -> bool {
        self.noise.is_none_or(|noise| self.difference().saturating_abs() > noise)
    }
}

/// Flat and cumulative changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The function itself.
    pub flat: Change,
    /// The function with its callees.
    pub cum: Change,
}

/// The two sides of a comparison.
#[derive(Debug)]
pub struct Sides {
    is_base: Vec<bool>,
    sample_type: usize,
    noise: Option<Noise>,
}

#[derive(Debug)]
struct Noise {
    /// The column with the number of samples.
    counts: usize,
    /// Factor by which the newer counts were multiplied.
    factor: f64,
    /// The largest value of a single sample; divisor of variances, so that sums do not overflow.
    largest: f64,
    /// Variance of the sample added on each side.
    added: f64,
}

impl Sides {
    /// Returns the sides of a profile from [`compare`](crate::profile::compare); otherwise None.
    pub fn of(profile: &Profile) -> Option<Self> {
        Self::of_type(profile, profile.default_type)
    }

    /// As [`of`](Self::of), for any sample type.
    pub(crate) fn of_type(profile: &Profile, sample_type: usize) -> Option<Self> {
        let is_base = profile.base_sets()?;
        let mut sides = Self { is_base, sample_type, noise: None };
        let counts = profile.sample_types.iter().position(|one| one.is_sample_count());
        sides.noise = counts.map(|counts| {
            let mut noise = Noise { counts, factor: profile.count_factor, largest: 0.0, added: 0.0 };
            // For each side: the sum of all values, and the number of samples.
            let mut sums = [(0.0, 0.0); 2];
            for sample in profile.samples.iter() {
                let is_base = sides.is_base(sample);
                let (value, count) = noise.sample(sample, sample_type, is_base);
                noise.largest = noise.largest.max(value / count);
                let sum = &mut sums[usize::from(is_base)];
                *sum = (sum.0 + value, sum.1 + count);
            }
            let mean = sums.map(|(value, count)| if count > 0.0 { value / count } else { 0.0 });
            // A side without samples uses the mean of the other.
            let value_of = |side: usize| if mean[side] > 0.0 { mean[side] } else { mean[1 - side] };
            noise.added = value_of(0) * value_of(0) + value_of(1) * value_of(1);
            noise
        });
        Some(sides)
    }

    /// True for a sample of the base.
    pub fn is_base(&self, sample: SampleRef<'_>) -> bool {
        self.is_base[sample.labels.index()]
    }

    /// The value in the base: 0 for a newer sample.
    pub(super) fn old(&self, sample: SampleRef<'_>) -> i64 {
        if self.is_base(sample) { sample.values[self.sample_type].saturating_neg() } else { 0 }
    }

    /// The variance of a sample, divided by the largest value of a sample.
    pub(crate) fn variance(&self, sample: SampleRef<'_>) -> i64 {
        let Some(noise) = &self.noise else { return 0 };
        let (value, count) = noise.sample(sample, self.sample_type, self.is_base(sample));
        #[expect(clippy::cast_possible_truncation, reason = "at most the value")]
        let variance = (value * (value / count / noise.largest)).round() as i64;
        variance
    }

    /// Returns `[factor, added]`: the noise of a sum is `sqrt(variance * factor + added)`, with the
    /// sum of [variances](Self::variance). None as in [`Change::noise`].
    pub(crate) fn noise_terms(&self) -> Option<[f64; 2]> {
        self.noise.as_ref().map(|noise| [noise.largest, noise.added].map(|term| WIDTH * WIDTH * term))
    }

    pub(crate) fn change(&self, difference: i64, old: i64, variance: i64) -> Change {
        let noise = self.noise_terms().map(|[factor, added]| {
            #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
            let noise = (variance as f64 * factor + added).sqrt().round() as i64;
            noise
        });
        Change { old, new: difference.saturating_add(old), noise }
    }

    /// Returns the change of the whole profile.
    pub fn total(&self, profile: &Profile) -> Change {
        let sum = |value: &dyn Fn(SampleRef<'_>) -> i64| {
            profile.samples.iter().fold(0_i64, |sum, sample| sum.saturating_add(value(sample)))
        };
        let difference = sum(&|sample| sample.values[self.sample_type]);
        self.change(difference, sum(&|sample| self.old(sample)), sum(&|sample| self.variance(sample)))
    }
}

impl Noise {
    /// Returns the absolute value of a sample, and how many equal samples it represents.
    fn sample(&self, sample: SampleRef<'_>, sample_type: usize, is_base: bool) -> (f64, f64) {
        let [value, count] = [sample_type, self.counts].map(|column| (sample.values[column] as f64).abs());
        let count = if is_base { count } else { count / self.factor };
        (value, if count > 0.0 { count } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        graph::{Graph, Trim, tests::profile},
        profile::{ValueType, compare},
    };
    use std::path::Path;

    /// A profile of samples of value 10, with a count for each stack.
    fn of(samples: &[(&str, i64)]) -> Profile {
        let mut made = profile(samples);
        for (row, (_, count)) in made.samples.values_mut().chunks_exact_mut(2).zip(samples) {
            row.copy_from_slice(&[*count, count * 10]);
        }
        made
    }

    fn compared(new: &[(&str, i64)], old: &[(&str, i64)]) -> Profile {
        let [new, old] = [new, old].map(of);
        compare((Path::new("new"), new), (Path::new("old"), old)).unwrap()
    }

    fn changes(profile: &Profile) -> Vec<(String, Changes)> {
        let mut nodes = Graph::values(profile).nodes;
        nodes.sort_by(|one, other| one.place.cmp(&other.place));
        nodes.into_iter().map(|node| (node.place.to_string(), node.changes.unwrap())).collect()
    }

    #[test]
    fn computes_both_sides_and_noise_of_a_function() {
        let profile = compared(&[("ba", 4), ("ca", 9)], &[("ba", 4), ("a", 3)]);
        let found = changes(&profile);
        let change = |old, new, variance: f64| Change {
            old,
            new,
            // A sample is added on each side.
            noise: Some((WIDTH * (100.0 * (variance + 2.0)).sqrt()).round() as i64),
        };
        let expected = [
            ("a", change(30, 0, 3.0), change(70, 130, 20.0)),
            // b did not change; it is kept although its difference is 0.
            ("b", change(40, 40, 8.0), change(40, 40, 8.0)),
            ("c", change(0, 90, 9.0), change(0, 90, 9.0)),
        ];
        let expected = expected.map(|(name, flat, cum)| (name.to_owned(), Changes { flat, cum }));
        assert_eq!(found, expected);
        assert_eq!(Sides::of(&profile).unwrap().total(&profile), change(70, 130, 20.0));
    }

    #[test]
    fn zero_and_five_samples_are_noise_but_zero_and_six_are_not() {
        for (count, is_significant) in [(5, false), (6, true)] {
            for profile in [
                compared(&[("a", count), ("b", 1)], &[("b", 1)]),
                compared(&[("b", 1)], &[("a", count), ("b", 1)]),
            ] {
                let found = changes(&profile);
                assert_eq!(found[0].1.flat.is_significant(), is_significant, "{count}");
            }
        }
        let kept = |only_significant| {
            let profile = compared(&[("a", 10), ("b", 40)], &[("a", 10), ("b", 10)]);
            let trimmed = Trim { only_significant, ..Trim::ALL }.values(&profile);
            (trimmed.graph.nodes.len(), trimmed.insignificant_nodes)
        };
        assert_eq!((kept(false), kept(true)), ((2, 0), (1, 1)));
    }

    #[test]
    fn filtered_comparison_with_one_side_keeps_its_changes() {
        let mut profile = compared(&[("a", 5), ("b", 3)], &[("b", 3)]);
        let before = changes(&profile);
        let samples = std::mem::take(&mut profile.samples);
        profile.samples = crate::profile::Samples::new(2);
        for sample in samples.iter().filter(|sample| sample.chain == samples.get(0).chain) {
            profile.samples.push(sample.chain, sample.values, sample.labels);
        }
        assert_eq!(changes(&profile), before[..1]);
    }

    #[test]
    fn more_samples_of_a_value_have_less_noise() {
        let of = |count: i64| {
            let mut new = of(&[("a", 1)]);
            new.samples.values_mut().copy_from_slice(&[count, 1000]);
            let profile = compare((Path::new("new"), new), (Path::new("old"), of_types(&[])));
            changes(&profile.unwrap())[0].1.flat.noise.unwrap()
        };
        // 1000 in total: ten samples of 100, or a thousand of 1.
        assert_eq!((of(10), of(1000)), (650, 62));
    }

    fn of_types(samples: &[(&str, i64)]) -> Profile {
        // A base with a sample but no time.
        let mut old = of(samples);
        old.samples.push(&[], &[0, 1], Default::default());
        old
    }

    #[test]
    fn has_no_noise_without_sample_counts() {
        let [new, old] = [("a", 1), ("a", 100)].map(|sample| {
            let mut made = of(&[sample]);
            made.sample_types[0] = ValueType::new("objects", "count");
            made
        });
        let profile = compare((Path::new("new"), new), (Path::new("old"), old)).unwrap();
        let change = changes(&profile)[0].1.flat;
        assert_eq!((change.noise, change.is_significant()), (None, true));
        assert!(Sides::of(&of(&[("a", 1)])).is_none());
    }
}
