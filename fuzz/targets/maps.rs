//! Lines of the list of mapped objects: what is read is sound, and is read again from what is written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("maps", bytes));
