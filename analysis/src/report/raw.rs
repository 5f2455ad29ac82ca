//! All that a profile holds, a line for each thing.

use crate::profile::Profile;
use std::io::{self, Write};

/// Writes it.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Samples:")?;
    for sample in profile.samples.iter() {
        let values: Vec<String> = sample.values.iter().map(ToString::to_string).collect();
        let chain: Vec<String> = sample.chain.iter().map(|id| (id.0 + 1).to_string()).collect();
        writeln!(out, "{:>10}: {}", values.join(" "), chain.join(" "))?;
    }
    writeln!(out, "Locations")?;
    for (place, location) in profile.locations.iter().enumerate() {
        writeln!(out, "{:>6}: {:#x}", place + 1, location.address)?;
    }
    Ok(())
}
