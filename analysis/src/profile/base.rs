//! A profile beside an older one, its base: the difference of both, or both apart for a comparison.

use super::{Label, LabelSetId, LabelValue, Profile, label, merge::Merger};
use crate::error::Error;
use std::{path::Path, sync::Arc};

/// Subtracts the values of `base` from those of `profile`; each comes with the name of its file. Values may become negative.
/// Samples are left out if all of their values are 0. As in pprof, the time is the earlier of both, and the duration the sum.
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

/// Puts the samples of `base` beside those of `profile`, with negative values and the label [`label::BASE`], as `-diff_base` of
/// pprof does: the sum of a function's values is what it has more than in the base, and both sides can be told apart. The
/// comments of the base begin with `old: `.
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
        // Those for programs are read by how they begin.
        if !comment.starts_with('#') {
            *comment = Arc::from(format!("old: {comment}"));
        }
    }
    subtract(profile, base)
}

/// Multiplies the newer values of a [comparison](compare), so that the total of each sample type is that of the base. Types
/// without positive totals on both sides stay as they are. False if the profile is not a comparison, or if the type that
/// reports show was not scaled.
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
        // What rounding has taken or given so far: many samples of 1 are not all rounded alike.
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
