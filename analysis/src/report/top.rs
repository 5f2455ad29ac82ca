//! The functions with the largest values.

use super::{
    Context, diff, header,
    table::{self, Row, name_of},
};
use crate::{graph::Trim, profile::Profile, units::percent};
use anstyle::Style;
use std::io::{self, Write};

/// Writes a row for each node, the largest first: flat value, running sum, cumulative value.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, trim: &Trim, out: &mut dyn Write) -> io::Result<()> {
    if context.change.is_some() {
        return diff::write(profile, context, trim, out);
    }
    let trimmed = trim.values(profile);
    let scale = context.scale_of_nodes(profile, &trimmed.graph.nodes);
    header::write_profile(profile, context, scale, out)?;
    header::write_shown(&trimmed, context, scale, out)?;

    let total = context.total;
    let mut sum = 0_i64;
    let mut rows: Vec<Row<5>> = Vec::new();
    for node in &trimmed.graph.nodes {
        sum = sum.saturating_add(node.flat);
        let (flat, cum) = (scale.format(node.flat), scale.format(node.cum));
        let cells = [flat, percent(node.flat, total), percent(sum, total), cum, percent(node.cum, total)];
        let style = context.colors.of(if trim.by_cum { node.cum } else { node.flat }, total);
        rows.push(Row { cells, style, name: name_of(node), name_style: Style::new() });
    }
    table::write(context, ["flat", "flat%", "sum%", "cum", "cum%"], [10, 6, 6, 10, 6], &rows, out)
}
