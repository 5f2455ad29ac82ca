//! Filters of samples and frames by function, label and thread.
//!
//! They follow pprof, so that its users find the same behaviour; comments state the differences.

mod frames;
mod labels;
mod threads;

pub use frames::{FrameFilter, drop_frames};
pub use labels::{LabelFilter, LabelMatch, add_label_frames};
pub use threads::ThreadFilter;

use crate::{
    error::{Error, ErrorKind},
    profile::{LocationId, Profile, SampleRef, Samples},
};
use regex::Regex;

/// Compiles the regular expression of an option.
///
/// # Errors
/// If it is invalid.
pub fn expression(option: &str, text: &str) -> Result<Regex, Error> {
    Regex::new(text).map_err(|error| {
        let shown = error.to_string();
        let reason = shown.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let reason = format!("{option}: invalid regular expression `{text}`: {reason}");
        let advice = "to match characters such as ( and * literally, put a backslash before them";
        Error::new(ErrorKind::Request, reason).advise(advice).caused_by(error)
    })
}

/// Keeps the samples for which `chain_of` returns true, with the stacks it stores.
fn retain<'a>(
    profile: &mut Profile,
    mut chain_of: impl FnMut(SampleRef<'a>, &mut Vec<LocationId>) -> bool,
    samples: &'a Samples,
) {
    let mut kept = Samples::new(samples.width());
    let mut chain = Vec::new();
    for sample in samples.iter() {
        chain.clear();
        if chain_of(sample, &mut chain) {
            kept.push(&chain, sample.values, sample.labels);
        }
    }
    profile.samples = kept;
}
