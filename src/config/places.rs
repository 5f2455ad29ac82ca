//! Destinations of spools and of the statistics line.

use super::values::is_true;
use std::ffi::CString;

/// The directory of spools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpoolChoice {
    /// The user's directory below /dev/shm.
    #[default]
    Default,
    /// This directory.
    Directory(Vec<u8>),
    /// No spool: a profile is lost if the process is killed.
    Off,
}

impl SpoolChoice {
    pub(super) fn from_value(value: Option<&[u8]>) -> Self {
        match value {
            None | Some(b"") => Self::Default,
            Some(b"off") => Self::Off,
            Some(path) => Self::Directory(path.to_vec()),
        }
    }
}

/// The destination of the statistics line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatisticsChoice {
    /// No statistics.
    #[default]
    Off,
    /// Standard error.
    Stderr,
    /// Appended to this file, which has an absolute path.
    File(CString),
}

impl StatisticsChoice {
    pub(super) fn from_value(value: Option<&[u8]>) -> Self {
        match value {
            Some(path) if path.first() == Some(&b'/') => CString::new(path).map_or(Self::Off, Self::File),
            Some(value) if is_true(value) => Self::Stderr,
            _ => Self::Off,
        }
    }
}
