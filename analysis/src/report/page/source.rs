//! Source text of the page: lines around samples.
//!
//! A profile may name any file, and pages are shared: only files with a source extension are read.

use crate::{report::SourcePaths, source_file, text::visible};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

/// Extensions of source files.
const ENDINGS: &[&str] = &[
    "S", "adb", "asm", "c", "c++", "cc", "cpp", "cr", "cu", "cxx", "d", "def", "f", "f90", "for", "go", "h",
    "h++", "hh", "hpp", "hs", "hxx", "inc", "inl", "ipp", "java", "jl", "js", "kt", "l", "lua", "m", "ml",
    "mm", "nim", "pas", "php", "pl", "pm", "py", "pyx", "rb", "rs", "s", "scala", "swift", "tcc", "ts",
    "txx", "v", "y", "zig",
];
/// Limit for source files; larger ones are not handwritten.
const LONGEST_FILE: u64 = 16 << 20;
/// A function with at most this many lines is shown without gaps.
const WHOLE_FUNCTION: i64 = 400;
/// Lines shown before the first and after the last line with samples.
const AROUND: i64 = 6;
const LONGEST_LINE: usize = 400;

#[derive(Debug)]
pub(super) struct SourceExcerpts<'a> {
    paths: &'a SourcePaths,
    limit: usize,
}

/// A function's lines in a file.
#[derive(Debug)]
pub(super) struct WantedLines<'a> {
    pub(super) file: &'a str,
    /// Its first line; 0 if unknown.
    pub(super) start: i64,
    pub(super) weight: i64,
    /// Lines with samples, and their values.
    pub(super) lines: BTreeMap<i64, i64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run<'a> {
    pub(super) file: &'a str,
    pub(super) line: usize,
    /// The lines, separated by newlines.
    pub(super) text: String,
}

#[derive(Debug, Default)]
pub(super) struct FoundSources<'a> {
    pub(super) runs: Vec<Run<'a>>,
    pub(super) notes: Vec<String>,
}

impl<'a> SourceExcerpts<'a> {
    /// Creates excerpts from `paths`; at most `limit` bytes in total.
    pub(super) fn new(paths: &'a SourcePaths, limit: usize) -> Self {
        Self { paths, limit }
    }

    /// Returns the text of functions, from the first on, within the limit.
    pub(super) fn find<'f>(&self, functions: Vec<WantedLines<'f>>) -> FoundSources<'f> {
        let mut found = FoundSources::default();
        if self.limit == 0 {
            if !functions.is_empty() {
                found.notes.push("Source text was left out of this page.".into());
            }
            return found;
        }
        let mut files: HashMap<&'f str, Option<Vec<String>>> = HashMap::new();
        let mut taken: BTreeMap<&'f str, BTreeSet<usize>> = BTreeMap::new();
        let (mut bytes, mut complete, mut beyond) = (0, 0, 0);
        let mut missing = BTreeSet::new();
        for function in &functions {
            let Some(text) = files.entry(function.file).or_insert_with(|| self.read(function.file)) else {
                missing.insert(function.file);
                continue;
            };
            let lines = taken.entry(function.file).or_default();
            let new: Vec<usize> =
                lines_of(function, text.len()).filter(|line| !lines.contains(line)).collect();
            let size: usize = new.iter().map(|line| text[line - 1].len() + 1).sum();
            if bytes + size > self.limit {
                beyond += 1;
                continue;
            }
            bytes += size;
            complete += 1;
            lines.extend(new);
        }
        for (file, lines) in taken {
            let Some(Some(text)) = files.get(file) else { continue };
            for line in lines {
                match found.runs.last_mut() {
                    Some(run)
                        if run.file == file && run.line + run.text.matches('\n').count() + 1 == line =>
                    {
                        run.text.push('\n');
                        run.text.push_str(&text[line - 1]);
                    }
                    _ => found.runs.push(Run { file, line, text: text[line - 1].clone() }),
                }
            }
        }
        if functions.is_empty() {
            found.notes.push("The profile has no lines of source files.".into());
        } else {
            found
                .notes
                .push(format!("Source text of {complete} of {} functions is in this page.", functions.len()));
        }
        if let Some(file) = missing.first() {
            found.notes.push(match missing.len() {
                1 => format!("The source file {file} was not found."),
                count => format!("{count} source files were not found, {file} among them."),
            });
        }
        if beyond > 0 {
            let limit = self.limit / 1024;
            found.notes.push(format!("{beyond} functions did not fit into {limit} KiB (--source-limit)."));
        }
        found
    }

    /// Returns the lines of a file; None if it is not found or has no source extension.
    fn read(&self, file: &str) -> Option<Vec<String>> {
        let path = Path::new(file);
        let ending = path.extension()?.to_str()?;
        if !ENDINGS.contains(&ending) {
            return None;
        }
        let candidates = self.paths.candidates(path);
        let bytes = candidates.iter().find_map(|path| source_file::read(path, LONGEST_FILE))?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.lines().map(|line| shortened(&visible_line(line))).collect())
    }
}

