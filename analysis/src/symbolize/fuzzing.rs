//! Lookups in untrusted files, for tests and fuzzing only.

use super::{Memory, debug_files::Places, image::Image, memory_image, object_file::ObjectFile, perf_map};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::{io, path::Path};

const ADDRESSES: usize = 256;

/// Looks up addresses in an object: starts of symbols and segments, and others.
pub fn object(bytes: &[u8]) {
    let Ok(image) = Image::from_bytes(Path::new("/nowhere/object"), bytes.to_vec()) else { return };
    let mut addresses = vec![0, 1, 0x1000, 0x1189, 0x40_1136, u64::MAX - 1, u64::MAX];
    if let Some(elf) = image.elf() {
        let segments = elf
            .segments()
            .flat_map(|segment| [segment.address(), segment.address().wrapping_add(segment.size())]);
        let symbols = elf.symbols().chain(elf.dynamic_symbols()).map(|symbol| symbol.address());
        addresses.extend(
            segments.chain(symbols).take(ADDRESSES).flat_map(|address| [address, address.wrapping_add(1)]),
        );
    }
    addresses.sort_unstable();
    addresses.dedup();
    let places = Places { directories: Vec::new(), servers: None };
    let object = ObjectFile::new(image, false, places);
    for offset in [0, 1, 0x1000, bytes.len() as u64, u64::MAX] {
        object.address(offset, 1);
    }
    let plan = object.plan(addresses);
    let units = plan.units.iter().map(|unit| object.look_up_unit(&plan, unit)).collect();
    let named = object.finish(&plan, units, "object");
    assert_eq!(named.len(), plan.addresses.len());
    for named in named {
        assert!(named.calls.iter().all(|call| call.name.is_some()));
        assert!(named.range.is_none_or(|range| range.start <= range.end));
    }
}

/// Memory with these bytes at an address.
pub(super) struct BytesAt<'b>(pub(super) u64, pub(super) &'b [u8]);

