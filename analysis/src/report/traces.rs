//! Each sample with its labels and call stack.

use super::{Context, header, width};
use crate::{
    graph::Frames,
    profile::{Label, LabelValue, Profile},
    units,
};
use std::io::{self, Write};

const RULE: &str = "-----------+-------------------------------------------------------";

/// Writes the samples in order: labels, value and innermost frame, then the callers.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, out: &mut dyn Write) -> io::Result<()> {
    let value_of = |values: &[i64]| values[profile.default_type];
    let values = || profile.samples.iter().map(|sample| value_of(sample.values).saturating_abs());
    let largest = values().max().unwrap_or(0);
    let scale = context.scale_up_to(largest, profile, values().map(|value| (value, 0)));
    header::write_profile(profile, context, scale, out)?;

    let frames = Frames::new(profile);
    let names: Vec<String> = frames.places.iter().map(ToString::to_string).collect();
    let room = context.width.map(|width| width.saturating_sub(14));
    for sample in profile.samples.iter() {
        writeln!(out, "{RULE}")?;
        for line in labels(profile.labels(sample.labels)) {
            writeln!(out, "{line}")?;
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

/// Returns a line for each key, strings before numbers, sorted by line.
fn labels(labels: &[Label]) -> Vec<String> {
    let mut lines: Vec<(bool, &str, Vec<String>)> = Vec::new();
    for label in labels {
        let (is_number, value) = match &label.value {
            LabelValue::Text(text) => (false, text.to_string()),
            LabelValue::Number(number, unit) if unit.is_empty() => (true, number.to_string()),
            LabelValue::Number(number, unit) => (true, units::natural(*number, unit)),
        };
        let is_same = |line: &&mut (bool, &str, Vec<String>)| line.0 == is_number && line.1 == &*label.key;
        match lines.iter_mut().find(is_same) {
            Some(line) => line.2.push(value),
            None => lines.push((is_number, &label.key, vec![value])),
        }
    }
    let mut lines: Vec<(bool, String)> = lines
        .into_iter()
        .map(|(is_number, key, values)| (is_number, format!("{key:>10}:  {}", values.join(" "))))
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}
