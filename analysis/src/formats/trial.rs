//! The body of the fuzz target `analysis_formats`, for it and for the test that replays its inputs; in no other build.

use super::{cpu_profile, pprof, read};

/// Bytes of any kind: an error, or a profile whose parts fit together and that comes back from what is written of it.
///
/// # Panics
/// Where that is not so.
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
        // A chain without frames has no place in the format.
        let has_frames = |values: &i64, chain: usize| if chain > 0 { *values } else { 0 };
        let expected = profile.samples.iter().fold(0, |sum: i64, sample| {
            sum.saturating_add(has_frames(&sample.values[0], sample.chain.len()))
        });
        assert_eq!(found.total(0), expected, "{found:?} for {profile:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn inputs_that_once_mattered_are_replayed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let mut inputs = 0;
        for kind in ["seeds", "corpora", "regressions"] {
            let Ok(files) = fs::read_dir(root.join(kind).join("analysis_formats")) else { continue };
            for file in files {
                let path = file.unwrap().path();
                // The name of an input that fails is the last one written.
                println!("{}", path.display());
                super::any_bytes(&fs::read(path).unwrap());
                inputs += 1;
            }
        }
        assert!(inputs > 4, "{inputs} inputs");
    }
}
