//! Comparison of a profile with an older one, its base: subtraction, or both sides in one profile.

use super::{Label, LabelSetId, LabelValue, Profile, label, merge::Merger};
use crate::error::Error;
use std::{path::Path, sync::Arc};

/// Subtracts `base` from `profile`, each with its file name. Values may become negative; samples
/// with only zeros are removed. As in pprof, the time is the earlier one, and the duration the sum.
///
/// # Errors
/// As for [`merge`](super::merge()).
///
/// # Panics
/// As for [`merge`](super::merge()).
pub fn subtract(profile: (&Path, Profile), mut base: (&Path, Profile)) -> Result<Profile, Error> {
    negate(&mut base.1);
    let mut merger = Merger::new(profile.0.into(), profile.1);
    merger.add(&base.1).map_err(|error| error.at(base.0))?;
    Ok(merger.finish())
}

/// Adds the samples of `base` to `profile`, with negated values and the label [`label::BASE`], as
/// pprof's `-diff_base` does. The sum of a function's values is its difference to the base, and the
/// label distinguishes both sides. Comments of the base get the prefix `old: `.
///
/// # Errors
/// As for [`merge`](super::merge()).
///
/// # Panics
/// As for [`merge`](super::merge()).
pub fn compare(profile: (&Path, Profile), mut base: (&Path, Profile)) -> Result<Profile, Error> {
    let older = &mut base.1;
    let mark = Label { key: label::BASE.into(), value: LabelValue::Text("true".into()) };
    let marked = older.label_sets.iter().map(|set| set.iter().chain([&mark]).cloned().collect());
    older.label_sets = std::iter::once(Vec::new()).chain(marked).collect();
    for labels in older.samples.labels_mut() {
        *labels = LabelSetId(labels.0 + 1);
    }
    for comment in &mut older.comments {
        // Comments for programs are recognised by their prefix.
        if !comment.starts_with('#') {
            *comment = Arc::from(format!("old: {comment}"));
        }
    }
    subtract(profile, base)
}

/// Scales the newer values of a [comparison](compare) so that the total of each sample type equals
/// that of the base. Types without positive totals on both sides are unchanged. False if the
/// profile is not a comparison, or if the default type was not scaled.
#[must_use]
pub fn normalize(profile: &mut Profile) -> bool {
    let Some(is_base) = profile.base_sets() else { return false };
    let is_base: Vec<bool> = profile.samples.iter().map(|sample| is_base[sample.labels.index()]).collect();
    let width = profile.samples.width();
    let mut is_scaled = false;
    for column in 0..width {
        let (mut older, mut newer) = (0.0, 0.0);
        for (sample, &is_base) in profile.samples.iter().zip(&is_base) {
            let sum = if is_base { &mut older } else { &mut newer };
            *sum += sample.values[column] as f64;
        }
        let ratio = -older / newer;
        if !(ratio.is_normal() && ratio > 0.0) {
            continue;
        }
        is_scaled |= column == profile.default_type;
        if profile.sample_types[column].is_sample_count() {
            profile.count_factor *= ratio;
        }
        // The accumulated rounding error: otherwise many samples of value 1 would all round alike.
        let mut rest = 0.0;
        for (row, is_base) in profile.samples.values_mut().chunks_exact_mut(width).zip(&is_base) {
            if !is_base {
                let exact = row[column] as f64 * ratio + rest;
                #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
                let scaled = exact.round() as i64;
                rest = exact - scaled as f64;
                row[column] = scaled;
            }
        }
    }
    is_scaled
}

fn negate(profile: &mut Profile) {
    for value in profile.samples.values_mut() {
        profile.is_clamped |= *value == i64::MIN;
        *value = value.saturating_neg();
    }
}
