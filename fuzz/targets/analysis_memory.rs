//! Memory of a process, of any bytes: what is made of it is an ELF file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof_analysis::symbolize::fuzzing::memory(bytes));