/// Returns the line numbers to show of a function, in a file of `length` lines.
fn lines_of(function: &WantedLines<'_>, length: usize) -> impl Iterator<Item = usize> + use<> {
    let (first, last) = (function.lines.first_key_value(), function.lines.last_key_value());
    let (first, last) = first.zip(last).map_or((1, 0), |((first, _), (last, _))| (*first, *last));
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from = match function.start {
        start if start > 0 && start <= first && first - start < WHOLE_FUNCTION / 2 => start - 1,
        _ => first.saturating_sub(AROUND),
    };
    let whole = last.saturating_sub(from) <= WHOLE_FUNCTION;
    let ranges: Vec<(i64, i64)> = if whole {
        vec![(from, last.saturating_add(AROUND))]
    } else {
        // As many of the heaviest lines as fit, with their surroundings, into WHOLE_FUNCTION lines.
        let mut lines: Vec<(i64, i64)> =
            function.lines.iter().map(|(&line, &weight)| (line, weight)).collect();
        lines.sort_by_key(|&(line, weight)| (std::cmp::Reverse(weight), line));
        lines.truncate(usize::try_from(WHOLE_FUNCTION / (2 * AROUND + 1)).unwrap_or(1));
        lines.iter().map(|&(line, _)| (line.saturating_sub(AROUND), line.saturating_add(AROUND))).collect()
    };
    let lines: BTreeSet<i64> =
        ranges.into_iter().flat_map(|(from, to)| from.max(1)..=to.min(length)).collect();
    lines.into_iter().filter_map(|line| usize::try_from(line).ok())
}

/// Escapes control and bidirectional characters, but not tabs.
fn visible_line(line: &str) -> String {
    line.split('\t').map(visible).collect::<Vec<_>>().join("\t")
}

fn shortened(line: &str) -> String {
    if line.len() <= LONGEST_LINE {
        return line.into();
    }
    let end = (0..=LONGEST_LINE).rev().find(|&place| line.is_char_boundary(place)).unwrap_or(0);
    format!("{}…", &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn wanted<'a>(file: &'a str, start: i64, lines: &[(i64, i64)]) -> WantedLines<'a> {
        WantedLines { file, start, weight: 1, lines: lines.iter().copied().collect() }
    }

    #[test]
    fn shows_whole_functions_or_the_lines_around_samples() {
        let lines = |start, lines: &[(i64, i64)], length| {
            lines_of(&wanted("", start, lines), length).collect::<Vec<_>>()
        };
        assert_eq!(lines(10, &[(14, 1)], 100), (9..=20).collect::<Vec<_>>());
        assert_eq!(lines(0, &[(14, 1)], 15), (8..=15).collect::<Vec<_>>());
        assert_eq!(lines(1, &[(2, 1)], 100), (1..=8).collect::<Vec<_>>());
        assert_eq!(lines(0, &[(14, 1)], 3), [0_usize; 0]);
        assert_eq!(lines(0, &[(i64::MAX, 1)], 3), [0_usize; 0]);
        let long = lines(1, &[(3, 1), (5000, 2)], 6000);
        assert_eq!(long, (1..=9).chain(4994..=5006).collect::<Vec<_>>());
        let dense: Vec<(i64, i64)> = (1..5000).map(|line| (line, line)).collect();
        assert!(lines(1, &dense, 6000).len() < 400);
    }

    #[test]
    fn finds_only_source_files_in_directories() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("src/a.c"), "one\n\ttwo \u{202e}owt\nthree\n").unwrap();
        fs::write(directory.path().join("secret.key"), "password\n").unwrap();
        let own = directory.path().join("secret.key");
        let paths =
            SourcePaths { directories: vec![directory.path().to_path_buf()], ..SourcePaths::default() };
        let found = SourceExcerpts::new(&paths, 1000).find(vec![
            wanted("/build/x/src/a.c", 0, &[(2, 1)]),
            wanted(own.to_str().unwrap(), 0, &[(1, 1)]),
            wanted("../secret.key", 0, &[(1, 1)]),
        ]);
        assert_eq!(
            found.runs,
            [Run { file: "/build/x/src/a.c", line: 1, text: "one\n\ttwo \u{fffd}owt\nthree".into() }]
        );
        assert_eq!(found.notes[0], "Source text of 1 of 3 functions is in this page.");
        assert!(found.notes[1].starts_with("2 source files were not found, "), "{:?}", found.notes);
    }

    #[test]
    fn notes_functions_beyond_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.c"), "0123456789\n").unwrap();
        fs::write(directory.path().join("b.c"), "0\n").unwrap();
        let paths =
            SourcePaths { directories: vec![directory.path().to_path_buf()], ..SourcePaths::default() };
        let find = |limit| {
            SourceExcerpts::new(&paths, limit)
                .find(vec![wanted("a.c", 0, &[(1, 1)]), wanted("b.c", 0, &[(1, 1)])])
        };
        let found = find(5);
        assert_eq!(found.runs.iter().map(|run| run.file).collect::<Vec<_>>(), ["b.c"]);
        assert!(found.notes.last().unwrap().starts_with("1 functions did not fit"), "{:?}", found.notes);
        assert_eq!(find(0).runs, []);
        assert_eq!(find(0).notes, ["Source text was left out of this page."]);
    }
}
