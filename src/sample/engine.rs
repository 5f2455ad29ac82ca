//! State of all sessions: scratch slots, cached rules, per-thread timers. Created when the
//! shared library is loaded, or at the first start, and never freed: a handler may use it at any
//! time.
//!
//! # Safety
//! Makes slices of atomics from mappings, which live as long as the slices.
#![allow(unsafe_code)]

use super::{
    caller::ClockReaders,
    sampled_dsos,
    scratch::Scratch,
    spill::MAX_SLOTS,
    thread_timers,
    timer_table::{self, MAX_THREADS, TimerTable},
    unwind::{
        objects,
        rule_cache::{RuleCache, RuleLine},
    },
};
use crate::sys::{
    memory::{OwnedMapping, choose_probe},
    process, thread,
};
use once_cell::race::OnceBox;

/// Entries of the rule cache, of 16 bytes.
const RULES: usize = if cfg!(target_pointer_width = "64") { 64 << 10 } else { 32 << 10 };
/// A running handler may be preempted, or wait in the kernel for the lock of mappings. So there are
/// several slots for each processor, half as many if address space is limited. An unused slot takes
/// only that.
const SLOTS_PER_PROCESSOR: usize = 8;
const MIN_SLOTS: usize = 32;

static ENGINE: OnceBox<Engine> = OnceBox::new();

pub(crate) struct Engine {
    scratch: Scratch,
    rules: RuleCache<RuleLines>,
    timers: TimerTable<TimerEntries>,
    clock_readers: ClockReaders,
}

pub(crate) struct RuleLines(OwnedMapping);

impl AsRef<[RuleLine]> for RuleLines {
    #[inline]
    fn as_ref(&self) -> &[RuleLine] {
        let length = self.0.length() / size_of::<RuleLine>();
        // SAFETY: the mapping is zeroed, page-aligned, and lives as long as `self`. (Under loom
        // no engine is created: its atomics are not plain words.)
        unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().cast(), length) }
    }
}

pub(crate) struct TimerEntries(OwnedMapping);

impl AsRef<[timer_table::TimerEntry]> for TimerEntries {
    #[inline]
    fn as_ref(&self) -> &[timer_table::TimerEntry] {
        let length = self.0.length() / size_of::<timer_table::TimerEntry>();
        // SAFETY: as in `RuleLines`.
        unsafe { core::slice::from_raw_parts(self.0.start().as_ptr().cast(), length) }
    }
}

impl Engine {
    /// Signal-safe: one atomic load.
    #[inline]
    pub(crate) fn get() -> Option<&'static Self> {
        ENGINE.get()
    }

    /// For ordinary context.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn get_or_make() -> Result<&'static Self, i32> {
        objects::prepare();
        sampled_dsos::prepare();
        thread_timers::prepare();
        ENGINE.get_or_try_init(|| Ok(Box::new(Self::new()?)))
    }

    /// For ordinary context.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn new() -> Result<Self, i32> {
        choose_probe()?;
        let processors = thread::processors();
        let slots = (processors * SLOTS_PER_PROCESSOR).clamp(MIN_SLOTS, MAX_SLOTS);
        let slots = if process::has_limited_memory() { slots / 2 } else { slots };
        let rules = RuleCache::new(RuleLines(OwnedMapping::writable(RULES * 16)?));
        let threads =
            TimerEntries(OwnedMapping::writable(MAX_THREADS * size_of::<timer_table::TimerEntry>())?);
        Ok(Self {
            scratch: Scratch::new(slots)?,
            rules,
            timers: TimerTable::new(threads),
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
    pub(crate) fn timers(&self) -> &TimerTable<TimerEntries> {
        &self.timers
    }
}
