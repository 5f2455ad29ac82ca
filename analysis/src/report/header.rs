//! Header of a report: the profile, its time and duration, and what the report shows.

use super::{Context, styled};
use crate::{
    graph::{Change, Trimmed},
    profile::Profile,
    units,
    units::Scale,
};
use std::io::{self, Write};

pub(super) fn write_profile(
    profile: &Profile,
    context: &Context,
    scale: Scale,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in profile_lines(profile, context, scale) {
        writeln!(out, "{}", styled(context.colors.heading, line))?;
    }
    if !context.filters.is_empty() {
        writeln!(out, "Active filters:")?;
        for filter in &context.filters {
            writeln!(out, "   {filter}")?;
        }
    }
    Ok(())
}

pub(super) fn profile_lines(profile: &Profile, context: &Context, scale: Scale) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(mapping) = profile.mappings.first() {
        if let Some(name) = mapping.file.file_name() {
            lines.push(format!("File: {}", name.to_string_lossy()));
        }
        if !mapping.build_id.is_empty() {
            lines.push(format!("Build ID: {}", mapping.build_id));
        }
    }
    // As in pprof, comments that begin with # are for programs.
    lines.extend(profile.comments.iter().filter(|one| !one.starts_with('#')).map(ToString::to_string));
    let values = &profile.sample_types[profile.default_type];
    lines.push(format!("Type: {}", values.kind));
    if profile.time_nanos != 0 {
        lines.push(format!("Time: {}", date(profile.time_nanos)));
    }
    if let Some(change) = &context.change {
        lines.push(total_line(change, context.total, scale));
    } else if profile.duration_nanos != 0 {
        let duration = units::natural(profile.duration_nanos, "nanoseconds");
        let mut line = format!("Duration: {duration}, Total samples = {}", scale.format(context.total));
        let (nanos, unit) = units::convert(context.total, &values.unit, "ns");
        if unit == "ns" && nanos != 0.0 && Scale::named("ns", &values.kind, &values.unit).is_ok() {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it was an i64 of this unit or a coarser one"
            )]
            let share = units::percent(nanos as i64, profile.duration_nanos);
            line += &format!(" ({share})");
        }
        lines.push(line);
    }
    lines
}

fn total_line(change: &Change, total: i64, scale: Scale) -> String {
    let value = |value: i64| scale.format(value);
    let difference = change.difference();
    let noise = change.noise.map(|noise| format!(" ± {}", value(noise))).unwrap_or_default();
    let share = units::percent(difference, total);
    let line = format!(
        "Total: old {}, new {}, difference {}{noise} ({share} of old)",
        value(change.old),
        value(change.new),
        value(difference)
    );
    if change.noise.is_some() { line } else { line + "; no ±, because the number of samples is not known" }
}

/// Writes how much of the total the rows show, and what they leave out.
pub(super) fn write_shown(
    trimmed: &Trimmed,
    context: &Context,
    scale: Scale,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in shown_lines(trimmed, context, scale) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Returns the lines that state how much of the total the rows show.
pub(super) fn shown_lines(trimmed: &Trimmed, context: &Context, scale: Scale) -> Vec<String> {
    let nodes = &trimmed.graph.nodes;
    let shown = nodes.iter().fold(0_i64, |sum, node| sum.saturating_add(node.flat));
    let total = context.total;
    let mut lines = vec![format!(
        "Showing nodes accounting for {}, {} of {} total",
        scale.format(shown),
        units::percent(shown, total),
        scale.format(total)
    )];
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    if trimmed.dropped_nodes > 0 {
        let nodes = plural(trimmed.dropped_nodes, "node");
        lines.push(format!("Dropped {nodes} (cum < {})", scale.format(trimmed.node_cutoff)));
    }
    if trimmed.dropped_edges > 0 {
        let edges = plural(trimmed.dropped_edges, "edge");
        lines.push(format!("Dropped {edges} (value < {})", scale.format(trimmed.edge_cutoff)));
    }
    if trimmed.insignificant_nodes > 0 {
        lines.push(format!("Dropped {} (within noise)", plural(trimmed.insignificant_nodes, "node")));
    }
    if trimmed.negative_nodes > 0 {
        lines.push(format!("Dropped {} (value < 0)", plural(trimmed.negative_nodes, "node")));
    }
    if nodes.len() < trimmed.nodes_before_count {
        lines.push(format!("Showing top {} nodes out of {}", nodes.len(), trimmed.nodes_before_count));
    }
    if trimmed.graph.without_chain != 0 {
        lines.push(format!("Samples without a call chain: {}", scale.format(trimmed.graph.without_chain)));
    }
    lines
}

/// Formats nanoseconds since 1970 as `2026-01-02 03:04:05 UTC`.
pub(super) fn date(nanos: i64) -> String {
    let seconds = nanos.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March, so that a leap day is the last day; an era is 400 years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn formats_dates_in_leap_years() {
        // Expected: the output of `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), text);
        }
    }
}
