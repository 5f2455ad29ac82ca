//! What a profile has more than another, its base: what a change has cost or saved, or what a time between two profiles of
//! one process was spent with.

use super::{Profile, merge::Merger};
use crate::error::Error;
use std::path::Path;

/// Takes the values of `base` away from those of `profile`; each comes with the name of its file. Values may become negative;
/// samples of which nothing is left are gone.
///
/// # Errors
/// As for [`merge`](super::merge()).
///
/// # Panics
/// As for [`merge`](super::merge()).
pub fn subtract(profile: (&Path, Profile), mut base: (&Path, Profile)) -> Result<Profile, Error> {
    for value in base.1.samples.values_mut() {
        base.1.is_clamped |= *value == i64::MIN;
        *value = value.saturating_neg();
    }
    // Times are the profile's own.
    base.1.duration_nanos = 0;
    let (time_nanos, duration_nanos) = (profile.1.time_nanos, profile.1.duration_nanos);
    let mut merger = Merger::new(profile.0.into(), profile.1);
    merger.add(base.0, &base.1)?;
    Ok(Profile { time_nanos, duration_nanos, ..merger.finish() })
}
