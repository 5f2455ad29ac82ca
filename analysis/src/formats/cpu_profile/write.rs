//! The model to a file, for readers that know no other format.
//!
//! The format holds counts, addresses and mapped objects. Names are lost, and so are labels: samples of different threads
//! stand one behind another.

use crate::{
    error::{Error, ErrorKind},
    formats::ensure_no_negative,
    profile::{LocationId, Mapping, Profile},
};
use sigprof::format::{
    self, Device, Permissions, ProfileWriter, SlotLayout, SlotWidth, WriteError, write_records,
};
use std::{
    borrow::Cow,
    io::{self, Write},
    os::unix::ffi::OsStrExt as _,
};

/// The slots of what is written, wherever the profile came from: every reader takes them.
const LAYOUT: SlotLayout = SlotLayout { width: SlotWidth::Eight, order: format::ByteOrder::NATIVE };

/// Writes a profile, with slots of 8 bytes. The counts are the values of the first sample type.
///
/// # Errors
/// Where the profile is none of time or has no period in whole microseconds, where a value is negative, where a frame has no
/// address; those of `out`.
pub fn write(profile: &Profile, out: impl Write) -> Result<(), Error> {
    let micros = period_micros(profile)?;
    ensure_no_negative(profile, 0, "the CPU profile format")?;
    let pcs = return_addresses(profile)?;
    let mut writer = ProfileWriter::new(out, LAYOUT);
    let mut put = || -> Result<(), WriteError> {
        writer.header(micros)?;
        write_records(&mut writer, || {
            profile.samples.iter().map(|sample| {
                let count = u64::try_from(sample.values[0]).unwrap_or(0);
                let pc = |(depth, id): (usize, &LocationId)| pcs[id.index()] - usize::from(depth == 0);
                (count, sample.chain.iter().enumerate().map(pc))
            })
        })?;
        writer.trailer()?;
        for mapping in &profile.mappings {
            write_mapping(mapping, writer.text())?;
        }
        writer.text().flush()?;
        Ok(())
    };
    put().map_err(|error| match error {
        WriteError::Io(error) => Error::output(error),
        other => Error::new(ErrorKind::Request, other.to_string()).caused_by(other),
    })
}

fn period_micros(profile: &Profile) -> Result<u64, Error> {
    let fails = |reason: String| {
        Err(Error::new(ErrorKind::Request, reason)
            .advise("the CPU profile format cannot hold this profile; use `pprof`"))
    };
    let counts = &profile.sample_types[0];
    if &*counts.unit != "count" {
        return fails(format!(
            "the first value of a sample is {} in {}, not a count",
            counts.kind, counts.unit
        ));
    }
    let Some(period_type) = &profile.period_type else {
        return fails("the profile has no period".into());
    };
    let scale = match &*period_type.unit {
        "nanoseconds" => 1,
        "microseconds" => 1000,
        "milliseconds" => 1_000_000,
        "seconds" => 1_000_000_000,
        other => return fails(format!("the period is {} in {other}, not a time", period_type.kind)),
    };
    let nanos = i128::from(profile.period) * scale;
    match u64::try_from(nanos / 1000) {
        Ok(micros) if micros > 0 && nanos % 1000 == 0 => Ok(micros),
        _ => fails(format!(
            "the period is {} {}, not a multiple of 1 microsecond",
            profile.period, period_type.unit
        )),
    }
}

/// The return address of each location, one more than the address to look up.
fn return_addresses(profile: &Profile) -> Result<Vec<usize>, Error> {
    let mut is_used = vec![false; profile.locations.len()];
    profile.samples.iter().flat_map(|sample| sample.chain).for_each(|id| is_used[id.index()] = true);
    let locations = profile.locations.iter().zip(is_used);
    let address = |(location, is_used): (&crate::profile::Location, bool)| {
        let address = usize::try_from(location.address).ok().filter(|&address| address != 0);
        match address.and_then(|address| address.checked_add(1)) {
            Some(address) => Ok(address),
            None if !is_used => Ok(0),
            None => {
                let reason =
                    format!("a frame has the address {:#x}, which is none of code", location.address);
                Err(Error::new(ErrorKind::Request, reason)
                    .advise("the CPU profile format holds only addresses; use `pprof` for names"))
            }
        }
    };
    locations.map(address).collect()
}

/// Writes the line of a mapping: as the kernel does, or as google/pprof reads it where a build id is known.
fn write_mapping(mapping: &Mapping, out: &mut impl Write) -> io::Result<()> {
    if mapping.start >= mapping.end {
        // Some profiles have one that stands for all addresses, or for none.
        return Ok(());
    }
    let mut path = mapping.file.as_os_str().as_bytes().to_vec();
    if mapping.is_deleted {
        path.extend(b" (deleted)");
    }
    let is_build_id =
        !mapping.build_id.is_empty() && mapping.build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_build_id && !path.is_empty() && !path.contains(&b'\n') {
        write!(out, "{:x}-{:x}: ", mapping.start, mapping.end)?;
        out.write_all(&path)?;
        return writeln!(out, " (@{:x}) {}", mapping.file_offset, mapping.build_id);
    }
    let line = format::Mapping {
        start: mapping.start,
        end: mapping.end,
        permissions: Permissions { read: true, write: false, execute: true, shared: false },
        offset: mapping.file_offset,
        device: Device::default(),
        inode: 0,
        path: Cow::Owned(path),
        build_id: Cow::Borrowed(&[]),
    };
    line.write_line(out, LAYOUT.width)
}
