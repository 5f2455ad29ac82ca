//! Flame graphs as SVG: a box for each function of a call chain, as wide as its share of the profile.
//!
//! `inferno` draws. It reads lines of names, where a semicolon parts frames, a space begins the value and some names mean
//! something; and it cuts names that do not fit at one of their ends. So it draws numbers, and names are put in their places,
//! in boxes by `short_name.rs`, with a script that does the same when the picture is zoomed into or made wider. Its line below
//! the title is one line whatever the width; it is wrapped, here and by the script, and all below it moves down.

use super::{
    call_tree::{CallTree, Preorder, ROOT},
    frame_colour, frame_name, short_name, title,
};
use crate::{
    error::{Error, ErrorKind},
    graph::Frames,
    profile::{Label, LabelValue, LocationId, Profile, ValueType, label},
    units,
};
use inferno::flamegraph::{
    self, Direction,
    color::{BackgroundColor, PaletteMap},
};
use std::{
    borrow::Cow,
    collections::HashMap,
    io::{self, Write},
};

/// What a flame graph shows, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is written above it; None for the recorded command, or else the program's name.
    pub title: Option<String>,
    /// Its width in pixels, one of [`WIDTHS`]; None for that of the window that shows it.
    pub width: Option<usize>,
    /// Callers above, not below, those that they call.
    pub is_icicle: bool,
    /// The names of threads as the outermost frames.
    pub by_thread: bool,
    /// The place of the values to show in [`Profile::sample_types`]; None for the profile's own choice.
    pub sample_type: Option<usize>,
}

/// Narrower frames are not drawn, in percent of the whole width: an eighth of a pixel on a picture of 1200.
const NARROWEST: f64 = 0.01;
/// Widths of pictures, in pixels: wide enough for a number of three digits and a space, and no wider than a wall.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 200..=100_000;
/// Totals that the script in the picture can count, and `inferno` multiply by 150 for its colours.
const MAX_TOTAL: i128 = 1 << 53;

/// The colour of the root, and of what stands for many.
const GREY: [u8; 3] = [230, 232, 235];
/// What stands for outermost frames that are too narrow.
const TOO_NARROW: &str = "[too narrow to show]";

/// Takes the place of the library's function of that name, which runs when the picture is loaded, zoomed or resized.
const SCRIPT: &str = include_str!("flamegraph.js");

/// What the library's own style lacks: lines between boxes of one colour, which those of a difference without a change need most,
/// and a button that can be seen.
const STYLE: &str = "#frames rect { stroke:black; stroke-opacity:0.2; stroke-width:0.5; }
#frames > g:hover > rect { stroke-opacity:1; }
#search { opacity:0.7; }
</style>";

/// Letters of a name in a tooltip. A picture has a name once for each of its boxes, and of a longer one nobody reads the middle.
const LONGEST_TITLE: usize = 4096;

/// The width of a picture whose width depends on the window, in a viewer that does not run its script; `inferno`'s own.
const USUAL_WIDTH: usize = 1200;
/// Left and right of the boxes together, as `inferno` has it.
const MARGINS: usize = 20;
/// Around the text of a box, left and right together, and for each letter of a monospaced font of 12 pixels.
const TEXT_MARGINS: f64 = 5.0;
const LETTER: f64 = 7.25;
/// Pixels that the words beside the title take, by which one zooms out and searches; in `flamegraph.js`, too.
const CORNER: usize = 76;
/// The title's letters are as much larger.
const TITLE_SCALE: f64 = 17.0 / 12.0;
/// From one line of the subtitle to the next; `flamegraph.js` has the two as well.
const LINE_HEIGHT: usize = 14;
/// Lines of the subtitle at most. The longest of our own takes 9 in the narrowest picture; but a profile says what its values are of.
const MOST_LINES: usize = 12;

/// Writes the flame graph of a profile as SVG.
///
/// # Errors
/// Those of `out`; and, as [`io::ErrorKind::InvalidInput`] around an [`Error`], those of [`render`].
pub fn write(profile: &Profile, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let svg = render(profile, options).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    out.write_all(&svg)
}

