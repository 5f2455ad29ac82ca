//! Variables with any values: each is used as documented, or replaced with one line that says so.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("environment", bytes));
