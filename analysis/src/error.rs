//! Errors in reading, symbolizing and writing.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// An error in reading, symbolizing or writing: its object, the reason, and advice if needed.
///
/// The text is one line in the form `path: at offset N: reason; advice`.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    offset: Option<u64>,
    reason: String,
    advice: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Category of an [`Error`], for callers that distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A system call failed.
    Io,
    /// The bytes violate their format, or have an unknown one.
    Format,
    /// Inconsistent inputs: profiles of different types, a binary that is not the executed one.
    Mismatch,
    /// An invalid request: an invalid regular expression, a filter by thread without threads.
    Request,
}

impl Error {
    /// Creates an error with only a reason, which begins in lower case and has no full stop.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, path: None, offset: None, reason: reason.into(), advice: None, source: None }
    }

    /// Creates an error of the system, for an `action` such as "read the profile" on `path`.
    pub fn io(path: &Path, action: &str, source: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, format!("cannot {action}: {}", reason(&source))).at(path);
        error.source = Some(Box::new(source));
        error
    }

    /// Creates an error of an output; the caller [adds](Self::at) its name.
    pub fn output(source: io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("cannot write: {}", reason(&source))).caused_by(source)
    }

    /// Sets the file, unless it is set.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.path.get_or_insert_with(|| path.into());
        self
    }

    /// Sets the offset in the file, in bytes, unless it is set.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// Increases the offset by the number of `bytes` before the data that was read.
    #[must_use]
    pub fn after(mut self, bytes: u64) -> Self {
        self.offset = Some(self.offset.unwrap_or(0).saturating_add(bytes));
        self
    }

    /// Sets the advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Sets the source, which is not printed.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Returns the category.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(offset) = self.offset {
            write!(f, "at offset {offset}: ")?;
        }
        f.write_str(&self.reason)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_path_offset_reason_and_advice() {
        let error = Error::new(ErrorKind::Format, "the record has no pcs")
            .advise("record it again")
            .at_offset(40)
            .at(Path::new("cpu.prof"));
        assert_eq!(error.to_string(), "cpu.prof: at offset 40: the record has no pcs; record it again");
        // A later caller has less information.
        assert_eq!(error.at(Path::new("other")).path(), Some(Path::new("cpu.prof")));
    }

    #[test]
    fn shows_the_systems_reason_once_and_keeps_the_source() {
        let error = Error::io(Path::new("x"), "read the profile", io::Error::other("gone"));
        assert_eq!(error.to_string(), "x: cannot read the profile: gone");
        assert_eq!(std::error::Error::source(&error).map(ToString::to_string), Some("gone".into()));
    }
}