impl Memory for BytesAt<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let from = address.checked_sub(self.0).and_then(|at| self.1.get(usize::try_from(at).ok()?..));
        let bytes = from.and_then(|from| from.get(..buffer.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// Rebuilds a file from an object in memory, in whole pages.
pub fn memory(bytes: &[u8]) {
    const BASE: u64 = 0x7fff_0000_0000;
    let mut pages = bytes.to_vec();
    pages.resize(bytes.len().next_multiple_of(4096), 0);
    if let Ok(file) = memory_image::read(&BytesAt(BASE, &pages), BASE) {
        let elf = object::File::parse(&*file).expect("it is an ELF file");
        assert!(elf.dynamic_symbols().all(|symbol| symbol.section_index().is_some()));
    }
}

/// Looks up addresses in a perf map.
pub fn perf_map(bytes: &[u8]) {
    let addresses = [0, 1, 0x1000, 0x1001, 0xffff, 0x7fff_0000_0000, u64::MAX];
    let found = perf_map::find(bytes, &addresses);
    assert_eq!(found.len(), addresses.len());
    for (code, address) in found.iter().zip(addresses) {
        assert!(code.as_ref().is_none_or(|code| code.range.contains(&address) && !code.name.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Replays the seeds, corpora and regressions of a target; returns the number of inputs.
    fn replay(name: &str, target: fn(&[u8])) -> usize {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let mut inputs = 0;
        for kind in ["seeds", "corpora", "regressions"] {
            let Ok(files) = fs::read_dir(fuzz.join(kind).join(name)) else { continue };
            for file in files {
                let path = file.expect("is listed").path();
                // The printed name of a failing input is the last one.
                println!("{}", path.display());
                target(&fs::read(path).expect("is read"));
                inputs += 1;
            }
        }
        inputs
    }

    #[test]
    fn replays_inputs_of_fuzz_targets() {
        assert!(replay("analysis_object", object) > 4);
        assert!(replay("analysis_memory", memory) > 1);
        assert!(replay("analysis_perf_map", perf_map) > 1);
    }

    /// Damages real files, a byte at a time: reading must return.
    #[test]
    fn survives_damage_in_any_byte() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/analysis_object");
        for file in fs::read_dir(seeds).expect("is there") {
            let path = file.expect("is listed").path();
            let seed = fs::read(&path).expect("is read");
            // The zstd decoder is slow in unoptimised builds.
            let step = if path.ends_with("zstd") { 211 } else { 31 };
            for place in (0..seed.len()).step_by(step) {
                for change in [0xff, 0x01] {
                    let mut damaged = seed.clone();
                    damaged[place] ^= change;
                    object(&damaged);
                }
            }
        }
    }

    /// Counts and offsets that overflow in gimli's lookup.
    #[test]
    fn survives_damage_in_the_frame_table() {
        let seed =
            fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/analysis_object/stripped"));
        let seed = seed.expect("is there");
        let header = [1, 0x1b, 0x03, 0x3b];
        let start = seed.windows(4).position(|bytes| bytes == header).expect("has a table");
        for place in start..start + 28 {
            for value in 0..=u8::MAX {
                let mut damaged = seed.clone();
                damaged[place] = value;
                object(&damaged);
            }
        }
    }

    /// An ELF file with a function of a page at 0x1000 that contains `calls` nested inlined calls.
    fn nested(calls: usize) -> Vec<u8> {
        let entry = |tag: u8, attributes: &[u8]| [&[tag, 1], attributes, &[0, 0]].concat();
        // Unit and function have low_pc (address) and high_pc (8 bytes); the function has a name.
        let code = [0x11, 1, 0x12, 7];
        let abbreviations = [
            [&[1], &*entry(0x11, &code)].concat(),
            [&[2], &*entry(0x2e, &[&code[..], &[3, 8]].concat())].concat(),
            [&[3], &*entry(0x1d, &[])].concat(),
            vec![0],
        ]
        .concat();
        let page = [0x1000_u64.to_le_bytes(), 0x1000_u64.to_le_bytes()].concat();
        let mut unit = [&[4, 0, 0, 0, 0, 0, 8, 1], &*page, &[2], &*page, b"deep\0"].concat();
        unit.extend(std::iter::repeat_n(3, calls).chain(std::iter::repeat_n(0, calls + 2)));
        let info = [&(unit.len() as u32).to_le_bytes(), &*unit].concat();
        let names = b"\0.debug_abbrev\0.debug_info\0.names\0";
        let sections: [(u32, u32, &[u8]); 3] = [(1, 1, &abbreviations), (15, 1, &info), (27, 3, names)];
        let mut body = Vec::new();
        let mut headers = vec![0; 64];
        for (name, kind, bytes) in sections {
            let offset = 64 + body.len() as u64;
            headers.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            let words = [0, 0, offset, bytes.len() as u64, 0, 1, 0];
            headers.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            body.extend(bytes);
        }
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
        for word in [0x1000, 0, 64 + body.len() as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0, 4, 0, 3, 0]);
        [file, body, headers].concat()
    }

    /// A recursive reader would overflow the stack, which kills the test process.
    #[test]
    fn survives_deeply_nested_inlined_calls() {
        let bytes = nested(300_000);
        object(&bytes);
        let image = Image::from_bytes(Path::new("/nowhere/object"), bytes).expect("is ELF");
        let object = ObjectFile::new(image, false, Places { directories: Vec::new(), servers: None });
        let plan = object.plan(vec![0x1800]);
        let units = plan.units.iter().map(|unit| object.look_up_unit(&plan, unit)).collect();
        let named = object.finish(&plan, units, "object");
        assert_eq!(named[0].calls[0].name.as_deref(), Some("deep"));
        assert_eq!(named[0].range, Some(0x1000..0x2000));
    }
}
