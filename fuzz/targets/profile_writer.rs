//! Records that bytes stand for: all of them can be read again, with every frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("profile_writer", bytes));
