//! The functions that take most.

use super::{Context, diff, header, styled, width};
use crate::{
    graph::{Inlined, Node, Trim},
    profile::Profile,
    units::percent,
};
use std::io::{self, Write};

/// Writes a row for each node, the largest first: its own value, the running sum of those, and its value with all it calls. Of a
/// comparison, a row has the older and the newer value, and the difference.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, trim: &Trim, out: &mut dyn Write) -> io::Result<()> {
    if context.change.is_some() {
        return diff::write(profile, context, trim, out);
    }
    let trimmed = trim.values(profile);
    let scale = context.scale(profile, &trimmed.graph.nodes);
    header::write_profile(profile, context, scale, out)?;
    header::write_shown(&trimmed, context, scale, out)?;

    let total = context.total;
    let mut sum = 0_i64;
    let mut rows: Vec<[String; 5]> = vec![["flat", "flat%", "sum%", "cum", "cum%"].map(String::from)];
    for node in &trimmed.graph.nodes {
        sum = sum.saturating_add(node.flat);
        let (flat, cum) = (scale.format(node.flat), scale.format(node.cum));
        rows.push([flat, percent(node.flat, total), percent(sum, total), cum, percent(node.cum, total)]);
    }
    let widths = width::columns(&rows, [10, 6, 6, 10, 6]);
    let line = |row: &[String; 5]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join(" ")
    };
    writeln!(out, "{}", styled(context.colors.heading, line(&rows[0])))?;
    let room =
        context.width.map(|width| width.saturating_sub(widths.iter().sum::<usize>() + widths.len() + 1));
    for (node, row) in trimmed.graph.nodes.iter().zip(&rows[1..]) {
        let style = context.colors.of(if trim.by_cum { node.cum } else { node.flat }, total);
        let name = width::cut(&name_of(node), room);
        writeln!(out, "{}  {name}", styled(style, line(row)))?;
    }
    Ok(())
}

/// The place, and whether it was inlined.
pub(super) fn name_of(node: &Node) -> String {
    let inlined = match node.inlined {
        Inlined::Never => "",
        Inlined::Partly => " (partial-inline)",
        Inlined::Always => " (inline)",
    };
    format!("{}{inlined}", node.place)
}
