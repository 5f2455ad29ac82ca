//! All contents of a profile as text.

use super::header::date;
use crate::{
    profile::{Label, LabelValue, Line, Location, Mapping, Profile},
    units,
};
use std::io::{self, Write};

/// Writes the profile in the format of `pprof -raw`, with locations and mappings numbered from 1.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    for comment in &profile.comments {
        writeln!(out, "Comment: {comment}")?;
    }
    if let Some(period) = &profile.period_type {
        writeln!(out, "PeriodType: {} {}", period.kind, period.unit)?;
    }
    writeln!(out, "Period: {}", profile.period)?;
    if profile.time_nanos != 0 {
        writeln!(out, "Time: {}", date(profile.time_nanos))?;
    }
    if profile.duration_nanos != 0 {
        writeln!(out, "Duration: {}", units::natural(profile.duration_nanos, "nanoseconds"))?;
    }
    for (name, expression) in [("DropFrames", &profile.drop_frames), ("KeepFrames", &profile.keep_frames)] {
        if !expression.is_empty() {
            writeln!(out, "{name}: {expression}")?;
        }
    }
    writeln!(out, "Samples:")?;
    let types: Vec<String> = profile
        .sample_types
        .iter()
        .enumerate()
        .map(|(place, values)| {
            let default = if place == profile.default_type { "[dflt]" } else { "" };
            format!("{}/{}{default}", values.kind, values.unit)
        })
        .collect();
    writeln!(out, "{}", types.join(" "))?;
    for sample in profile.samples.iter() {
        for value in sample.values {
            write!(out, " {value:>10}")?;
        }
        write!(out, ":")?;
        for id in sample.chain {
            write!(out, " {}", id.0 + 1)?;
        }
        writeln!(out)?;
        let labels = profile.labels(sample.labels);
        if !labels.is_empty() {
            let labels: Vec<String> = labels.iter().map(label).collect();
            writeln!(out, "                {}", labels.join(" "))?;
        }
    }
    writeln!(out, "Locations")?;
    for (place, location) in profile.locations.iter().enumerate() {
        write_location(profile, place + 1, location, out)?;
    }
    writeln!(out, "Mappings")?;
    for (place, mapping) in profile.mappings.iter().enumerate() {
        write_mapping(place + 1, mapping, out)?;
    }
    Ok(())
}

fn label(label: &Label) -> String {
    match &label.value {
        LabelValue::Text(text) => format!("{}:[{text}]", label.key),
        LabelValue::Number(number, unit) if unit.is_empty() => format!("{}:[{number}]", label.key),
        LabelValue::Number(number, unit) => format!("{}:[{number} {unit}]", label.key),
    }
}

/// Writes a line for each function, innermost first; the address precedes the first.
fn write_location(
    profile: &Profile,
    number: usize,
    location: &Location,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "{number:>6}: {:#x} ", location.address)?;
    if let Some(mapping) = location.mapping {
        write!(out, "M={} ", mapping.0 + 1)?;
    }
    if location.is_folded {
        write!(out, "[F] ")?;
    }
    let mut indent = "";
    for line in &location.lines {
        writeln!(out, "{indent}{}", described(profile, line))?;
        indent = "             ";
    }
    if location.lines.is_empty() { writeln!(out) } else { Ok(()) }
}

fn described(profile: &Profile, line: &Line) -> String {
    let function = profile.function(line.function);
    let mut place = format!("{}:{}", function.file, line.line);
    if line.column != 0 {
        place += &format!(":{}", line.column);
    }
    let mut text = format!("{} {place} s={}", function.name, function.start_line);
    if function.name != function.system_name {
        text += &format!("({})", function.system_name);
    }
    text
}

fn write_mapping(number: usize, mapping: &Mapping, out: &mut dyn Write) -> io::Result<()> {
    let (start, end, offset) = (mapping.start, mapping.end, mapping.file_offset);
    write!(
        out,
        "{number}: {start:#x}/{end:#x}/{offset:#x} {} {} ",
        mapping.file.display(),
        mapping.build_id
    )?;
    let has = mapping.has;
    let flags = [(has.functions, "[FN]"), (has.files, "[FL]"), (has.lines, "[LN]"), (has.inlines, "[IN]")];
    for (_, text) in flags.iter().filter(|(is_set, _)| *is_set) {
        write!(out, "{text}")?;
    }
    if mapping.is_deleted {
        write!(out, "[deleted]")?;
    }
    writeln!(out)
}