/// The flame graph of a profile as SVG. Of a [comparison](crate::profile::compare), frames where the program itself spent more
/// than in the base are red, and those where it spent less are blue.
///
/// # Errors
/// If there is nothing to draw, a value is negative, or the options ask for what the profile has not.
pub fn render(profile: &Profile, options: &Options) -> Result<Vec<u8>, Error> {
    let sample_type = options.sample_type.unwrap_or(profile.default_type);
    let kind = profile.sample_types.get(sample_type).ok_or_else(|| {
        let reason = format!(
            "the number of the sample type is {sample_type}, but there are {}",
            profile.sample_types.len()
        );
        Error::new(ErrorKind::Request, reason)
    })?;
    if options.width.is_some_and(|width| !WIDTHS.contains(&width)) {
        let reason = format!("the width must be between {} and {} pixels", WIDTHS.start(), WIDTHS.end());
        return Err(Error::new(ErrorKind::Request, reason));
    }
    let mut stacks = Stacks::default();
    let is_base = profile.base_sets();
    stacks.add(profile, sample_type, options.by_thread, is_base.as_deref());
    if options.by_thread && !stacks.has_threads {
        return Err(Error::new(ErrorKind::Request, "samples have no threads").advise(
            "profiles of `sigprof record` have them; the CPU profile format of gperftools does not",
        ));
    }
    if stacks.has_negative {
        let reason =
            format!("some values of {} are negative, and no box is narrower than nothing", kind.kind);
        return Err(Error::new(ErrorKind::Request, reason)
            .advise("to compare two profiles use `sigprof flamegraph --diff-base OLD NEW`"));
    }
    let title = options.title.clone().unwrap_or_else(|| title::of(profile, "Flame graph"));
    stacks.draw(kind, options, is_base.is_some(), &title)
}

/// The call chains of a profile, or of both sides of a comparison.
#[derive(Debug, Default)]
struct Stacks {
    tree: Option<CallTree>,
    /// The frames' names, and their numbers.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Their colours, in the order of names.
    colours: Vec<[u8; 3]>,
    /// What each node has itself, not in those that it called.
    own: Vec<i64>,
    base: Vec<i64>,
    has_threads: bool,
    /// A sample has a value that no width can show.
    has_negative: bool,
}

impl Stacks {
    fn add(&mut self, profile: &Profile, sample_type: usize, by_thread: bool, is_base: Option<&[bool]>) {
        let mut tree = CallTree::new();
        let frames = Frames::new(profile);
        let mut objects = vec![Cow::Borrowed(""); frames.places.len()];
        for (place, location) in profile.locations.iter().enumerate() {
            for &frame in frames.of(LocationId::at(place)) {
                let object = &mut objects[frame as usize];
                if object.is_empty() {
                    *object = frame_name::object(profile.mapping_of(location));
                }
            }
        }
        let names: Vec<u32> = frames
            .places
            .iter()
            .zip(&objects)
            .map(|(place, object)| self.number(&place.to_string(), object))
            .collect();
        let threads: Vec<Option<u32>> = profile
            .label_sets
            .iter()
            .map(|labels| by_thread.then(|| thread_name(labels)).flatten().map(|name| self.number(&name, "")))
            .collect();
        self.has_threads |= threads.iter().any(Option::is_some);
        for sample in profile.samples.iter() {
            let is_base = is_base.is_some_and(|is_base| is_base[sample.labels.index()]);
            let value = sample.values[sample_type];
            let value = if is_base { value.saturating_neg() } else { value };
            if value <= 0 {
                self.has_negative |= value < 0;
                continue;
            }
            let thread = threads[sample.labels.index()];
            let chain = sample.chain.iter().rev().flat_map(|&id| frames.of(id).iter().rev());
            let chain = chain.map(|&frame| names[frame as usize]);
            let node = thread.into_iter().chain(chain).fold(ROOT, |node, frame| tree.child(node, frame));
            let node = if node == ROOT { tree.child(ROOT, self.number("[no stack]", "")) } else { node };
            for values in [&mut self.own, &mut self.base] {
                values.resize(tree.len().max(values.len()), 0);
            }
            let values = if is_base { &mut self.base } else { &mut self.own };
            values[node as usize] = values[node as usize].saturating_add(value);
        }
        self.tree = Some(tree);
    }

    /// The number of a name.
    fn number(&mut self, name: &str, object: &str) -> u32 {
        let names = &mut self.names;
        *self.numbers.entry(frame_name::visible(name).into_owned()).or_insert_with_key(|text| {
            names.push(text.clone());
            self.colours.push(frame_colour::of(name, frame_colour::package_of(name).unwrap_or(object)));
            u32::try_from(names.len() - 1).expect("a name takes more than a byte of input")
        })
    }

