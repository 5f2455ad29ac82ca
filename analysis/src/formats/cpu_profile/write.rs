//! Writer of CPU profiles, for readers of no other format.
//!
//! The format holds counts, addresses and mapped objects. Names and labels are lost.

use crate::{
    error::{Error, ErrorKind},
    formats::ensure_no_negative,
    profile::{LocationId, Mapping, Profile},
    units,
};
use sigprof::format::{
    self, Device, Permissions, ProfileWriter, SlotLayout, SlotWidth, WriteError, write_records,
};
use std::{
    borrow::Cow,
    io::{self, Write},
    os::unix::ffi::OsStrExt as _,
};

/// The slots written, whatever the source of the profile: all readers support them.
const LAYOUT: SlotLayout = SlotLayout { width: SlotWidth::Eight, order: format::ByteOrder::NATIVE };

/// Writes a profile with slots of 8 bytes. The counts are the values of the first sample type, if
/// the time of each sample is its count multiplied by the period. Otherwise, as in a merge of
/// different periods, the period is the greatest common divisor of all times.
///
/// # Errors
/// If the profile is not one of time, its times are not multiples of a period in whole
/// microseconds, a value is negative, or a frame has no address; those of `out`.
pub fn write(profile: &Profile, out: impl Write) -> Result<(), Error> {
    let PeriodCounts { period_micros, counts } = counts(profile)?;
    let pcs = return_addresses(profile)?;
    let mut writer = ProfileWriter::new(out, LAYOUT);
    let mut put = || -> Result<(), WriteError> {
        writer.header(period_micros)?;
        write_records(&mut writer, || {
            profile.samples.iter().zip(&counts).map(|(sample, &count)| {
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

/// Values of a profile as the format has them.
struct PeriodCounts {
    period_micros: u64,
    counts: Vec<u64>,
}

fn counts(profile: &Profile) -> Result<PeriodCounts, Error> {
    let fails = |reason: String| {
        Error::new(ErrorKind::Request, reason)
            .advise("the CPU profile format cannot hold this profile; use `pprof`")
    };
    let period_type =
        profile.period_type.as_ref().ok_or_else(|| fails("the profile has no period".into()))?;
    let nanos_of = |unit: &str| units::factors_to_finer(unit, "ns").map(|(factor, _)| i128::from(factor));
    let period =
        nanos_of(&period_type.unit).map(|nanos| i128::from(profile.period) * nanos).ok_or_else(|| {
            fails(format!("the period is {} in {}, not a time", period_type.kind, period_type.unit))
        })?;
    let times = profile.sample_types.iter().enumerate().find_map(|(place, values)| {
        let nanos = nanos_of(&values.unit).filter(|_| values.kind == period_type.kind);
        nanos.map(|nanos| (place, nanos))
    });
    let first = &profile.sample_types[0];
    let has_counts = &*first.unit == "count";
    let is_whole = period > 0 && period % 1000 == 0;
    let samples = || profile.samples.iter();
    let is_exact = |(place, nanos): (usize, i128)| {
        samples()
            .all(|sample| i128::from(sample.values[0]) * period == i128::from(sample.values[place]) * nanos)
    };
    let (place, period, unit) = match times {
        Some((place, nanos)) if !(has_counts && is_whole && is_exact((place, nanos))) => {
            let times = samples().map(|sample| i128::from(sample.values[place]) * nanos);
            (place, times.fold(0, greatest_common_divisor), nanos)
        }
        _ if !has_counts => {
            return Err(fails(format!(
                "the first value of a sample is {} in {}, not a count",
                first.kind, first.unit
            )));
        }
        _ => (0, period, period),
    };
    ensure_no_negative(profile, place, "the CPU profile format")?;
    let period_micros = u64::try_from(period / 1000).ok().filter(|&micros| micros > 0 && period % 1000 == 0);
    let period_micros = period_micros.ok_or_else(|| {
        fails(match period {
            0 => "no sample has a time".into(),
            _ => format!("the times are multiples of {period} nanoseconds, not of 1 microsecond"),
        })
    })?;
    // At most the value, which is not negative.
    let count = |value: i64| u64::try_from(i128::from(value) * unit / period).unwrap_or(0);
    Ok(PeriodCounts { period_micros, counts: samples().map(|sample| count(sample.values[place])).collect() })
}

fn greatest_common_divisor(mut one: i128, mut other: i128) -> i128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.abs()
}

/// Returns the return address of each location, one byte above the address to look up.
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

/// Writes the line of a mapping in the kernel's format. google/pprof also reads lines with a build
/// ID, but google-pprof of gperftools 2.10 assumes offset 0 in those and shows wrong names.
fn write_mapping(mapping: &Mapping, out: &mut impl Write) -> io::Result<()> {
    if mapping.start >= mapping.end {
        // Some profiles have a mapping of all addresses, or of none.
        return Ok(());
    }
    let mut path = mapping.file.as_os_str().as_bytes().to_vec();
    if mapping.is_deleted {
        path.extend(b" (deleted)");
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
