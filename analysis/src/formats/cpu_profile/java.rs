//! Reader of the Java dialect: version 1, with symbol names instead of mapped objects.
//!
//! ```text
//! 0x7f3b00001234 com.example.Parser.parse (Parser.java:42)
//! 0x7f3b00005678 memcpy (/lib/x86_64-linux-gnu/libc.so.6)
//! 0x7f3b00009abc GC
//! ```
//!
//! Source: google/pprof, `profile/legacy_java_profile.go`.

use super::{count, fails};
use crate::{
    error::Error,
    profile::{Builder, Function, Line, Profile, ValueType},
};
use sigprof::format::Records;
use std::collections::HashMap;

/// google/pprof's name of generated code without a name.
const STUB: &str = "STUB";

/// Reads a file of the dialect, with the names that it has for its addresses.
///
/// # Errors
/// If the bytes violate the format.
pub(super) fn read(bytes: &[u8]) -> Result<Profile, Error> {
    let mut records = Records::java(bytes).map_err(fails)?;
    let mut builder = Builder::new(Profile::cpu_types());
    let nanos = i64::try_from(records.period_micros()).ok().and_then(|micros| micros.checked_mul(1000));
    builder.profile.is_clamped = nanos.is_none();
    builder.profile.period = nanos.unwrap_or(i64::MAX);
    builder.profile.period_type = Some(ValueType::new("cpu", "nanoseconds"));
    let (samples, frames) = count(records.clone()).map_err(fails)?;
    builder.profile.samples.reserve(samples, frames);
    let mut chain = Vec::new();
    for record in records.by_ref() {
        let record = record.map_err(fails)?;
        chain.clear();
        chain.extend(record.pcs().map(|pc| builder.location(None, pc)));
        let time = i128::from(record.count) * i128::from(builder.profile.period);
        let values = [i128::from(record.count), time].map(i64::try_from);
        builder.profile.is_clamped |= values.iter().any(Result::is_err);
        let values = values.map(|value| value.unwrap_or(i64::MAX));
        builder.profile.samples.push(&chain, &values, Default::default());
    }
    let text = records.text().map_err(fails)?;
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (place, location) in builder.profile.locations.iter().enumerate() {
        places.insert(location.address, place);
    }
    for line in &text.unknown_lines {
        let line = String::from_utf8_lossy(line);
        let Some((address, name)) = address(&line) else { continue };
        let Some(&place) = places.get(&address) else { continue };
        let (name, file, number) = parts(name);
        let (name, file) = (builder.string(name), builder.string(file));
        let function =
            builder.function(Function { name: name.clone(), system_name: name, file, start_line: 0 });
        builder.profile.locations[place].lines = vec![Line { function, line: number, column: 0 }];
    }
    let mut profile = builder.finish();
    profile.is_clamped |= profile.samples.add_up_equal();
    Ok(profile)
}

fn address(line: &str) -> Option<(u64, &str)> {
    let (digits, name) = line.trim().strip_prefix("0x")?.split_once([' ', '\t'])?;
    Some((u64::from_str_radix(digits, 16).ok()?, name.trim()))
}

/// Returns function, file, and line or 0.
fn parts(name: &str) -> (&str, &str, i64) {
    let in_parentheses = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    if let Some((function, place)) = in_parentheses {
        return match place.rsplit_once(':').map(|(file, line)| (file, line.parse::<i64>())) {
            Some((file, Ok(line))) => (function.trim_end(), file, line.max(0)),
            // The path of a library; google/pprof shows its file name.
            _ => (function.trim_end(), place.rsplit('/').next().unwrap_or(place), 0),
        };
    }
    if name.contains("generated stub/JIT") { (STUB, "", 0) } else { (name, "", 0) }
}

#[cfg(test)]
mod tests {
    use crate::formats::cpu_profile::read;

    #[test]
    fn names_addresses_from_the_text() {
        let mut bytes = Vec::new();
        for word in [0u64, 3, 1, 10_000, 0, 3, 2, 0x10, 0x20, 1, 1, 0x30, 1, 2, 0x40, 0x50, 0, 1, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(
            b"  0x10 com.example.Parser.parse (Parser.java:42)\n0x20 memcpy (/lib/libc.so.6)\n0x30 GC\n\
              0x40 generated stub/JIT\n0x60 unused\nnonsense\n",
        );
        let profile = read(&bytes).unwrap();
        assert_eq!(profile.check(), Ok(()));
        assert_eq!((profile.total(0), profile.total(1), profile.period), (5, 50_000_000, 10_000_000));
        let frame = |location: &crate::profile::Location| {
            location.lines.first().map(|line| {
                let function = profile.function(line.function);
                (function.name.to_string(), function.file.to_string(), line.line)
            })
        };
        let frames: Vec<_> = profile.locations.iter().map(frame).collect();
        let named = |name: &str, file: &str, line| Some((name.to_owned(), file.to_owned(), line));
        assert_eq!(
            frames,
            [
                named("com.example.Parser.parse", "Parser.java", 42),
                named("memcpy", "libc.so.6", 0),
                named("GC", "", 0),
                named("STUB", "", 0),
                None
            ]
        );
    }
}
