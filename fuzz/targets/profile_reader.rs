//! Profiles of any bytes: an error, or a profile whose parts fit together.
#![no_main]

use sigprof::format::CpuProfile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = CpuProfile::parse(bytes) else { return };
    let total: u128 = profile.records.iter().map(|record| u128::from(record.count)).sum();
    assert_eq!(profile.total_samples(), total);
    let _ = profile.duration();
});
