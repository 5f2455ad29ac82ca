//! The functions whose time has changed most: the rows of a comparison.

use super::{Context, header, styled, top::name_of, width};
use crate::{
    graph::{Change, Trim},
    profile::Profile,
    units::percent,
};
use std::io::{self, Write};

/// Writes a row for each node, the largest difference first: its value in the older profile and in the newer, the difference with
/// what of it may be chance, and its share of the older profile. Rows within chance are dimmed.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(
    profile: &Profile,
    context: &Context,
    trim: &Trim,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut trimmed = trim.values(profile);
    // Functions that only call others have nothing of their own on either side.
    let is_zero = |change: Change| (change.old, change.new) == (0, 0);
    let before = trimmed.graph.nodes.len();
    trimmed.graph.nodes.retain(|node| !node.changes.is_some_and(|changes| is_zero(trim.change(&changes))));
    trimmed.nodes_before_count -= before - trimmed.graph.nodes.len();
    let nodes = &trimmed.graph.nodes;
    let scale = context.scale(profile, nodes);
    header::write_profile(profile, context, scale, out)?;
    header::write_shown(&trimmed, context, scale, out)?;

    let changes: Vec<_> = nodes
        .iter()
        .map(|node| node.changes.map(|changes| trim.change(&changes)).unwrap_or_default())
        .collect();
    let mut rows: Vec<[String; 5]> = vec![["old", "new", "diff", "±", "diff%"].map(String::from)];
    rows.extend(changes.iter().map(|change| {
        let difference = change.difference();
        let noise = change.noise.map_or_else(|| "?".into(), |noise| scale.format(noise));
        let values = [change.old, change.new, difference].map(|value| scale.format(value));
        let [old, new, shown] = values;
        [old, new, shown, noise, percent(difference, context.total)]
    }));
    let widths = width::columns(&rows, [10, 10, 10, 8, 7]);
    let line = |row: &[String; 5]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join(" ")
    };
    writeln!(out, "{}", styled(context.colors.heading, line(&rows[0])))?;
    let room =
        context.width.map(|width| width.saturating_sub(widths.iter().sum::<usize>() + widths.len() + 1));
    for ((node, change), row) in nodes.iter().zip(&changes).zip(&rows[1..]) {
        let text = format!("{}  {}", line(row), width::cut(&name_of(node), room));
        writeln!(out, "{}", styled(context.colors.of_change(change), text))?;
    }
    Ok(())
}
