//! What a profile has more than another, its base: what a change has cost or saved, or what a time between two profiles of
//! one process was spent with.

use super::{Profile, merge::Merger};
use crate::error::Error;
use std::path::Path;

/// Subtracts the values of `base` from those of `profile`; each comes with the name of its file. Values may become negative;
/// samples whose values are all 0 are left out. As in pprof, the result begins with the earlier of both and lasts as long as
/// both together.
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
    let mut merger = Merger::new(profile.0.into(), profile.1);
    merger.add(&base.1).map_err(|error| error.at(base.0))?;
    Ok(merger.finish())
}
