//! Sources with the number of calls of each function (`-A`).

use super::Report;
use crate::{
    report::SourcePaths,
    source_file::{self, MAX_BYTES},
    text::visible,
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Columns of the numbers before a line.
const NUMBERS: usize = 12;
/// Columns of the numbers and the arrow after them.
const WIDTH: usize = 16;

/// How sources are printed.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Where sources are searched, if they are not at the path that the compiler was given (`-I`).
    pub paths: SourcePaths,
    /// Also mark lines inside of functions, if functions are divided by line (`-x`).
    pub marks_all_lines: bool,
    /// Lines with fewer executions are marked by `#####` (`-m`).
    pub min_count: u64,
    /// Number of lines in the table of those with the most executions (`-t`).
    pub table_length: usize,
}

/// The source of a file, with numbers of calls.
#[derive(Clone, Debug)]
pub struct AnnotatedSource {
    /// The path of the file, as the compiler was given it.
    pub path: Arc<str>,
    /// The text; None if the file is missing.
    pub text: Option<Vec<u8>>,
}

impl AnnotatedSource {
    /// Writes the path and the text.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "*** File {}:", visible(&self.path))?;
        out.write_all(self.text.as_deref().unwrap_or_default())
    }
}

/// What is known about a line.
#[derive(Default)]
struct Line {
    calls: u64,
    /// A function begins here.
    is_function: bool,
    /// Numbers of executions of basic blocks.
    blocks: Vec<u64>,
}

impl Report {
    /// Returns the sources of functions.
    pub fn annotated_sources(&self) -> Vec<AnnotatedSource> {
        if !self.options.sources.is_printed {
            return Vec::new();
        }
        let mut files: BTreeMap<&str, BTreeMap<u64, Line>> = BTreeMap::new();
        for (place, symbol) in self.executable.symbols().iter().enumerate() {
            let Some(source) = symbol.source.as_ref().filter(|_| self.sources.allows(place)) else {
                continue;
            };
            let lines = files.entry(&source.file).or_default();
            let is_new = !lines.contains_key(&source.line);
            let line = lines.entry(source.line).or_default();
            line.calls = line.calls.saturating_add(self.graph.nodes[place].calls);
            if is_new {
                line.is_function = !symbol.is_line;
            }
            if is_new || !self.options.is_compatible {
                line.blocks.extend(self.blocks_of(place).map(|block| block.count));
            }
        }
        let mut sources = Vec::new();
        let mut last = 0;
        // GNU gprof begins with the last file that it found.
        for path in self.executable.files.iter().rev() {
            let Some(lines) = files.get(&**path) else { continue };
            let total = lines.values().fold(0, |sum: u64, line| sum.saturating_add(line.calls));
            if total == 0 && !self.options.shows_unused {
                continue;
            }
            let mut text = Vec::new();
            let source = self.read_source(Path::new(&**path));
            let is_found = source
                .is_some_and(|source| self.annotate(&source, lines, total, &mut last, &mut text).is_ok());
            sources.push(AnnotatedSource { path: path.clone(), text: is_found.then_some(text) });
        }
        sources
    }

    /// Writes the lines of a file with their numbers, and tables. `last` is the last number, which
    /// GNU gprof repeats in the next file.
    fn annotate(
        &self,
        source: &[u8],
        lines: &BTreeMap<u64, Line>,
        total: u64,
        last: &mut u64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let SourceOptions { marks_all_lines, table_length, .. } = self.options.source_options;
        if !self.options.is_compatible {
            *last = 0;
        }
        let mut marked = 0;
        for (number, text) in (1..).zip(source.split_inclusive(|&byte| byte == b'\n')) {
            let mut counts = Vec::new();
            if let Some(line) = lines.get(&number) {
                if line.is_function {
                    counts.push(line.calls);
                } else if marks_all_lines {
                    counts.push(*last);
                }
                counts.extend(&line.blocks);
            }
            if let Some(&count) = counts.last() {
                *last = count;
                marked += u64::from(self.options.is_compatible || counts.iter().any(|&count| count != 0));
            }
            out.write_all(self.mark(&counts).as_bytes())?;
            out.write_all(text)?;
        }
        if table_length > 0 {
            writeln!(out, "\n\nTop {table_length} Lines:\n\n     Line      Count\n")?;
            let mut order: Vec<(u64, u64)> =
                lines.iter().map(|(&number, line)| (number, line.calls)).collect();
            order.sort_by_key(|&(_, calls)| std::cmp::Reverse(calls));
            for (number, calls) in order.into_iter().take(table_length).take_while(|&(_, calls)| calls != 0) {
                writeln!(out, "{number:9} {calls:10}")?;
            }
        }
        let executable = lines.len() as f64;
        writeln!(out, "\nExecution Summary:\n")?;
        writeln!(out, "{executable:9}   Executable lines in this file")?;
        writeln!(out, "{marked:9}   Lines executed")?;
        writeln!(out, "{:9.2}   Percent of the file executed", 100.0 * marked as f64 / executable)?;
        writeln!(out, "\n{total:9}   Total number of line executions")?;
        writeln!(out, "{:9.2}   Average executions per line", total as f64 / executable)
    }

    /// Returns what is before a line.
    fn mark(&self, counts: &[u64]) -> String {
        if counts.is_empty() {
            return " ".repeat(WIDTH);
        }
        let numbers = match counts.iter().all(|&count| count < self.options.source_options.min_count) {
            true => "#####".to_owned(),
            false => counts.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        };
        let mut mark = format!("{numbers:>NUMBERS$} -> ");
        if self.options.is_compatible {
            mark.truncate(WIDTH);
        }
        mark
    }

    /// Reads a source from its path, or from one of the directories.
    fn read_source(&self, path: &Path) -> Option<Vec<u8>> {
        let candidates = self.options.source_options.paths.candidates(path);
        let mut paths = std::iter::once(path).chain(candidates.iter().map(PathBuf::as_path));
        paths.find_map(|path| source_file::read(path, MAX_BYTES))
    }
}
