//! Verification of a database by the rules of HPCToolkit's FORMATS.md.
//!
//! Deviations of hpcprof itself are notes: contexts that meta.db does not have, pointers to no
//! children. `propagationIndex` is checked only for transitive scopes, because hpcprof
//! writes 255 for the others.

mod meta;
mod trace;
mod values;

use super::{
    file::{Array, DbFile},
    layout::{self, FIRST_SECTION, FileKind, Record, Section},
};
use crate::{error::Error, formats::map_file};
use std::{fs::File, ops::Range, path::Path};

/// A rule that a database violates, or a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the file.
    pub file: &'static str,
    /// Offset of the structure in the file, in bytes.
    pub offset: u64,
    /// False for a remark: readers cope with it.
    pub is_breach: bool,
    /// The rule and its violation.
    pub text: String,
}

/// The size of a verified database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSize {
    /// Number of metrics.
    pub metrics: usize,
    /// Number of contexts in meta.db, without the implicit one.
    pub contexts: usize,
    /// Number of threads with values.
    pub threads: usize,
    /// Number of values of threads in profile.db.
    pub values: u64,
    /// Number of traces.
    pub traces: usize,
}

/// Verifies the database in `directory`.
///
/// # Errors
/// If a file cannot be read.
pub fn check(directory: &Path) -> Result<(DatabaseSize, Vec<Finding>), Error> {
    let map = |kind: FileKind| {
        let path = directory.join(kind.name);
        let map = File::open(&path).and_then(|file| map_file(&file));
        map.map_err(|error| Error::io(&path, "read the database", error))
    };
    let trace = directory.join(layout::TRACE.name).exists().then(|| map(layout::TRACE)).transpose()?;
    let (meta, profile, context) = (map(layout::META)?, map(layout::PROFILE)?, map(layout::CONTEXT)?);
    let files = CheckedFiles { meta: &meta, profile: &profile, context: &context, trace: trace.as_deref() };
    let (size, mut findings) = check_files(&files, Some(directory));
    if !directory.join("metrics/default.yaml").is_file() {
        let text = "there is no metrics/default.yaml, which hpcviewer needs".to_owned();
        findings.push(Finding { file: layout::META.name, offset: 0, is_breach: false, text });
    }
    Ok((size, findings))
}

/// The contents of the files.
pub(crate) struct CheckedFiles<'a> {
    pub(crate) meta: &'a [u8],
    pub(crate) profile: &'a [u8],
    pub(crate) context: &'a [u8],
    pub(crate) trace: Option<&'a [u8]>,
}

/// Verifies a database in memory; copied sources only if they are in a directory.
pub(crate) fn check_files(
    files: &CheckedFiles<'_>,
    directory: Option<&Path>,
) -> (DatabaseSize, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut size = DatabaseSize::default();
    let meta = meta::check(files.meta, directory, &mut findings).unwrap_or_default();
    (size.metrics, size.contexts) = (meta.metrics, meta.nodes.len().saturating_sub(1));
    let profiles = values::check_profiles(files.profile, &meta, &mut findings).unwrap_or_default();
    (size.threads, size.values) = (profiles.threads, profiles.values.len() as u64);
    values::check_contexts(files.context, &meta, &profiles, &mut findings);
    if let Some(trace) = files.trace {
        size.traces = trace::check(trace, &meta, &profiles, &mut findings).unwrap_or(0);
    }
    (size, findings)
}

/// A file, and the findings in it.
struct Checked<'a, 'f> {
    file: DbFile<'a>,
    /// Where its sections are.
    sections: Vec<Range<u64>>,
    findings: &'f mut Vec<Finding>,
}

/// The largest number of findings in one database; a damaged one can have millions.
const MAX_FINDINGS: usize = 10_000;

