//! Reader of CPU profiles.

use super::{count, fails, java};
use crate::formats::chains::Chains;
use crate::{
    error::Error,
    profile::{LabelSetId, Profile},
};
use sigprof::format::{ReadError, Records};

/// Reads a file of either slot width and byte order, or of the Java dialect.
///
/// # Errors
/// If the bytes violate the format.
pub fn read(bytes: &[u8]) -> Result<Profile, Error> {
    let mut records = match Records::new(bytes) {
        Err(ReadError::NotAProfile { .. }) if Records::java(bytes).is_ok() => return java::read(bytes),
        records => records.map_err(fails)?,
    };
    let mut chains = Chains::new(records.period_micros());
    let (samples, frames) = count(records.clone()).map_err(fails)?;
    chains.reserve(samples, frames);
    for record in records.by_ref() {
        let record = record.map_err(fails)?;
        chains.push(record.count, record.pcs(), LabelSetId(0));
    }
    let text = records.text().map_err(fails)?;
    Ok(chains.finish(&text.mappings, None))
}

/// Returns the length of the first profile in `bytes`. Another may follow, as in a file made by
/// `cat`: the text of a profile has no NUL, and the header of the next begins with one.
pub(in crate::formats) fn length(bytes: &[u8]) -> usize {
    let is_header = |bytes| Records::new(bytes).is_ok() || Records::java(bytes).is_ok();
    let records = Records::new(bytes).or_else(|_| Records::java(bytes));
    let rest = records.and_then(Records::rest).unwrap_or_default();
    let text = (0..rest.len()).find(|&place| rest[place] == 0 && is_header(&rest[place..]));
    bytes.len() - text.map_or(0, |text| rest.len() - text)
}
