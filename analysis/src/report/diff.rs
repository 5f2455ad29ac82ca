//! Rows of a comparison.

use super::{
    Context, header,
    table::{self, Row, name_of},
};
use crate::{
    graph::{Change, Trim},
    profile::Profile,
    units::percent,
};
use anstyle::Style;
use std::io::{self, Write};

/// Writes a row for each node, the largest difference first: old and new value, difference with
/// noise, and its share of the base. Rows within noise are dimmed.
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
    // Functions without a flat value on either side.
    let is_zero = |change: Change| (change.old, change.new) == (0, 0);
    let before = trimmed.graph.nodes.len();
    trimmed.graph.nodes.retain(|node| !node.changes.is_some_and(|changes| is_zero(trim.change(&changes))));
    trimmed.nodes_before_count -= before - trimmed.graph.nodes.len();
    let nodes = &trimmed.graph.nodes;
    let scale = context.scale_of_nodes(profile, nodes);
    header::write_profile(profile, context, scale, out)?;
    header::write_shown(&trimmed, context, scale, out)?;

    let rows: Vec<Row<5>> = nodes
        .iter()
        .map(|node| {
            let change = node.changes.map(|changes| trim.change(&changes)).unwrap_or_default();
            let [old, new, difference] =
                [change.old, change.new, change.difference()].map(|value| scale.format(value));
            let noise = change.noise.map_or_else(|| "?".into(), |noise| scale.format(noise));
            let cells = [old, new, difference, noise, percent(change.difference(), context.total)];
            let style = context.colors.of_change(&change);
            let name_style = if change.is_significant() { Style::new() } else { style };
            Row { cells, style, name: name_of(node), name_style }
        })
        .collect();
    table::write(context, ["old", "new", "diff", "±", "diff%"], [10, 10, 10, 8, 7], &rows, out)
}
