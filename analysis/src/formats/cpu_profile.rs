//! The CPU profile format of gperftools.
//!
//! Callers are return addresses in the file. In the model they are the addresses to look up, one less.

use crate::{
    error::{Error, ErrorKind},
    profile::{Builder, Known, LabelSetId, Mapping, MappingId, Profile, ValueType},
};
use sigprof::format::CpuProfile;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

/// Reads a file of either slot width and either byte order.
///
/// # Errors
/// Where the bytes break the rules of the format.
pub fn read(bytes: &[u8]) -> Result<Profile, Error> {
    let file = CpuProfile::parse(bytes)
        .map_err(|error| Error::new(ErrorKind::Format, error.to_string()).caused_by(error))?;
    let mut builder = Builder::new(Profile::cpu_types());
    let nanos = i64::try_from(file.period_micros).unwrap_or(i64::MAX).saturating_mul(1000);
    builder.profile.period = nanos;
    builder.profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
    let mut places: Vec<(u64, u64, MappingId)> = Vec::new();
    for mapping in file.mappings.iter().filter(|mapping| mapping.is_executable()) {
        let path = mapping.path.strip_suffix(b" (deleted)");
        let id = builder.mapping(Mapping {
            start: mapping.start,
            end: mapping.end,
            file_offset: mapping.offset,
            file: PathBuf::from(OsStr::from_bytes(path.unwrap_or(&mapping.path))),
            build_id: String::from_utf8_lossy(&mapping.build_id).to_lowercase().into(),
            is_deleted: path.is_some(),
            process: None,
            has: Known::default(),
        });
        places.push((mapping.start, mapping.end, id));
    }
    places.sort_unstable();
    let place_of = |address: u64| {
        let next = places.partition_point(|&(start, _, _)| start <= address);
        let (_, end, id) = *places.get(next.checked_sub(1)?)?;
        (address < end).then_some(id)
    };
    let mut chain = Vec::new();
    for record in &file.records {
        chain.clear();
        for (depth, &pc) in record.pcs.iter().enumerate() {
            let address = if depth == 0 { pc } else { pc.saturating_sub(1) };
            chain.push(builder.location(place_of(address), address));
        }
        let count = i64::try_from(record.count).unwrap_or(i64::MAX);
        builder.profile.samples.push(&chain, &[count, count.saturating_mul(nanos)], LabelSetId(0));
    }
    Ok(builder.finish())
}
