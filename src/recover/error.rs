//! The error of a recovery.

use crate::format::WriteError;
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// Reason why a spool cannot be recovered.
#[derive(Debug)]
pub struct RecoverError {
    pub(super) path: PathBuf,
    reason: Reason,
}

#[derive(Debug)]
pub(super) enum Reason {
    Io(&'static str, io::Error),
    Write(WriteError),
    NoSpool,
    OtherVersion,
    Damaged(&'static str),
    OtherUser(u32),
    Running(u32),
    Elsewhere(u32),
    Claimed,
    SpecialTarget(PathBuf),
    Wider,
}

impl RecoverError {
    pub(super) fn is_missing(&self) -> bool {
        matches!(&self.reason, Reason::Io(_, error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// True if another file has the name.
    pub(super) fn is_taken(&self) -> bool {
        matches!(&self.reason, Reason::Write(WriteError::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists)
    }

    pub(super) fn new(path: &Path, reason: Reason) -> Self {
        Self { path: path.into(), reason }
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.reason {
            Reason::Io(action, error) => write!(f, "cannot {action}: {error}"),
            Reason::Write(WriteError::Io(error)) => write!(f, "cannot write the profile: {error}"),
            Reason::Write(error) => write!(f, "cannot write the profile: {error}"),
            Reason::NoSpool => f.write_str("this is not a spool, or an unused one"),
            Reason::OtherVersion => {
                f.write_str("the spool was written by another version of sigprof; use that version")
            }
            Reason::Damaged(what) => write!(f, "the spool is damaged: its {what} is invalid"),
            Reason::OtherUser(user) => {
                write!(f, "the spool belongs to user {user}; only that user can recover it")
            }
            Reason::Running(process) => {
                write!(f, "process {process} is still running; it writes its profile at exit")
            }
            Reason::Elsewhere(process) => write!(
                f,
                "process {process} is in another container and may still be running; if it has exited, name the profile by -o"
            ),
            Reason::Claimed => f.write_str("the spool is being recovered by another process; wait for it"),
            Reason::Wider => f.write_str("the spool belongs to a 64-bit program; use a 64-bit sigprof"),
            Reason::SpecialTarget(target) => {
                write!(
                    f,
                    "the profile was meant for {}, which is not a regular file; name another by -o",
                    target.display()
                )
            }
        }
    }
}

impl std::error::Error for RecoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Io(_, error) => Some(error),
            Reason::Write(error) => Some(error),
            _ => None,
        }
    }
}
