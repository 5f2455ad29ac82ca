//! Each function between its callers and callees.

use super::{Context, header, styled, width};
use crate::{
    graph::{Edge, Graph, Trim},
    profile::Profile,
    units::{Scale, percent},
};
use regex::Regex;
use std::io::{self, Write};

const RULE: &str = "----------------------------------------------------------+-------------";

/// Writes a block for each node, or each that `wanted` matches: its callers, itself, and its
/// callees. Returns the number of blocks; if `wanted` matches none, nothing is written.
///
/// # Errors
/// Those of `out`.
pub fn write(
    profile: &Profile,
    context: &Context,
    trim: &Trim,
    wanted: Option<&Regex>,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let trimmed = trim.calls(profile);
    let graph = &trimmed.graph;
    let names: Vec<String> = graph.nodes.iter().map(|node| node.place.to_string()).collect();
    let is_shown: Vec<bool> =
        names.iter().map(|name| wanted.is_none_or(|wanted| wanted.is_match(name))).collect();
    let blocks = is_shown.iter().filter(|&&is_shown| is_shown).count();
    if wanted.is_some() && blocks == 0 {
        return Ok(0);
    }
    let scale = context.scale_of_nodes(profile, &graph.nodes);
    header::write_profile(profile, context, scale, out)?;
    header::write_shown(&trimmed, context, scale, out)?;
    writeln!(out, "{RULE}")?;
    let is_negative = |value: i64| value < 0;
    let width =
        if graph.nodes.iter().any(|node| is_negative(node.flat) || is_negative(node.cum)) { 7 } else { 6 };
    let columns = format!(
        "{:>10} {:>width$} {:>width$} {:>10} {:>width$}   calls calls% | context",
        "flat", "flat%", "sum%", "cum", "cum%"
    );
    writeln!(out, "{}", styled(context.colors.heading, columns))?;
    let (callers, callees) = neighbours(graph);
    let block = Block { graph, names: &names, scale, context, width };
    let mut sum = 0_i64;
    for place in (0..graph.nodes.len()).filter(|&place| is_shown[place]) {
        writeln!(out, "{RULE}")?;
        let node = &graph.nodes[place];
        sum = sum.saturating_add(node.flat);
        for &edge in &callers[place] {
            block.write_edge(edge, edge.caller, node.cum, out)?;
        }
        let total = context.total;
        let cells = format!(
            "{:>10} {:>width$} {:>width$} {:>10} {:>width$}",
            scale.format(node.flat),
            percent(node.flat, total),
            percent(sum, total),
            scale.format(node.cum),
            percent(node.cum, total)
        );
        let style = context.colors.of(node.cum, total);
        let name = block.name(place, 60);
        writeln!(out, "{}                | {name}", styled(style, cells))?;
        for &edge in &callees[place] {
            block.write_edge(edge, edge.callee, node.cum, out)?;
        }
    }
    writeln!(out, "{RULE}")?;
    Ok(blocks)
}

struct Block<'a> {
    graph: &'a Graph,
    names: &'a [String],
    scale: Scale,
    context: &'a Context,
    width: usize,
}

impl Block<'_> {
    /// Writes the line of a caller or callee, `place`; shares are of the node's `cum`.
    fn write_edge(&self, edge: &Edge, place: usize, cum: i64, out: &mut dyn Write) -> io::Result<()> {
        let value = self.scale.format(edge.value);
        let share = percent(edge.value, cum);
        let inlined = if edge.is_inlined { " (inline)" } else { "" };
        let indent = 32 + 3 * self.width;
        let cells = format!("{value:>indent$} {share:>6}");
        writeln!(out, "{cells} |   {}{inlined}", self.name(place, 62))
    }

    fn name(&self, place: usize, used: usize) -> String {
        debug_assert!(place < self.graph.nodes.len());
        width::cut(&self.names[place], self.context.width.map(|width| width.saturating_sub(used)))
    }
}

/// Returns for each node the edges to its callers and callees, heaviest first.
fn neighbours(graph: &Graph) -> (Vec<Vec<&Edge>>, Vec<Vec<&Edge>>) {
    let mut callers = vec![Vec::new(); graph.nodes.len()];
    let mut callees = callers.clone();
    for edge in &graph.edges {
        callers[edge.callee].push(edge);
        callees[edge.caller].push(edge);
    }
    (callers, callees)
}
