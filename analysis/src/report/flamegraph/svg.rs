//! The picture. Boxes have percentages as coordinates, so it fills the window without a script. The
//! script shortens names and wraps the subtitle again after zooming or resizing.

use super::{FlamegraphOptions, stacks::Stacks};
use crate::{
    graph::Change,
    profile::ValueType,
    report::{call_tree::ROOT, short_name},
    text::{escaped, visible},
    units::{natural, percent},
};
use std::{borrow::Cow, fmt::Write as _};

/// Narrower frames are not drawn, in percent of the whole width: an eighth of a pixel of 1200.
const NARROWEST: f64 = 0.01;
const ALL: &str = "all";
/// The box for all outermost frames below [`NARROWEST`].
const TOO_NARROW: &str = "[too narrow to show]";
/// Maximum characters of a name in a tooltip, which is repeated for each box.
const LONGEST_TITLE: usize = 4096;

/// Width of a window-wide picture in a viewer that does not run the script.
const USUAL_WIDTH: usize = 1200;
/// Margins of the boxes, left and right.
const MARGIN: usize = 10;
/// Distance between rows of boxes, including a gap of one pixel.
const ROW: usize = 16;
/// Baselines of the title and of the first line of the subtitle, and line distance.
const TITLE: usize = 24;
const SUBTITLE: usize = 46;
const LINE: usize = 14;
/// Distance of the details line from the last subtitle line, and of the boxes from it.
const DETAILS: usize = 20;
const GAP: usize = 8;
/// Margins of text in a box, and width of a letter in a monospaced font of 12 pixels.
const TEXT_MARGINS: f64 = 5.0;
const LETTER: f64 = 7.25;
/// Width of the `Reset zoom` and `Search` buttons beside the title; also in `script.js`.
const CORNER: usize = 76;
const TITLE_SCALE: f64 = 17.0 / 12.0;
/// Limit of subtitle lines. sigprof's need up to 9; a profile may have long type names.
const MAX_LINES: usize = 12;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

pub(super) struct Picture {
    width: Option<usize>,
    is_upward: bool,
    subtitle: String,
    boxes: Vec<FrameBox>,
    rows: usize,
}

struct FrameBox {
    name: String,
    value: String,
    /// None for grey: the root, [`TOO_NARROW`], and changes within noise.
    colour: Option<[u8; 3]>,
    /// In percent of the whole width.
    begin: f64,
    width: f64,
    /// Distance from the root's row.
    row: usize,
}

impl Picture {
    pub(super) fn of(stacks: Stacks, kind: &ValueType, options: &FlamegraphOptions) -> Self {
        let whole = stacks.widths[ROOT as usize];
        let share = |width: f64| 100.0 * width / whole;
        let order = stacks.tree.preorder(
            |frame| &stacks.names[frame as usize],
            |node| share(stacks.widths[node as usize]) >= NARROWEST,
        );
        let total = stacks.changes.as_ref().map_or(stacks.values[0], |changes| changes[0].old);
        let words = |value: i64, change: Option<Change>| match change {
            None => format!("{}, {}", natural(value, &kind.unit), percent(value, total)),
            Some(change) => shown(&change, total, &kind.unit),
        };
        let change = |node: usize| stacks.changes.as_ref().map(|changes| changes[node]);
        let colour = |node: usize, own: Option<[u8; 3]>| match change(node) {
            None => own,
            Some(change) => colour_of(&change),
        };

        // Start of the next box in each row: the end of the last one, or the start of its caller.
        let mut begins: Vec<f64> = Vec::new();
        let mut boxes = Vec::with_capacity(order.nodes.len());
        for (&node, &depth) in order.nodes.iter().zip(&order.depths) {
            let (node, row) = (node as usize, depth as usize);
            let begin = begins.get(row).copied().unwrap_or(0.0);
            begins.truncate(row);
            begins.extend([begin + share(stacks.widths[node]), begin]);
            let (name, own) = if row == 0 {
                (ALL, None)
            } else {
                let frame = stacks.tree.frame(node as u32) as usize;
                (&*stacks.names[frame], Some(stacks.colours[frame]))
            };
            boxes.push(FrameBox {
                name: name.into(),
                value: words(stacks.values[node], change(node)),
                colour: colour(node, own),
                begin,
                width: share(stacks.widths[node]),
                row,
            });
        }
        // Outermost frames that are too narrow share a box.
        let is_narrow =
            |node: &usize| stacks.tree.parent(*node) == 0 && share(stacks.widths[*node]) < NARROWEST;
        let narrow: Vec<usize> = (1..stacks.tree.len()).filter(is_narrow).collect();
        if !narrow.is_empty() {
            let sum = |values: &dyn Fn(usize) -> i64| {
                narrow.iter().fold(0_i64, |sum, &node| sum.saturating_add(values(node)))
            };
            let change = stacks.changes.as_ref().map(|changes| Change {
                old: sum(&|node| changes[node].old),
                new: sum(&|node| changes[node].new),
                noise: None,
            });
            boxes.push(FrameBox {
                name: TOO_NARROW.into(),
                value: words(sum(&|node| stacks.values[node]), change),
                colour: None,
                begin: begins.get(1).copied().unwrap_or(0.0),
                width: share(narrow.iter().map(|&node| stacks.widths[node]).sum()),
                row: 1,
            });
        }
        let hidden = stacks.widths.iter().filter(|&&width| width > 0.0).count() - order.nodes.len();
        Self {
            width: options.width,
            is_upward: options.is_upward,
            subtitle: subtitle(kind, &stacks, hidden),
            rows: boxes.iter().map(|one| one.row).max().unwrap_or(0) + 1,
            boxes,
        }
    }

