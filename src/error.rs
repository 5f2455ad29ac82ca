//! Errors of a profiler.

use crate::sys::errno;
use std::{fmt, io, path::PathBuf};

/// Reason why a profiler was not started, or a profile was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A profiler is already running in this process.
    AlreadyRunning,
    /// No profiler is running.
    NotRunning,
    /// The program handles the profiling signal.
    HandlerTaken {
        /// Number of the signal.
        signal: i32,
    },
    /// The profile cannot be written.
    Output {
        /// Path of the profile.
        path: PathBuf,
        /// The failed action: a verb and its object.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A system call failed.
    System {
        /// The failed action: a verb and its object.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning => {
                f.write_str("a profiler is already running in this process; stop it first")
            }
            Self::NotRunning => f.write_str("no profiler is running in this process"),
            Self::HandlerTaken { signal } => {
                write!(
                    f,
                    "the program handles signal {signal} itself; start the profiler before it does, or remove its handler"
                )
            }
            Self::Output { path, action, source } => {
                write!(f, "cannot {action} for profile {}: {source}", path.display())
            }
            Self::System { action, source } => write!(f, "cannot {action}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Output { source, .. } | Self::System { source, .. } => Some(source),
            Self::AlreadyRunning | Self::NotRunning | Self::HandlerTaken { .. } => None,
        }
    }
}

/// The form of [`Error`] without allocation, because a toggle request runs in a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// See [`Error::AlreadyRunning`].
    AlreadyRunning,
    /// See [`Error::NotRunning`].
    NotRunning,
    /// See [`Error::HandlerTaken`].
    HandlerTaken {
        /// Number of the signal.
        signal: i32,
        /// Address of the handler.
        handler: usize,
    },
    /// See [`Error::Output`]; the caller has the path.
    Output {
        /// The failed action: a verb and its object.
        action: &'static str,
        /// The error number (`errno`).
        errno: i32,
    },
    /// See [`Error::System`].
    System {
        /// The failed action: a verb and its object.
        action: &'static str,
        /// The error number (`errno`).
        errno: i32,
    },
}

/// The message has no path. Does not allocate.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning => f.write_str("a profiler is already running"),
            Self::NotRunning => f.write_str("no profiler is running"),
            Self::HandlerTaken { signal, .. } => write!(f, "the program handles signal {signal} itself"),
            Self::Output { action, errno } => {
                let (reason, advice) = (errno::description(*errno), errno::advice(*errno));
                write!(f, "cannot {action}: {reason}; {advice}")
            }
            Self::System { action, errno } => write!(f, "cannot {action}: {}", errno::description(*errno)),
        }
    }
}

impl Failure {
    pub(crate) fn with_path(self, path: &std::path::Path) -> Error {
        match self {
            Self::AlreadyRunning => Error::AlreadyRunning,
            Self::NotRunning => Error::NotRunning,
            Self::HandlerTaken { signal, .. } => Error::HandlerTaken { signal },
            Self::Output { action, errno } => {
                Error::Output { path: path.into(), action, source: io::Error::from_raw_os_error(errno) }
            }
            Self::System { action, errno } => {
                Error::System { action, source: io::Error::from_raw_os_error(errno) }
            }
        }
    }
}
