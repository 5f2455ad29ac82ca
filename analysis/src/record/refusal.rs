//! Reasons not to run a command.

use super::summary::quoted;
use std::{ffi::OsString, fmt, path::PathBuf};

/// Why a command was not run. No file was left.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The program does not exist: env(1) and shells exit with status 127.
    NotFound(OsString),
    /// The program is not executable, and why: env(1) and shells exit with status 126.
    NotExecutable(OsString, String),
    /// The program would run without a sample: reason and advice.
    Unprofiled(PathBuf, String, String),
    /// Another requirement is missing.
    Other(crate::Error),
}

impl Refusal {
    /// Returns the recorder's exit status, as for env(1).
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
                // A quoted command line.
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
