//! Sums of the reports in the spools of a command.

use sigprof::{NoSamples, recover::Spool};
use std::{collections::BTreeMap, time::Duration};

/// Sums of what the processes reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Programs that left a spool; a process that calls `exec` counts again.
    pub programs: u64,
    /// Of these, those that were killed or crashed, and left only samples.
    pub killed: u64,
    /// Running processes.
    pub running: u64,
    /// Lost samples, in periods.
    pub lost: u64,
    /// Spools that could not grow.
    pub cut: u64,
    /// Walked call stacks, of programs that were not killed.
    pub walks: u64,
    /// Of these, complete stacks.
    pub complete_walks: u64,
    /// CPU time of programs that were not killed.
    pub process_cpu: Duration,
    /// Unaccounted time.
    pub unaccounted: Duration,
    /// Part of it from before first and after last ticks; the rest is of threads without ticks.
    pub behind_last_ticks: Duration,
    /// CPU time of programs in step with the kernel's timer interrupts (their clock's ticks).
    pub in_step: Duration,
    /// That time as the interrupts count it.
    pub interrupted: Duration,
    /// Reason of the first program without a sample.
    pub no_samples: Option<NoSamples>,
    /// Clocks by name, with the number of programs that were not killed.
    pub clocks: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn add(&mut self, spool: &Spool) {
        self.programs += 1;
        self.cut += u64::from(spool.is_truncated());
        let Some(end) = spool.end() else {
            self.killed += 1;
            self.lost += spool.lost();
            return;
        };
        self.lost += end.lost;
        self.walks += end.walks;
        self.complete_walks += end.complete_walks;
        self.process_cpu += end.process_cpu;
        self.unaccounted += end.unaccounted;
        if !lacks_ticks(end.unaccounted, spool.period()) {
            self.behind_last_ticks += end.unaccounted;
        }
        if end.is_in_step() {
            self.in_step += end.process_cpu;
            self.interrupted += end.interrupted;
        }
        self.no_samples = self.no_samples.or(end.no_samples);
        if let Some(clock) = end.clock {
            *self.clocks.entry(clock.to_string()).or_default() += 1;
        }
    }
}

/// True if the unaccounted time exceeds what is possible before first and after last ticks: threads
/// block the signal, or have no timer. A session's own report has the same limit.
fn lacks_ticks(unaccounted: Duration, period: Duration) -> bool {
    unaccounted > Duration::from_millis(250) && unaccounted > 3 * period
}
