//! Each sample with its labels and its call chain.

use super::{Context, header, width};
use crate::{
    graph::Frames,
    profile::{LabelValue, Profile},
    units,
};
use std::io::{self, Write};

const RULE: &str = "-----------+-------------------------------------------------------";

/// Writes the samples in their order: labels, then the value beside the innermost frame, then the callers.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, out: &mut dyn Write) -> io::Result<()> {
    let value_of = |values: &[i64]| values[profile.default_type];
    let values = || profile.samples.iter().map(|sample| value_of(sample.values).saturating_abs());
    let least = values().filter(|&value| value > 0).min().unwrap_or(0);
    let unit = &profile.sample_types[profile.default_type].unit;
    let scale =
        context.scale.unwrap_or_else(|| units::Scale::of_report(least, values().max().unwrap_or(0), unit));
    header::write_profile(profile, context, scale, out)?;

    let frames = Frames::new(profile);
    let names: Vec<String> = frames.places.iter().map(ToString::to_string).collect();
    let room = context.width.map(|width| width.saturating_sub(14));
    for sample in profile.samples.iter() {
        writeln!(out, "{RULE}")?;
        for label in profile.labels(sample.labels) {
            let value = match &label.value {
                LabelValue::Text(text) => text.to_string(),
                LabelValue::Number(number, unit) if unit.is_empty() => number.to_string(),
                LabelValue::Number(number, unit) => units::natural(*number, unit),
            };
            writeln!(out, "{:>10}:  {value}", label.key)?;
        }
        let mut value = scale.format(value_of(sample.values));
        if sample.chain.is_empty() {
            writeln!(out, "{value:>10}   <no call chain>")?;
        }
        for &location in sample.chain {
            let nodes = frames.of(location);
            for (depth, &node) in nodes.iter().enumerate() {
                let name = width::cut(&names[node as usize], room);
                let inlined = if depth + 1 == nodes.len() { "" } else { " (inline)" };
                writeln!(out, "{value:>10}   {name}{inlined}")?;
                value.clear();
            }
        }
    }
    writeln!(out, "{RULE}")
}
