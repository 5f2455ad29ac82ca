//! The call graph as input for Graphviz.

use super::{Context, header};
use crate::{
    error::{Error, ErrorKind},
    graph::{Edge, Inlined, Node, Trim},
    profile::Profile,
    units::percent,
};
use std::{
    io::{self, Write},
    process::{Command, Stdio},
};

/// Writes the graph in DOT: a box for each function, larger with its flat value and redder with its
/// cumulative value; an arrow for each call, dashed if functions between are hidden.
///
/// # Errors
/// Those of `out`.
pub fn write(profile: &Profile, context: &Context, trim: &Trim, out: &mut dyn Write) -> io::Result<()> {
    let trimmed = trim.picture(profile);
    let graph = &trimmed.graph;
    let scale = context.scale_of_nodes(profile, &graph.nodes);
    let lines = header::profile_lines(profile, context, scale);
    let title = lines.first().and_then(|line| line.strip_prefix("File: ")).unwrap_or("calls");
    writeln!(out, "digraph {} {{", quoted(title))?;
    writeln!(out, "node [style=filled fillcolor=\"#f8f8f8\" fontname=\"sans-serif\"]")?;
    writeln!(out, "edge [fontname=\"sans-serif\"]")?;
    let filters = context.filters.iter().map(|filter| format!("Active filter: {filter}"));
    let legend: Vec<String> =
        lines.iter().cloned().chain(filters).chain(header::shown_lines(&trimmed, context, scale)).collect();
    let legend: String = legend.iter().map(|line| escaped(&shortened(line)) + "\\l").collect();
    writeln!(out, "legend [shape=box fontsize=16 fillcolor=\"#ffffff\" label=\"{legend}\"]")?;

    let total = context.total;
    let largest = graph.nodes.iter().map(|node| node.flat.saturating_abs()).max().unwrap_or(0);
    for (place, node) in graph.nodes.iter().enumerate() {
        let mut label = escaped(&shortened(&node.place.to_string())) + inlined(node.inlined);
        label += &format!("\\n{} ({})", scale.format(node.flat), percent(node.flat, total));
        if node.cum != node.flat {
            label += &format!("\\nof {} ({})", scale.format(node.cum), percent(node.cum, total));
        }
        let (size, color) = (font_size(node, largest), color(node.cum, total));
        let name = escaped(&node.place.to_string());
        writeln!(
            out,
            "n{place} [shape=box label=\"{label}\" tooltip=\"{name}\" fontsize={size} color=\"{}\" fillcolor=\"{}\"]",
            color.0, color.1
        )?;
    }
    for edge in &graph.edges {
        write_edge(edge, &scale.format(edge.value), context, out)?;
    }
    writeln!(out, "}}")
}

fn write_edge(edge: &Edge, value: &str, context: &Context, out: &mut dyn Write) -> io::Result<()> {
    let share = share(edge.value, context.total);
    #[expect(clippy::cast_possible_truncation, reason = "from 1 to 101")]
    let (weight, width) = ((1.0 + 100.0 * share) as i32, 1.0 + 5.0 * share);
    let style = if edge.is_residual { " style=dashed" } else { "" };
    let inlined = if edge.is_inlined { " (inline)" } else { "" };
    let (caller, callee, color) = (edge.caller, edge.callee, color(edge.value, context.total).0);
    writeln!(
        out,
        "n{caller} -> n{callee} [label=\" {value}{inlined}\" weight={weight} penwidth={width:.2} color=\"{color}\"{style}]"
    )
}

fn inlined(inlined: Inlined) -> &'static str {
    match inlined {
        Inlined::Never => "",
        Inlined::Partly => " (partial-inline)",
        Inlined::Always => " (inline)",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a colour or a width")]
fn share(value: i64, total: i64) -> f64 {
    if total == 0 { 0.0 } else { (value as f64 / total as f64).abs().min(1.0) }
}

/// 8 points for a flat value of 0; the area grows with the value.
#[expect(clippy::cast_possible_truncation, reason = "from 8 to 40")]
fn font_size(node: &Node, largest: i64) -> i32 {
    8 + (32.0 * share(node.flat, largest).sqrt()) as i32
}

/// Colours of line and fill: grey to red for positive values, green for negative ones.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
fn color(value: i64, total: i64) -> (String, String) {
    let share = share(value, total).sqrt();
    let hue = if value < 0 { [0.0, 120.0, 0.0] } else { [178.0, 0.0, 0.0] };
    let mix = |from: f64, to: f64, share: f64| (from + (to - from) * share) as u8;
    let hex = |from: f64, share: f64| {
        let [red, green, blue] = hue.map(|to| mix(from, to, share));
        format!("#{red:02x}{green:02x}{blue:02x}")
    };
    (hex(178.0, share), hex(245.0, 0.25 * share))
}

/// A line cut to the width of a box; the tooltip has the whole name.
fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 3).chain("...".chars()).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l")
}

/// Runs Graphviz to convert a graph in DOT to SVG.
///
/// # Errors
/// If Graphviz is not installed, or fails.
pub fn to_svg(graph: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = |reason: String| Error::new(ErrorKind::Io, reason);
    let mut command = Command::new("dot");
    command.arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        failed(format!("cannot run `dot` to draw the graph: {error}"))
            .advise("install the package graphviz, or use --format dot")
            .caused_by(error)
    })?;
    let stdin = child.stdin.take();
    // A thread writes the input, because dot may write output before it has read all.
    let output = std::thread::scope(|scope| {
        scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(graph)));
        child.wait_with_output()
    });
    let output = output
        .map_err(|error| failed(format!("cannot read the output of `dot`: {error}")).caused_by(error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("it says nothing").to_owned();
        return Err(failed(format!("`dot` failed ({}): {said}", output.status)));
    }
    Ok(as_wide_as_the_window(output.stdout))
}

/// Replaces Graphviz's size in points, which browsers crop, by the full width.
fn as_wide_as_the_window(svg: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&svg) else { return svg };
    let size = text.find("<svg width=\"").and_then(|begin| {
        let begin = begin + "<svg ".len();
        let end = begin + text.get(begin..)?.find(['\n', '>'])?;
        text.get(begin..end)?.contains("height=\"").then_some(begin..end)
    });
    match size {
        Some(size) => [&text[..size.start], "width=\"100%\"", &text[size.end..]].concat().into_bytes(),
        None => svg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_quotes_in_names() {
        assert_eq!(quoted("a\"b\\"), r#""a\"b\\""#);
    }

    #[test]
    fn shortens_long_lines() {
        assert_eq!(shortened(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(shortened(&"é".repeat(81)), "é".repeat(77) + "...");
    }

    #[test]
    fn picture_fills_the_window() {
        let svg = b"<?xml?>\n<svg width=\"9pt\" height=\"8pt\"\n viewBox=\"0 0 9 8\">";
        assert_eq!(
            as_wide_as_the_window(svg.to_vec()),
            b"<?xml?>\n<svg width=\"100%\"\n viewBox=\"0 0 9 8\">"
        );
        assert_eq!(as_wide_as_the_window(b"<svg>".to_vec()), b"<svg>");
    }

    #[test]
    fn colours_are_red_for_positive_and_green_for_negative_values() {
        assert_eq!(color(0, 100), ("#b2b2b2".into(), "#f5f5f5".into()));
        assert_eq!(color(100, 100).0, "#b20000");
        assert_eq!(color(-100, 100).0, "#007800");
        assert_eq!(color(5, 0).0, "#b2b2b2");
    }
}