    pub(super) fn draw(&self, title: &str) -> String {
        let width = self.width.unwrap_or(USUAL_WIDTH);
        let lines = wrapped(&self.subtitle, width);
        let details = SUBTITLE + LINE * (lines.len() - 1) + DETAILS;
        let top = details + GAP;
        let height = top + ROW * self.rows + MARGIN;
        let inner = width - 2 * MARGIN;
        let subtitle: String = (0..)
            .zip(&lines)
            .map(|(place, line)| {
                let down = if place == 0 { 0 } else { LINE };
                format!("<tspan x=\"50%\" dy=\"{down}\">{}</tspan>", escaped(line))
            })
            .collect();
        let title = escaped(&shortened(&visible(title), width));
        let fluid = if self.width.is_none() { " class=\"fluid\"" } else { "" };
        let direction = if self.is_upward { "up" } else { "down" };
        let mut svg = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\"{fluid} data-direction=\"{direction}\">\n\
             <style><![CDATA[\n{STYLE}]]></style>\n\
             <rect id=\"background\" width=\"100%\" height=\"{height}\"/>\n\
             <text id=\"title\" x=\"50%\" y=\"{TITLE}\">{title}</text>\n\
             <text id=\"subtitle\" x=\"50%\" y=\"{SUBTITLE}\">{subtitle}</text>\n\
             <text id=\"unzoom\" x=\"{MARGIN}\" y=\"{TITLE}\" class=\"hidden\">Reset zoom</text>\n\
             <text id=\"search\" x=\"100%\" dx=\"-{MARGIN}\" y=\"{TITLE}\">Search</text>\n\
             <text id=\"details\" x=\"{MARGIN}\" y=\"{details}\"> </text>\n\
             <text id=\"matched\" x=\"100%\" dx=\"-{MARGIN}\" y=\"{details}\"> </text>\n\
             <svg id=\"frames\" x=\"{MARGIN}\" y=\"{top}\" width=\"{inner}\" height=\"{}\">\n",
            ROW * self.rows,
        );
        for one in &self.boxes {
            self.draw_box(one, inner, &mut svg);
        }
        svg += &format!("</svg>\n<script><![CDATA[\n{}{SCRIPT}]]></script>\n</svg>\n", short_name::SCRIPT);
        svg
    }

    fn draw_box(&self, one: &FrameBox, inner: usize, svg: &mut String) {
        let row = if self.is_upward { self.rows - 1 - one.row } else { one.row };
        let y = ROW * row;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and small"
        )]
        let letters = ((one.width / 100.0 * inner as f64 - TEXT_MARGINS) / LETTER).max(0.0) as usize;
        let (begin, width, baseline) = (Percent(one.begin), Percent(one.width), y + 11);
        let fill = one.colour.map_or_else(
            || "class=\"plain\"".into(),
            |[red, green, blue]| format!("fill=\"#{red:02x}{green:02x}{blue:02x}\""),
        );
        let title = escaped(&clipped(&one.name));
        let text = escaped(&short_name::fitted(&one.name, letters));
        let value = &one.value;
        writeln!(
            svg,
            "<g><title>{title} ({value})</title><rect x=\"{begin}%\" y=\"{y}\" width=\"{width}%\" height=\"15\" \
             {fill}/><text x=\"{begin}%\" dx=\"3\" y=\"{baseline}\">{text}</text></g>"
        )
        .expect("a text takes all");
    }
}

