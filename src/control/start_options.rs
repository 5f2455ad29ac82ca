//! The options of a session.

use super::{
    maps_text::KeptLines,
    output::{Naming, OutputDirectory},
    spool::SpoolLocation,
};
use crate::{
    config::{Clock, Filter},
    format::spool::Ancestors,
};

#[derive(Clone, Copy)]
pub(crate) struct StartOptions<'a> {
    pub(crate) destination: Destination<'a>,
    pub(crate) clock: Clock,
    /// The profiling signal, if it is not the clock's own.
    pub(crate) signal: Option<i32>,
    /// In Hz.
    pub(crate) frequency: u32,
    pub(crate) max_depth: usize,
    /// Keep samples of different threads apart.
    pub(crate) by_thread: bool,
    pub(crate) filter: Option<Filter>,
    pub(crate) excluded: &'a [(usize, usize)],
    pub(crate) naming: Naming,
    pub(crate) open_directory: Option<&'a OutputDirectory>,
    /// A forked child continues in this file, with `_` and its process ID.
    pub(crate) child_path: Option<&'a [u8]>,
    /// Processes from which this one was forked. A forked child often has no ticks, so its output
    /// is not tried, and not written if empty.
    pub(crate) ancestors: Ancestors,
    pub(crate) spool: SpoolLocation<'a>,
    /// Write no file if the spool has the complete profile.
    pub(crate) keeps_spool: bool,
    /// Adopt the calling thread, with its first tick at a random time in the first period.
    pub(crate) starts_at_random: bool,
    /// In bytes.
    pub(crate) max_memory: usize,
    /// A forked child may be unable to read its own.
    pub(crate) lines: Option<&'a KeptLines>,
}

#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    File(&'a [u8]),
    Memory,
}

impl<'a> Destination<'a> {
    pub(super) fn path(self) -> &'a [u8] {
        if let Self::File(path) = self { path } else { &[] }
    }
}
