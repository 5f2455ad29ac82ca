//! Call frame information of any bytes, for code and registers of all kinds: no fault, no panic, no endless loop.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("cfi", bytes));
