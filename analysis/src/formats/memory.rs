//! Conversion of in-memory profiles of this process.

use super::{
    chains::Chains,
    spool::{ThreadLabels, micros},
};
use crate::profile::Profile;
use sigprof::format::Mapping;

/// Converts a profile in memory to the model, labelled with threads if it has them.
///
/// # Examples
/// ```
/// let profiler = sigprof::Profiler::builder().start_in_memory()?;
/// let profile = sigprof_analysis::formats::memory::read(&profiler.stop()?);
/// assert_eq!(profile.period, 10_000_000);
/// # Ok::<(), sigprof::Error>(())
/// ```
pub fn read(profile: &sigprof::Profile) -> Profile {
    let samples = profile.samples();
    let mut chains = Chains::new(micros(profile.summary().period));
    chains.reserve(samples.len(), samples.iter().map(|sample| sample.chain.len()).sum());
    let mut threads = ThreadLabels::new(Vec::new());
    for sample in samples {
        let labels = threads.get(&mut chains, sample.thread);
        chains.push(sample.count, sample.chain.iter().map(|pc| pc.address() as u64), labels);
    }
    let lines = profile.maps_text().split(|&byte| byte == b'\n');
    let mappings: Vec<Mapping<'_>> = lines.filter_map(Mapping::parse_line).collect();
    chains.finish(&mappings, Some(std::process::id()))
}

impl From<&sigprof::Profile> for Profile {
    fn from(profile: &sigprof::Profile) -> Self {
        read(profile)
    }
}