impl<'a, 'f> Checked<'a, 'f> {
    /// Checks header, sections and footer. None if the file cannot be checked further.
    fn open(kind: FileKind, bytes: &'a [u8], findings: &'f mut Vec<Finding>) -> Option<Self> {
        let file = match DbFile::new(kind, bytes) {
            Ok(file) => file,
            Err(error) => {
                let text = error.to_string();
                findings.push(Finding { file: kind.name, offset: 0, is_breach: true, text });
                return None;
            }
        };
        let mut checked = Self { file, sections: Vec::new(), findings };
        let head = (FIRST_SECTION + kind.sections.len() * Section::SIZE) as u64;
        let end = (bytes.len() as u64).saturating_sub(kind.footer.len() as u64);
        let mut is_usable = true;
        for (place, name) in kind.sections.iter().enumerate() {
            let offset = (FIRST_SECTION + place * Section::SIZE) as u64;
            let Some(section) = checked.ok(offset, file.section(name)) else {
                is_usable = false;
                continue;
            };
            let range = section.start..section.start + section.size;
            // The strings have no header, which would be aligned.
            if *name != "Strings" {
                checked.aligned::<Section>(offset, &format!("section {name}"), section.start);
            }
            checked.ensure(section.start >= head && range.end <= end, offset, || {
                format!("section {name} overlaps the header or the footer")
            });
            let mut others = checked.sections.iter();
            let is_apart = others.all(|other| !overlap(other, &range));
            checked.ensure(is_apart, offset, || format!("section {name} overlaps another one"));
            checked.sections.push(range);
        }
        let has_footer = bytes.ends_with(kind.footer);
        checked
            .ensure(has_footer, end, || format!("the file does not end with {}", kind.footer.escape_ascii()));
        is_usable.then_some(checked)
    }

    fn add(&mut self, is_breach: bool, offset: u64, text: String) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(Finding { file: self.file.kind.name, offset, is_breach, text });
        }
    }

    /// Adds a breach unless a rule `holds`; returns `holds`.
    fn ensure(&mut self, holds: bool, offset: u64, breach: impl FnOnce() -> String) -> bool {
        if !holds {
            self.add(true, offset, breach());
        }
        holds
    }

    fn note(&mut self, offset: u64, text: impl Into<String>) {
        self.add(false, offset, text.into());
    }

    /// Returns the value, or adds the error as a breach of the structure at `offset`.
    fn ok<T>(&mut self, offset: u64, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.add(true, offset, error.to_string())).ok()
    }

    /// Returns the header of a section, and its offset.
    fn head<R: Record>(&mut self, section: &'static str) -> Option<(u64, R)> {
        let offset = self.section(section).start;
        let head = self.file.head(section);
        Some((offset, self.ok(offset, head)?))
    }

    /// Checks that a pointer has the alignment of a record.
    fn aligned<R: Record>(&mut self, offset: u64, name: &str, pointer: u64) {
        self.ensure(pointer % R::ALIGNMENT as u64 == 0, offset, || {
            format!("the pointer to {name} ({pointer:#x}) is not a multiple of {}", R::ALIGNMENT)
        });
    }

    fn section(&self, name: &str) -> Range<u64> {
        let place = self.file.kind.sections.iter().position(|section| *section == name);
        place.and_then(|place| self.sections.get(place)).cloned().unwrap_or_default()
    }

    /// Checks that an array is aligned and within a section, and returns it.
    fn array<R: Record>(
        &mut self,
        offset: u64,
        (name, section): (&str, &str),
        start: u64,
        count: u64,
        size: usize,
    ) -> Option<Array<'a, R>> {
        let array = self.file.array(start, count, size);
        let array = self.ok(offset, array)?;
        if count > 0 {
            self.aligned::<R>(offset, name, start);
            let range = start..start + array.len() as u64 * size as u64;
            let is_within = contains(&self.section(section), &range);
            self.ensure(is_within, offset, || format!("{name} is not within section {section}"));
        }
        Some(array)
    }

    /// Checks that a text is within a section, with its NUL, and is UTF-8.
    fn text(&mut self, offset: u64, (name, section): (&str, &str), pointer: u64) -> Option<String> {
        let text = self.file.text(pointer);
        let text = self.ok(offset, text)?;
        // The length in the file, if it is UTF-8.
        let range = pointer..pointer + text.len() as u64 + 1;
        let is_utf8 = !text.contains(char::REPLACEMENT_CHARACTER);
        let is_within = !is_utf8 || contains(&self.section(section), &range);
        self.ensure(is_within, offset, || format!("{name} is not within section {section}"));
        if !is_utf8 {
            self.note(pointer, format!("{name} is not UTF-8"));
        }
        Some(text.into_owned())
    }

    /// Checks that `range` is in none of the file's sections.
    fn is_outside(&mut self, offset: u64, name: &str, range: &Range<u64>) {
        let is_outside = self.sections.iter().all(|section| !overlap(section, range));
        self.ensure(is_outside, offset, || format!("{name} is within a section"));
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// True if two sums of the same values, in any order, can differ so much by rounding.
fn are_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}
