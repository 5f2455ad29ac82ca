//! Bodies of the fuzz targets `analysis_formats` and `analysis_hpctoolkit`, also for the tests that
//! replay their inputs.

use super::{cpu_profile, hpctoolkit, pprof, read};
use crate::{
    profile::{Profile, SampleRef},
    units::factors_to_finer,
};

/// Checks that bytes are an error, or a consistent profile that can be written and read again.
///
/// # Panics
/// If they are not.
pub fn any_bytes(bytes: &[u8]) {
    if let Ok(profile) = read(bytes) {
        ensure_consistent(&profile);
    }
}

/// Checks that an HPCToolkit database is an error, or a consistent profile, and that it can be
/// verified. `bytes` are the lengths of meta.db, profile.db and cct.db, in four bytes each, and the
/// contents of these and trace.db.
///
/// # Panics
/// If it is not.
pub fn any_database(bytes: &[u8]) {
    let (mut lengths, mut rest) = bytes.split_at(bytes.len().min(12));
    let mut next = || {
        let (length, others) = lengths
            .split_first_chunk()
            .map_or((0, lengths), |(length, others)| (u32::from_le_bytes(*length) as usize, others));
        lengths = others;
        let (file, others) = rest.split_at(length.min(rest.len()));
        rest = others;
        file
    };
    let (meta, profile, context) = (next(), next(), next());
    let trace = (!rest.is_empty()).then_some(rest);
    hpctoolkit::check_files(&hpctoolkit::CheckedFiles { meta, profile, context, trace }, None);
    let files = hpctoolkit::DatabaseFiles { meta, profile, trace };
    if let Ok(profile) = hpctoolkit::read_files(&files, std::path::Path::new("")) {
        ensure_consistent(&profile);
    }
}

fn ensure_consistent(profile: &Profile) {
    assert_eq!(profile.check(), Ok(()));
    let mut written = Vec::new();
    pprof::write_unpacked(profile, &mut written).expect("a vector takes everything");
    let found = pprof::read(&written).expect("what was written is a profile");
    assert_eq!(found.check(), Ok(()));
    assert!(found.samples.iter().eq(profile.samples.iter()), "{found:?} for {profile:?}");
    let mut again = Vec::new();
    pprof::write_unpacked(&found, &mut again).expect("a vector takes everything");
    assert_eq!(again, written, "{found:?} for {profile:?}");

    let mut written = Vec::new();
    if cpu_profile::write(profile, &mut written).is_ok() {
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

    /// Calls `try_input` with each known input of a fuzz target.
    fn replay(target: &str, at_least: usize, mut try_input: impl FnMut(Vec<u8>)) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let mut inputs = 0;
        for kind in ["seeds", "corpora", "regressions"] {
            let Ok(files) = fs::read_dir(root.join(kind).join(target)) else { continue };
            for file in files {
                let path = file.unwrap().path();
                // The printed name of a failing input is the last one.
                println!("{}", path.display());
                try_input(fs::read(path).unwrap());
                inputs += 1;
            }
        }
        assert!(inputs >= at_least, "{inputs} inputs");
    }

    #[test]
    fn replays_known_inputs() {
        let mut previous = Vec::new();
        replay("analysis_formats", 5, |bytes| {
            super::any_bytes(&bytes);
            // Two profiles in one file.
            super::any_bytes(&[&previous[..], &bytes].concat());
            previous = bytes;
        });
    }

    #[test]
    fn replays_known_databases() {
        replay("analysis_hpctoolkit", 3, |bytes| super::any_database(&bytes));
    }

    /// Each byte of a database is changed; and the database is cut after every eighth.
    #[test]
    fn survives_damaged_databases() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/analysis_hpctoolkit");
        let bytes = fs::read(root.join("made")).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= if place % 2 == 0 { 0xff } else { 1 };
            super::any_database(&damaged);
            if place % 8 == 0 {
                super::any_database(&bytes[..place]);
            }
        }
    }
}
