//! Why a command is not run.

use super::summary::quoted;
use std::{ffi::OsString, fmt, path::PathBuf};

/// Why a command is not run. Nothing has been changed then, and no file was left.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such program: env(1) and shells end with status 127.
    NotFound(OsString),
    /// It may not be executed, and why: env(1) and shells end with status 126.
    NotExecutable(OsString, String),
    /// The program would run without a sample: why, and what to do.
    Unprofiled(PathBuf, String, String),
    /// Something else that recording needs is missing.
    Other(crate::Error),
}

impl Refusal {
    /// What the recorder ends with, as env(1) does.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(..) => 126,
            Self::Unprofiled(..) | Self::Other(_) => 1,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(command) if command.is_empty() => f.write_str("'': command not found"),
            Self::NotFound(command) => {
                let command = command.to_string_lossy();
                write!(f, "{command}: command not found")?;
                // A whole command line in quotes.
                if command.contains(char::is_whitespace) {
                    write!(
                        f,
                        "; leave out the quotes: sigprof record {command}, or use sh -c {}",
                        quoted(&command)
                    )?;
                }
                Ok(())
            }
            Self::NotExecutable(command, reason) => {
                write!(f, "{}: cannot be executed: {reason}", command.to_string_lossy())
            }
            Self::Unprofiled(path, reason, advice) => {
                write!(f, "{}: cannot be recorded: {reason}; {advice}", path.display())
            }
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Other(error) => Some(error),
            _ => None,
        }
    }
}

impl From<crate::Error> for Refusal {
    fn from(error: crate::Error) -> Self {
        Self::Other(error)
    }
}
