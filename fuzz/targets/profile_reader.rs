//! Profiles of any bytes: an error, or a profile whose parts fit together.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("profile_reader", bytes));
