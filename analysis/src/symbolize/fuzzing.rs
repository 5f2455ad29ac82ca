//! Lookups in files that may hold anything: for tests and fuzzing only.

use super::{debug_files::Places, image::Image, object_file::ObjectFile, perf_map};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};
use std::path::Path;

/// Most addresses that are looked up in a file.
const ADDRESSES: usize = 256;

/// Looks up addresses in an object of these bytes: starts of symbols and segments, and others.
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
    let places = Places { directories: Vec::new() };
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

/// Looks up addresses in a map of these bytes.
pub fn perf_map(bytes: &[u8]) {
    let addresses = [0, 1, 0x1000, 0x1001, 0xffff, 0x7fff_0000_0000, u64::MAX];
    let found = perf_map::find(bytes, &addresses);
    assert_eq!(found.len(), addresses.len());
    for (code, address) in found.iter().zip(addresses) {
        assert!(code.as_ref().is_none_or(|code| code.range.contains(&address) && !code.name.is_empty()));
    }
}
