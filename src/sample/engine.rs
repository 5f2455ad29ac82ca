//! What all sessions of the process share: the scratch slots, the rules met so far, the threads that have timers.
//!
//! Made at the first start, in ordinary context, and kept until the process ends: a handler may be inside at any
//! time.
//!
//! # Safety
//! Makes a slice of atomics out of a mapping that lives as long as the slice.
#![allow(unsafe_code)]

use super::{
    caller::ClockReaders,
    sampled_dsos,
    scratch::Scratch,
    thread_timers,
    timer_table::{self, MAX_THREADS, TimerTable},
    unwind::{
        objects,
        rule_cache::{RuleCache, RuleLine},
    },
};
use crate::sys::{
    memory::{Mapping, choose_probe},
    process, thread,
};
use once_cell::race::OnceBox;

/// TimerEntries of the rule cache, 16 bytes each.
const RULES: usize = if cfg!(target_pointer_width = "64") { 64 << 10 } else { 32 << 10 };
/// A handler that is inside may lose its processor, or wait in the kernel for the right to change mappings, so there are many
/// more slots than processors. One that is not used takes address space alone; half as many where a process may have only
/// so much of that.
const SLOTS_PER_PROCESSOR: usize = 8;
const MIN_SLOTS: usize = 32;
const MAX_SLOTS: usize = 128;

static ENGINE: OnceBox<Engine> = OnceBox::new();

/// See the module.
pub(crate) struct Engine {
    scratch: Scratch,
    rules: RuleCache<RuleLines>,
    threads: TimerTable<TimerEntries>,
    clock_readers: ClockReaders,
}

/// A mapping as the rule cache's lines.
pub(crate) struct RuleLines(Mapping);

impl AsRef<[RuleLine]> for RuleLines {
    #[inline]
    fn as_ref(&self) -> &[RuleLine] {
        let length = self.0.length() / size_of::<RuleLine>();
        // SAFETY: the mapping is zeroed, aligned to a page, and lives as long as `self`. (Under loom, whose atomics
        // are no plain words, no engine is ever made.)
        unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().cast(), length) }
    }
}

/// A mapping as the entries of threads.
pub(crate) struct TimerEntries(Mapping);

impl AsRef<[timer_table::TimerEntry]> for TimerEntries {
    #[inline]
    fn as_ref(&self) -> &[timer_table::TimerEntry] {
        let length = self.0.length() / size_of::<timer_table::TimerEntry>();
        // SAFETY: as for the lines of rules.
        unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().cast(), length) }
    }
}

impl Engine {
    /// The engine, if it has been made. Signal-safe: one atomic load.
    #[inline]
    pub(crate) fn get() -> Option<&'static Self> {
        ENGINE.get()
    }

    /// The engine, made now if it was not. For ordinary context.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn get_or_make() -> Result<&'static Self, i32> {
        objects::prepare();
        sampled_dsos::prepare();
        thread_timers::prepare();
        ENGINE.get_or_try_init(|| Ok(Box::new(Self::new()?)))
    }

    /// An engine that no session uses. For ordinary context.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn new() -> Result<Self, i32> {
        choose_probe()?;
        let processors = thread::processors();
        let slots = (processors * SLOTS_PER_PROCESSOR).clamp(MIN_SLOTS, MAX_SLOTS);
        let slots = if process::has_limited_memory() { slots / 2 } else { slots };
        let rules = RuleCache::new(RuleLines(Mapping::writable(RULES * 16)?));
        let threads = TimerEntries(Mapping::writable(MAX_THREADS * size_of::<timer_table::TimerEntry>())?);
        Ok(Self {
            scratch: Scratch::new(slots)?,
            rules,
            threads: TimerTable::new(threads),
            clock_readers: ClockReaders::new(),
        })
    }

    #[inline]
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    #[inline]
    pub(crate) fn clock_readers(&self) -> &ClockReaders {
        &self.clock_readers
    }

    #[inline]
    pub(crate) fn rules(&self) -> &RuleCache<RuleLines> {
        &self.rules
    }

    #[inline]
    pub(crate) fn threads(&self) -> &TimerTable<TimerEntries> {
        &self.threads
    }
}
