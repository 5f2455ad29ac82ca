//! Spool files of any bytes: a profile, or an error that leaves the spool; never another's file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("recover", bytes));
