//! Why something could not be read, named or written.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// Why something could not be read, named or written: what it is about, the reason, and what to do where that is not plain.
///
/// Its text is one line, in the order `path: at offset N: reason; advice`.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: Option<PathBuf>,
    offset: Option<u64>,
    reason: String,
    advice: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What an [`Error`] is about, for callers that treat some differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system refused to read or write.
    Io,
    /// The bytes break the rules of their format, or are of none that is known.
    Format,
    /// Things that do not go together: profiles of different periods, a binary that is not the one that ran.
    Mismatch,
    /// The caller asked for what cannot be: an invalid regular expression, a filter by threads where there are none.
    Request,
}

impl Error {
    /// An error of which nothing but the reason is known yet. `reason` begins in lower case and has no full stop.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, path: None, offset: None, reason: reason.into(), advice: None, source: None }
    }

    /// The system's refusal to do `action` (as "read the profile") with `path`.
    pub fn io(path: &Path, action: &str, source: io::Error) -> Self {
        let mut error = Self::new(ErrorKind::Io, format!("cannot {action}: {}", reason(&source))).at(path);
        error.source = Some(Box::new(source));
        error
    }

    /// The refusal of an output whose name the caller knows, and [adds](Self::at).
    pub fn output(source: io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("cannot write: {}", reason(&source))).caused_by(source)
    }

    /// Names the file that this is about, unless one is named already.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        self.path.get_or_insert_with(|| path.into());
        self
    }

    /// Says where in the file, in bytes from its start.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }

    /// Moves the place in the file by `bytes` that come before what was read.
    #[must_use]
    pub fn after(mut self, bytes: u64) -> Self {
        self.offset = Some(self.offset.unwrap_or(0).saturating_add(bytes));
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Keeps the error that led to this one; its text is not shown again.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file that it is about.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// The text of an error of the system, without its number.
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
    fn the_text_has_path_offset_reason_and_advice_in_this_order() {
        let error = Error::new(ErrorKind::Format, "the record has no pcs")
            .advise("record it again")
            .at_offset(40)
            .at(Path::new("cpu.prof"));
        assert_eq!(error.to_string(), "cpu.prof: at offset 40: the record has no pcs; record it again");
        // Who comes later knows less.
        assert_eq!(error.at(Path::new("other")).path(), Some(Path::new("cpu.prof")));
    }

    #[test]
    fn the_systems_reason_is_shown_once_and_kept() {
        let error = Error::io(Path::new("x"), "read the profile", io::Error::other("gone"));
        assert_eq!(error.to_string(), "x: cannot read the profile: gone");
        assert_eq!(std::error::Error::source(&error).map(ToString::to_string), Some("gone".into()));
    }
}
