//! Objects of any bytes: no panic, no endless loop, no more memory than the bytes account for, and every address has its answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof_analysis::symbolize::fuzzing::object(bytes));
