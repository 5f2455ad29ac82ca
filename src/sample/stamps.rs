//! What a tick is made of: the time-stamp counter at each stage, in a build for `benches/cold.rs` alone
//! (`RUSTFLAGS="--cfg sigprof_stamps"`, x86-64). Any other build has `no_stamps.rs` in this place, which is nothing.
//!
//! A record is written once the tick is over, so the price of writing is in none. It goes to an array that is there
//! from the start; what does not fit is left out. At the end of a session the array goes to the file that
//! `SIGPROF_STAMPS` names, a dot and the process id behind it: one line of numbers for each tick that was walked, as
//! [`COLUMNS`] names them.

use super::{counters::Counter, scratch::Slot};
use crate::{
    sync::{AtomicU64, AtomicUsize, Ordering},
    sys::{arch::time_stamp, thread::minor_faults},
};
use std::{fmt::Write as _, sync::atomic::fence};

/// Time stamps at the handler's first and last instruction and between its stages; how deep the chain is, how many rules
/// were not in the cache, how many pages were touched for the first time.
const COLUMNS: [&str; 8] = ["entered", "claimed", "walked", "added", "left", "depth", "misses", "faults"];

const MOST: usize = 1 << 16;

static RECORDS: [[AtomicU64; COLUMNS.len()]; MOST] =
    [const { [const { AtomicU64::new(0) }; COLUMNS.len()] }; MOST];
static USED: AtomicUsize = AtomicUsize::new(0);

/// One tick's stamps; made first and dropped last in the handler.
#[derive(Default)]
pub(crate) struct Stamps {
    faults: u64,
    entered: u64,
    claimed: u64,
    walked: u64,
    added: u64,
    depth: usize,
    misses: u64,
}

/// What the stages of a tick mark.
pub(crate) struct Marks<'s>(&'s mut Stamps);

impl Stamps {
    pub(crate) fn begin() -> Self {
        let faults = minor_faults();
        Self { faults, entered: time_stamp(), ..Self::default() }
    }

    pub(crate) fn marks(&mut self) -> Marks<'_> {
        Marks(self)
    }
}

impl Marks<'_> {
    /// The slot is claimed, and nothing left that could keep the tick from being walked.
    pub(crate) fn claimed(&mut self, slot: &Slot) {
        self.0.misses = slot.counted(Counter::RuleMisses);
        self.0.claimed = time_stamp();
    }

    pub(crate) fn walked(&mut self, slot: &Slot, depth: usize) {
        self.0.walked = time_stamp();
        self.0.misses = slot.counted(Counter::RuleMisses).wrapping_sub(self.0.misses);
        self.0.depth = depth;
    }

    /// The chain is in the table.
    pub(crate) fn added(&mut self) {
        self.0.added = time_stamp();
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        let left = time_stamp();
        if self.added == 0 {
            return;
        }
        let faults = minor_faults().wrapping_sub(self.faults);
        let Some(record) = RECORDS.get(USED.fetch_add(1, Ordering::Relaxed)) else { return };
        let stages = [self.entered, self.claimed, self.walked, self.added, left];
        let values = stages.into_iter().chain([self.depth as u64, self.misses, faults]);
        for (place, value) in record.iter().zip(values) {
            place.store(value, Ordering::Relaxed);
        }
    }
}

/// Writes out what was gathered so far. For ordinary context: it allocates, even in a toggle.
pub(crate) fn write_out() {
    let Some(mut path) = std::env::var_os("SIGPROF_STAMPS") else { return };
    path.push(format!(".{}", std::process::id()));
    // All handlers have been seen gone; this only orders their stores before our loads.
    fence(Ordering::SeqCst);
    let mut text = COLUMNS.join(" ");
    for record in RECORDS.iter().take(USED.load(Ordering::Relaxed)) {
        let _ = write!(
            text,
            "\n{}",
            record.each_ref().map(|word| word.load(Ordering::Relaxed).to_string()).join(" ")
        );
    }
    text.push('\n');
    // Who reads the file misses it.
    let _ = std::fs::write(path, text);
}
