//! Maps of generated code, of any bytes: what is found is around its address, and has a name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sigprof_analysis::symbolize::fuzzing::perf_map(bytes));
