//! Profiles of any format and any bytes: an error, or one that comes back from what is written of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof_analysis::formats::trial::any_bytes(bytes));