/// A percentage, exact to a thousandth of a pixel on a wide screen.
struct Percent(f64);

impl std::fmt::Display for Percent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.6}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn shown(change: &Change, total: i64, unit: &str) -> String {
    let signed = |value: i64| format!("{}{}", if value > 0 { "+" } else { "" }, natural(value, unit));
    let noise = change.noise.map_or_else(String::new, |noise| format!(" ±{}", natural(noise, unit)));
    let difference = change.difference();
    format!(
        "old {}, new {}: {}{noise}, {} of old",
        natural(change.old, unit),
        natural(change.new, unit),
        signed(difference),
        percent(difference, total),
    )
}

/// Red for more, blue for less, deeper for a larger relative difference; None within noise.
fn colour_of(change: &Change) -> Option<[u8; 3]> {
    const PALEST: f64 = 245.0;
    const DEEPEST: f64 = 95.0;
    let difference = change.difference();
    let larger = change.old.max(change.new);
    if difference == 0 || !change.is_significant() || larger <= 0 {
        return None;
    }
    let share = (difference as f64 / larger as f64).abs().min(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
    let faded = (PALEST - (PALEST - DEEPEST) * share.sqrt()) as u8;
    Some(if difference > 0 { [255, faded, faded] } else { [faded, faded, 255] })
}

fn subtitle(kind: &ValueType, stacks: &Stacks, hidden: usize) -> String {
    let value = |value: i64| natural(value, &kind.unit);
    let mut text = format!("{}, {}", visible(&kind.kind), value(stacks.values[0]));
    if let Some(changes) = &stacks.changes {
        text += &format!(
            "; old {}; red: more than old, blue: less, grey: within noise; width: the larger side",
            value(changes[0].old)
        );
    }
    match hidden {
        0 => {}
        1 => text += &format!("; 1 frame below {NARROWEST} % is not shown"),
        _ => text += &format!("; {hidden} frames below {NARROWEST} % are not shown"),
    }
    text
}

fn shortened(title: &str, width: usize) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and small")]
    let letters = (width.saturating_sub(2 * MARGIN + 2 * CORNER) as f64 / (LETTER * TITLE_SCALE)) as usize;
    if title.chars().count() <= letters {
        return title.into();
    }
    let cut = title.chars().take(letters.saturating_sub(1));
    cut.chain(['…']).collect()
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and small")]
    let letters = (width.saturating_sub(2 * MARGIN) as f64 / LETTER) as usize;
    let mut lines: Vec<String> = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let is_full = lines.len() == MAX_LINES;
        let line = lines.last_mut().expect("at least one");
        if line.is_empty() {
            *line = word.into();
            used = length;
        } else if used + 1 + length <= letters {
            *line += " ";
            *line += word;
            used += 1 + length;
        } else if is_full {
            *line += " …";
            break;
        } else {
            lines.push(word.into());
            used = length;
        }
    }
    lines
}

/// Replaces the middle of a name that is too long for a tooltip.
fn clipped(name: &str) -> Cow<'_, str> {
    let length = name.chars().count();
    if length <= LONGEST_TITLE {
        return name.into();
    }
    let half = LONGEST_TITLE / 2;
    let begin: String = name.chars().take(half).collect();
    let end: String = name.chars().skip(length - half).collect();
    format!("{begin} … {end}").into()
}
