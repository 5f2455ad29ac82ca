//! What a session is started with.

use super::{
    maps_text::KeptLines,
    output::{Naming, OutputDirectory},
    spool::SpoolLocation,
};
use crate::{
    config::{Clock, Filter},
    format::spool::Ancestors,
};

/// What a session is started with.
#[derive(Clone, Copy)]
pub(crate) struct StartOptions<'a> {
    pub(crate) sink: Destination<'a>,
    pub(crate) clock: Clock,
    /// Of the ticks, where it is not the clock's own.
    pub(crate) signal: Option<i32>,
    /// Ticks per second.
    pub(crate) frequency: u32,
    pub(crate) max_depth: usize,
    /// TimerOwner a sample is is part of it.
    pub(crate) by_thread: bool,
    pub(crate) filter: Option<Filter>,
    /// Address ranges that are not recorded.
    pub(crate) excluded: &'a [(usize, usize)],
    /// What becomes of a file that has the name already.
    pub(crate) naming: Naming,
    /// A directory that is open already: the file's, if that is what the path asks for.
    pub(crate) near: Option<&'a OutputDirectory>,
    /// A forked child goes on in this file, with `_` and its process id added.
    pub(crate) child_path: Option<&'a [u8]>,
    /// Only such a child has some. Most end without a tick, so nothing is tried beforehand, and no empty file is written.
    pub(crate) ancestors: Ancestors,
    /// Where the spool of a file's session is kept.
    pub(crate) spool: SpoolLocation<'a>,
    /// The profile is left in the spool, where there is one that holds all of it, and no file is written.
    pub(crate) keeps_spool: bool,
    /// The calling thread has a timer of its own from the start, whose first tick comes at a random place in the first period.
    pub(crate) starts_at_random: bool,
    /// Bytes of memory that the session may take.
    pub(crate) max_memory: usize,
    /// The mapped objects of a parent, for a child that may not see its own.
    pub(crate) lines: Option<&'a KeptLines>,
}

/// Where a profile goes.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    File(&'a [u8]),
    Memory,
}

impl<'a> Destination<'a> {
    /// Empty for memory.
    pub(super) fn path(self) -> &'a [u8] {
        if let Self::File(path) = self { path } else { &[] }
    }
}
