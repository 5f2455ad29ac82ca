//! Source lines of functions, with values per line.

use super::{
    Context,
    sources::{Source, SourceFiles, SourcePaths},
    styled,
    taken::Taken,
};
use crate::{
    graph::clean_path,
    profile::Profile,
    units::{Scale, percent},
};
use regex::Regex;
use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
    sync::Arc,
};

/// Lines shown around a line with a value.
const MARGIN: i64 = 5;
/// A gap of this many lines without values is shortened to its margins.
const LONG_GAP: i64 = 60;

/// Writes each function with a matching name: its source lines with flat and cumulative values. The
/// profile must have lines. Returns the number of functions; if it is 0, nothing is written.
///
/// # Errors
/// Those of `out`.
pub fn write(
    profile: &Profile,
    context: &Context,
    functions: &Regex,
    sources: SourcePaths,
    out: &mut dyn Write,
) -> io::Result<usize> {
    let routines = routines(profile, functions);
    let lines = routines.iter().flat_map(|routine| routine.lines.values());
    let scale = context.scale(profile, lines.map(|value| (value.flat, value.cum)));
    if routines.is_empty() {
        return Ok(0);
    }
    writeln!(out, "Total: {}", scale.format(context.total))?;
    let mut sources = SourceFiles::new(sources);
    for routine in &routines {
        routine.write(context, scale, &mut sources, out)?;
    }
    Ok(routines.len())
}

#[derive(Debug)]
struct ListedFunction {
    name: Arc<str>,
    file: Arc<str>,
    start_line: i64,
    value: Taken,
    lines: BTreeMap<i64, Taken>,
}

/// Returns the sampled functions that match, by name and file.
fn routines(profile: &Profile, wanted: &Regex) -> Vec<ListedFunction> {
    let mut known: HashMap<(Arc<str>, Arc<str>), usize> = HashMap::new();
    let mut routines: Vec<ListedFunction> = Vec::new();
    let places: Vec<Option<usize>> = profile
        .functions
        .iter()
        .map(|function| {
            if function.name.is_empty() || !wanted.is_match(&function.name) {
                return None;
            }
            let key = (function.name.clone(), clean_path(&function.file));
            let place = *known.entry(key).or_insert_with_key(|(name, file)| {
                let (name, file) = (name.clone(), file.clone());
                routines.push(ListedFunction {
                    name,
                    file,
                    start_line: 0,
                    value: Taken::default(),
                    lines: BTreeMap::new(),
                });
                routines.len() - 1
            });
            // Of several functions with the same name, one may have no first line.
            let first = &mut routines[place].start_line;
            if function.start_line > 0 && (*first == 0 || function.start_line < *first) {
                *first = function.start_line;
            }
            Some(place)
        })
        .collect();
    for (number, sample) in profile.samples.iter().enumerate() {
        let value = sample.values[profile.default_type];
        let mut is_innermost = true;
        for &location in sample.chain {
            let location = profile.location(location);
            for line in &location.lines {
                if let Some(place) = places[line.function.index()] {
                    let routine = &mut routines[place];
                    let line = routine.lines.entry(line.line).or_default();
                    for counted in [&mut routine.value, line] {
                        counted.add(value, number + 1, is_innermost);
                    }
                }
                is_innermost = false;
            }
            is_innermost = false;
        }
    }
    routines.retain(|routine| routine.value.has_samples());
    routines.sort_by(|one, other| (&one.name, &one.file).cmp(&(&other.name, &other.file)));
    routines
}

impl ListedFunction {
    fn write(
        &self,
        context: &Context,
        scale: Scale,
        sources: &mut SourceFiles,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let file = if self.file.is_empty() { "an unknown file" } else { &self.file };
        let title = format!("ROUTINE ======================== {} in {file}", self.name);
        writeln!(out, "{}", styled(context.colors.heading, title))?;
        writeln!(
            out,
            "{:>10} {:>10} (flat, cum) {} of Total",
            scale.format(self.value.flat),
            scale.format(self.value.cum),
            percent(self.value.cum, context.total)
        )?;
        let write_line = |number: i64, text: &str, out: &mut dyn Write| {
            let value = self.lines.get(&number).copied().unwrap_or_default();
            let (flat, cum) = (scale.format_or_point(value.flat), scale.format_or_point(value.cum));
            let cells = format!("{flat:>10} {cum:>10}");
            let number = if number > 0 { number.to_string() } else { "?".into() };
            writeln!(out, "{} {number:>6}:{text}", styled(context.colors.of(value.cum, context.total), cells))
        };
        let no_lines: Vec<String> = Vec::new();
        let lines = if self.file.is_empty() {
            writeln!(out, " No source: the debug information has no file name")?;
            &no_lines
        } else {
            match sources.get(&self.file) {
                Source::Found(lines) => lines,
                Source::Missing(looked_in) => {
                    let looked_in: Vec<String> =
                        looked_in.iter().map(|path| path.display().to_string()).collect();
                    writeln!(out, " No source: not found as {}", looked_in.join(", "))?;
                    writeln!(out, " Name the directory of the sources by --source-path DIR")?;
                    &no_lines
                }
            }
        };
        let in_file = |number: i64| usize::try_from(number - 1).ok().and_then(|place| lines.get(place));
        // Lines outside the file, or unknown, are shown as well: their values belong to the sum.
        for &number in self.lines.keys().filter(|&&number| number <= 0) {
            write_line(number, " (no line is known)", out)?;
        }
        let mut next = 0;
        for number in self.shown() {
            if let Some(text) = in_file(number) {
                if next != 0 && next != number {
                    writeln!(out, "{:>10} {:>10} {:>6}", "...", "...", "...")?;
                }
                write_line(number, text, out)?;
                next = number + 1;
            } else if self.lines.contains_key(&number) {
                let is_short = !lines.is_empty();
                write_line(
                    number,
                    if is_short { " (the file has no such line; has it changed?)" } else { "" },
                    out,
                )?;
            }
        }
        Ok(())
    }

    fn shown(&self) -> Vec<i64> {
        let Some((&first, _)) = self.lines.range(1..).next() else { return Vec::new() };
        let is_near = self.start_line > 0 && self.start_line <= first && first - self.start_line < 1000;
        let mut next = if is_near { self.start_line } else { (first - MARGIN).max(1) };
        let mut shown = Vec::new();
        for &line in self.lines.range(1..).map(|(line, _)| line) {
            let end = line.saturating_add(MARGIN);
            if line.saturating_sub(next) > LONG_GAP {
                let margin_end = if shown.is_empty() { next } else { next - 1 };
                shown.extend(next..=margin_end.max(next));
                next = line - MARGIN;
            }
            shown.extend(next..=end);
            next = next.max(end.saturating_add(1));
        }
        shown
    }
}
