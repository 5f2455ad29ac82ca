//! Time stamps of each tick's stages, in a build for `benches/cold.rs` (`RUSTFLAGS="--cfg
//! sigprof_stamps"`, x86-64). Other builds have `no_stamps.rs`.
//!
//! A record is written after its tick, so stamps exclude that cost. Records beyond a static array
//! are dropped. A session's end writes them to the file that `SIGPROF_STAMPS` names, plus a dot and
//! the process ID: a line of numbers for each walked tick, in the order of [`COLUMNS`].

use super::{counters::Counter, scratch::Slot};
use crate::{
    sync::{AtomicU64, AtomicUsize, Ordering},
    sys::{arch::time_stamp, thread::minor_faults},
};
use std::{fmt::Write as _, sync::atomic::fence};

/// Time stamps of the handler's stages; chain depth, rules not in the cache, minor page faults.
const COLUMNS: [&str; 8] = ["entered", "claimed", "walked", "added", "left", "depth", "misses", "faults"];

const MOST: usize = 1 << 16;

static RECORDS: [[AtomicU64; COLUMNS.len()]; MOST] =
    [const { [const { AtomicU64::new(0) }; COLUMNS.len()] }; MOST];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Created first and dropped last in the handler.
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
    /// After the claim, when nothing more can prevent the walk.
    pub(crate) fn claimed(&mut self, slot: &Slot) {
        self.0.misses = slot.counted(Counter::RuleMisses);
        self.0.claimed = time_stamp();
    }

    pub(crate) fn walked(&mut self, slot: &Slot, depth: usize) {
        self.0.walked = time_stamp();
        self.0.misses = slot.counted(Counter::RuleMisses).wrapping_sub(self.0.misses);
        self.0.depth = depth;
    }

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

/// For ordinary context: it allocates, even in a toggle request.
pub(crate) fn write_out() {
    let Some(mut path) = std::env::var_os("SIGPROF_STAMPS") else { return };
    path.push(format!(".{}", std::process::id()));
    // No handler is left. This orders their stores before these loads.
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
    // On an error the file is missing.
    let _ = std::fs::write(path, text);
}
