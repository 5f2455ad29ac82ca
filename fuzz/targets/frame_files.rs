//! ELF files of any bytes: nothing is read that is not there.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof::fuzzing::run("frame_files", bytes));
