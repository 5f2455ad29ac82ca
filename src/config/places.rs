//! Where the user wants what is not the profile: spools, and the line of statistics.

use super::values::is_true;
use std::ffi::CString;

/// Where the user wants the spools of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpoolChoice {
    /// In a directory of the user's own below /dev/shm.
    #[default]
    Default,
    /// In this directory.
    Directory(Vec<u8>),
    /// Nowhere: a profile does not outlive a kill.
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

/// Where the user wants the line of statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatisticsChoice {
    /// Nowhere.
    #[default]
    Off,
    /// On stderr.
    Stderr,
    /// At the end of this file, whose path begins at the root.
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
