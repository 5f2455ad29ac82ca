//! HPCToolkit databases of any bytes: an error, or a consistent profile; and they can be verified.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof_analysis::formats::trial::any_database(bytes));
