//! Tables of functions: columns of numbers, and a name.

use super::{Context, styled, width};
use crate::graph::{Inlined, Node};
use anstyle::Style;
use std::io::{self, Write};

pub(super) struct Row<const COLUMNS: usize> {
    /// The numbers as text.
    pub(super) cells: [String; COLUMNS],
    pub(super) style: Style,
    /// The function's name, which is cut to the terminal width.
    pub(super) name: String,
    pub(super) name_style: Style,
}

/// Writes heads and rows. A column has the width of its longest cell, at least that of `widths`.
///
/// # Errors
/// Those of `out`.
pub(super) fn write<const COLUMNS: usize>(
    context: &Context,
    heads: [&str; COLUMNS],
    widths: [usize; COLUMNS],
    rows: &[Row<COLUMNS>],
    out: &mut dyn Write,
) -> io::Result<()> {
    let heads = heads.map(String::from);
    let widths = width::columns(std::iter::once(&heads).chain(rows.iter().map(|row| &row.cells)), widths);
    let line = |cells: &[String; COLUMNS]| {
        let cells: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join(" ")
    };
    writeln!(out, "{}", styled(context.colors.heading, line(&heads)))?;
    let used = widths.iter().sum::<usize>() + COLUMNS + 1;
    let room = context.width.map(|width| width.saturating_sub(used));
    for row in rows {
        let name = styled(row.name_style, width::cut(&row.name, room));
        writeln!(out, "{}  {name}", styled(row.style, line(&row.cells)))?;
    }
    Ok(())
}

pub(super) fn name_of(node: &Node) -> String {
    let inlined = match node.inlined {
        Inlined::Never => "",
        Inlined::Partly => " (partial-inline)",
        Inlined::Always => " (inline)",
    };
    format!("{}{inlined}", node.place)
}