    fn draw(
        mut self,
        kind: &ValueType,
        options: &Options,
        is_compared: bool,
        title: &str,
    ) -> Result<Vec<u8>, Error> {
        let tree = self.tree.take().expect("a profile was added");
        let too_narrow = self.number(TOO_NARROW, "");
        self.colours[too_narrow as usize] = GREY;
        let sum = |values: &[i64]| values.iter().map(|&value| i128::from(value)).sum::<i128>();
        let (total, base_total) = (sum(&self.own), sum(&self.base));
        if total == 0 {
            return Err(Error::new(ErrorKind::Request, format!("all values of {} are 0", kind.kind)));
        }
        let values = || self.own.iter().chain(&self.base).copied().filter(|&value| value > 0);
        let step = Step::of(kind, values, total.max(base_total), is_compared);
        let [own, base] = [&self.own, &self.base]
            .map(|values| values.iter().map(|&value| scaled(value, step.size)).collect::<Vec<i64>>());

        let mut whole = own.clone();
        tree.accumulate(&mut whole);
        let narrowest = (whole[ROOT as usize] as f64 * NARROWEST / 100.0).max(1.0);
        let order = tree
            .preorder(|frame| &self.names[frame as usize], |node| whole[node as usize] as f64 >= narrowest);
        let hidden = whole.iter().filter(|&&value| value > 0).count() - order.nodes.len();
        let lines = Lines { tree: &tree, too_narrow, own: &own, base: &base, is_compared };
        let lines = lines.of(&order);

        let mut settings = flamegraph::Options::default();
        let width = options.width.unwrap_or(USUAL_WIDTH);
        settings.title = shortened(&frame_name::visible(title), width);
        let subtitle = subtitle(kind, total, is_compared.then_some(base_total), hidden);
        settings.subtitle = Some(subtitle.clone());
        settings.image_width = options.width;
        settings.direction = if options.is_icicle { Direction::Inverted } else { Direction::Straight };
        settings.bgcolors = Some(BackgroundColor::Flat((255, 255, 255).into()));
        let mut palette = PaletteMap::default();
        palette.insert("", GREY.into());
        for (number, colour) in (0..).zip(&self.colours) {
            palette.insert(frame_text(number), (*colour).into());
        }
        settings.palette_map = Some(&mut palette);
        settings.count_name = step.name;
        settings.factor = step.factor;
        settings.min_width = 0.0;
        // Lines in an order of our own are taken, from last to first, as those of a chart by time.
        settings.flame_chart = true;

        let mut svg = Vec::new();
        flamegraph::from_lines(&mut settings, lines.iter().rev().map(String::as_str), &mut svg).map_err(
            |error| Error::new(ErrorKind::Request, format!("cannot draw: {error}")).caused_by(error),
        )?;
        let svg = String::from_utf8(svg).expect("inferno writes text");
        Ok(named(&with_lines(&svg, &wrapped(&subtitle, width)), &self.names, width).into_bytes())
    }
}

fn subtitle(kind: &ValueType, total: i128, base: Option<i128>, hidden: usize) -> String {
    let shown = |value: i128| units::natural(i64::try_from(value).unwrap_or(i64::MAX), &kind.unit);
    let mut text = format!("{}, {}", frame_name::visible(&kind.kind), shown(total));
    if let Some(base) = base {
        text += &format!("; old {}; red: more of its own than in the old profile, blue: less", shown(base));
    }
    match hidden {
        0 => {}
        1 => text += &format!("; 1 frame below {NARROWEST} % is not shown"),
        _ => text += &format!("; {hidden} frames below {NARROWEST} % are not shown"),
    }
    text
}

/// What the lines that `inferno` reads are made of; values are in coarse steps, in the order of nodes.
struct Lines<'a> {
    tree: &'a CallTree,
    /// The number of [`TOO_NARROW`].
    too_narrow: u32,
    own: &'a [i64],
    base: &'a [i64],
    is_compared: bool,
}

