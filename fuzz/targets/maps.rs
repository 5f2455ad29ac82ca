//! Lines of the list of mapped objects: what is read is sound, and is read again from what is written.
#![no_main]

use sigprof::format::{Mapping, SlotWidth};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(mapping) = Mapping::parse_line(line) else { continue };
        assert!(mapping.start < mapping.end && mapping.contains(mapping.start));
        let mut written = Vec::new();
        mapping.write_line(&mut written, SlotWidth::Eight).expect("a vector takes all");
        let again = Mapping::parse_line(written.strip_suffix(b"\n").expect("a line"));
        let again = again.expect("what was written can be read");
        assert_eq!((again.start, again.end, again.offset), (mapping.start, mapping.end, mapping.offset));
    }
});
