//! Spools of any bytes: refused, or a valid profile with the samples that were read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("spool", bytes));