impl Lines<'_> {
    /// A line for each of these nodes that has something itself, callers before those that they call. What the nodes that
    /// are too narrow have is given to their callers, so that no width changes; colours know nothing of it.
    fn of(&self, order: &Preorder) -> Vec<String> {
        let mut is_drawn = vec![false; self.tree.len()];
        order.nodes.iter().for_each(|&node| is_drawn[node as usize] = true);
        let mut narrow = vec![0_i64; self.tree.len()];
        for node in (1..self.tree.len()).rev().filter(|&node| !is_drawn[node]) {
            narrow[self.tree.parent(node)] += self.own[node] + narrow[node];
        }

        let mut lines = Vec::new();
        let mut path = Vec::new();
        for (&node, &depth) in order.nodes.iter().zip(&order.depths).skip(1) {
            path.truncate(depth as usize - 1);
            path.push(frame_text(self.tree.frame(node)));
            let node = node as usize;
            let (own, base) = (self.own[node] + narrow[node], self.base[node] + narrow[node]);
            if own > 0 || base > 0 {
                lines.push(self.line(&path.join(";"), own, base));
            }
        }
        if narrow[ROOT as usize] > 0 {
            lines.push(self.line(&frame_text(self.too_narrow), narrow[ROOT as usize], narrow[ROOT as usize]));
        }
        lines
    }

    fn line(&self, path: &str, own: i64, base: i64) -> String {
        if self.is_compared { format!("{path} {base} {own}") } else { format!("{path} {own}") }
    }
}

/// The name of the thread that a sample with these labels is of.
fn thread_name(labels: &[Label]) -> Option<String> {
    let value = |key| labels.iter().find(|label| &*label.key == key).map(|label| &label.value);
    match (value(label::THREAD), value(label::THREAD_ID)) {
        (Some(LabelValue::Text(name)), _) if !name.is_empty() => Some(name.to_string()),
        (_, Some(LabelValue::Number(id, _))) => Some(format!("thread {id}")),
        _ => None,
    }
}

/// What `inferno` takes for the name of this number.
fn frame_text(number: u32) -> String {
    format!("f{number}")
}

/// As much of a title as there is room for in a picture of this width.
fn shortened(title: &str, width: usize) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and small")]
    let letters = (width.saturating_sub(MARGINS + 2 * CORNER) as f64 / (LETTER * TITLE_SCALE)) as usize;
    if title.chars().count() <= letters {
        return title.into();
    }
    let cut = title.chars().take(letters.saturating_sub(1));
    cut.chain(['…']).collect()
}

/// As many words in a line as there is room for in a picture of this width.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and small")]
    let letters = (width.saturating_sub(MARGINS) as f64 / LETTER) as usize;
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let is_full = lines.len() == MOST_LINES;
        match lines.last_mut() {
            Some(line) if used + 1 + length <= letters => {
                *line += " ";
                *line += word;
                used += 1 + length;
            }
            Some(line) if is_full => {
                *line += " …";
                break;
            }
            _ => {
                lines.push(word.into());
                used = length;
            }
        }
    }
    lines
}

/// The picture with these lines for its subtitle, where they are more than one, and with all that is below them lower by as much.
/// What is not as expected is left as it is.
fn with_lines(svg: &str, lines: &[String]) -> String {
    let down = LINE_HEIGHT * lines.len().saturating_sub(1);
    let parts = svg.split_once("<text id=\"subtitle\" x=\"").and_then(|(before, rest)| {
        let (x, rest) = rest.split_once('"')?;
        let (places, rest) = rest.split_once('>')?;
        let (_, after) = rest.split_once("</text>")?;
        Some((before, x, places, after))
    });
    let Some((before, x, places, after)) = parts.filter(|_| down > 0) else { return svg.into() };
    let lines: String = (0..)
        .zip(lines)
        .map(|(place, line)| {
            let down = if place == 0 { 0 } else { LINE_HEIGHT };
            format!("<tspan x=\"{x}\" dy=\"{down}\">{}</tspan>", escaped(line))
        })
        .collect();
    let before = lower(before, "<svg ", " height=\"", down);
    let before = lower(&before, " viewBox=\"0 0 ", " ", down);
    let before = lower(&before, "<rect x=\"0\" y=\"0\" width=\"100%\"", " height=\"", down);
    let after = lower(after, "<text id=\"details\"", " y=\"", down);
    let after = lower(&after, "<text id=\"matched\"", " y=\"", down);
    let after = after.replacen("<svg id=\"frames\"", &format!("<svg id=\"frames\" y=\"{down}\""), 1);
    format!("{before}<text id=\"subtitle\" x=\"{x}\"{places}>{lines}</text>{after}")
}

/// `svg` with more in the number that stands, in the first element that begins so, behind `attribute`.
fn lower(svg: &str, element: &str, attribute: &str, by: usize) -> String {
    let place = svg.find(element).and_then(|start| {
        let from = start + element.len();
        let number = from + svg[from..].find(attribute)? + attribute.len();
        let end = number + svg[number..].find('"')?;
        Some((number, end, svg[number..end].parse::<f64>().ok()?))
    });
    let Some((start, end, number)) = place else { return svg.into() };
    format!("{}{}{}", &svg[..start], number + by as f64, &svg[end..])
}

