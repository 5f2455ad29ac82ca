//! Body of the fuzz target `analysis_formats`, also for the test that replays its inputs.

use super::{cpu_profile, pprof, read};
use crate::{profile::SampleRef, units::factors_to_finer};

/// Checks that bytes are an error, or a consistent profile that can be written and read again.
///
/// # Panics
/// If they are not.
pub fn any_bytes(bytes: &[u8]) {
    let Ok(profile) = read(bytes) else { return };
    assert_eq!(profile.check(), Ok(()));
    let mut written = Vec::new();
    pprof::write_unpacked(&profile, &mut written).expect("a vector takes everything");
    let found = pprof::read(&written).expect("what was written is a profile");
    assert_eq!(found.check(), Ok(()));
    assert!(found.samples.iter().eq(profile.samples.iter()), "{found:?} for {profile:?}");
    let mut again = Vec::new();
    pprof::write_unpacked(&found, &mut again).expect("a vector takes everything");
    assert_eq!(again, written, "{found:?} for {profile:?}");

    let mut written = Vec::new();
    if cpu_profile::write(&profile, &mut written).is_ok() {
        let found = cpu_profile::read(&written).expect("what was written is a profile");
        // The format has no empty call stacks. It keeps the counts, or else the times.
        let has_frames = |sample: &SampleRef<'_>| !sample.chain.is_empty();
        let total = |column: usize| {
            let values = profile.samples.iter().filter(has_frames).map(|sample| sample.values[column]);
            values.fold(0, i64::saturating_add)
        };
        let is_time = |column: usize| {
            let factors = factors_to_finer("ns", &profile.sample_types[column].unit);
            factors.is_some_and(|(_, nanos)| found.total(1) == total(column).saturating_mul(nanos))
        };
        assert!(
            found.total(0) == total(0) || (0..profile.sample_types.len()).any(is_time),
            "{found:?} for {profile:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn replays_known_inputs() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let (mut inputs, mut previous) = (0, Vec::new());
        for kind in ["seeds", "corpora", "regressions"] {
            let Ok(files) = fs::read_dir(root.join(kind).join("analysis_formats")) else { continue };
            for file in files {
                let path = file.unwrap().path();
                // The printed name of a failing input is the last one.
                println!("{}", path.display());
                let bytes = fs::read(path).unwrap();
                super::any_bytes(&bytes);
                // Two profiles in one file.
                super::any_bytes(&[&previous[..], &bytes].concat());
                previous = bytes;
                inputs += 1;
            }
        }
        assert!(inputs > 4, "{inputs} inputs");
    }
}