/// The picture with names where `inferno` has drawn their numbers, and with the script that shortens them. What is not as
/// expected is left as it is.
fn named(svg: &str, names: &[String], width: usize) -> String {
    let mut drawn = String::with_capacity(2 * svg.len());
    let (head, mut rest) = svg.split_once("</script>").unwrap_or(("", svg));
    if !head.is_empty() {
        drawn.extend([
            &head.replacen("</style>", STYLE, 1),
            "</script><script><![CDATA[",
            short_name::SCRIPT,
            SCRIPT,
            "]]></script>",
        ]);
    }
    let room = width.saturating_sub(MARGINS) as f64 / 100.0;
    while let Some((before, after)) = rest.split_once("<g><title>") {
        drawn.extend([before, "<g><title>"]);
        rest = after;
        let Some((title, after)) = after.split_once("</title>") else { break };
        let number = title.split(' ').next().and_then(|name| name.strip_prefix('f')?.parse::<usize>().ok());
        let name = number.and_then(|number| names.get(number)).map_or("all", |name| &**name);
        let value = title.split_once(" (").map_or("", |(_, value)| value);
        drawn.extend([&escaped(&clipped(name)), " (", value, "</title>"]);
        rest = after;
        let Some((shape, after)) = after.split_once("<text ") else { break };
        let Some((places, after)) = after.split_once('>') else { break };
        let Some((_, after)) = after.split_once("</text>") else { break };
        let percent = shape.split_once("width=\"").and_then(|(_, width)| width.split_once('%'));
        let percent: f64 = percent.and_then(|(width, _)| width.parse().ok()).unwrap_or(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and small"
        )]
        let letters = ((percent * room - TEXT_MARGINS) / LETTER).max(0.0) as usize;
        let text = escaped(&short_name::fitted(name, letters));
        drawn.extend([shape, "<text ", places, ">", &text, "</text>"]);
        rest = after;
    }
    drawn.push_str(rest);
    drawn
}

/// Text as it stands between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A name without its middle, where it is longer than a tooltip may be.
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

/// `value / over`, rounded to the nearest, and at least 1 where the value is.
fn scaled(value: i64, over: i128) -> i64 {
    let scaled = i128::from(value).saturating_add(over / 2) / over;
    i64::try_from(scaled.max(i128::from(value > 0))).unwrap_or(i64::MAX)
}

/// What values are counted in.
struct Step {
    /// In the profile's own unit: 1, unless the total is too large for the script in the picture.
    size: i128,
    /// What is written behind numbers.
    name: String,
    /// From values in steps to numbers that are written.
    factor: f64,
}

impl Step {
    /// For values of which there are so many in all. Times are written in the largest unit of which the least value is one or
    /// more. In a comparison they are counted in the unit that they are written in, the largest that loses nothing:
    /// `inferno` (0.12.8) forgets the factor in the percentages of differences.
    fn of<I: Iterator<Item = i64>>(
        kind: &ValueType,
        values: impl Fn() -> I,
        total: i128,
        is_compared: bool,
    ) -> Self {
        let fits = |size: i128| total / size < MAX_TOTAL;
        if &*kind.unit != "nanoseconds" {
            let size =
                std::iter::successors(Some(1), |size| Some(2 * size)).find(|&size| fits(size)).unwrap_or(1);
            let name = frame_name::visible(if &*kind.unit == "count" { &kind.kind } else { &kind.unit })
                .into_owned();
            return match size {
                1 => Self { size, name, factor: 1.0 },
                _ => Self { size, name: format!("times {size} {name}"), factor: 1.0 },
            };
        }
        let least = i128::from(values().min().unwrap_or(1));
        let is_whole = |size: i128| values().all(|value| i128::from(value) % size == 0);
        let shown = |size: &&(i128, &str)| if is_compared { is_whole(size.0) } else { least >= size.0 };
        let size = TIMES.iter().map(|time| time.0).find(|&size| fits(size)).unwrap_or(1);
        let (shown, name) = *TIMES.iter().rev().find(shown).unwrap_or(&TIMES[0]);
        if is_compared {
            let (size, name) = *TIMES.iter().find(|time| time.0 == shown.max(size)).unwrap_or(&TIMES[0]);
            return Self { size, name: name.into(), factor: 1.0 };
        }
        Self { size, name: name.into(), factor: size as f64 / shown as f64 }
    }
}

/// Units of time, in nanoseconds.
const TIMES: [(i128, &str); 4] = [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];
