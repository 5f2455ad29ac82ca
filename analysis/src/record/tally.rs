//! What the processes of a command reported in their spools.

use sigprof::{NoSamples, recover::Spool};
use std::{collections::BTreeMap, time::Duration};

/// Sums of what the processes reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Programs that left a spool: a process that becomes another program counts twice.
    pub programs: u64,
    /// Of these: those that were killed or crashed, so that only their samples are known.
    pub killed: u64,
    /// Processes that still run.
    pub running: u64,
    /// Periods that are in no sample.
    pub lost: u64,
    /// Spools that could not grow further.
    pub cut: u64,
    /// Call stacks that were walked, of programs that were not killed.
    pub walks: u64,
    /// Of these: those that reach the entry point of their thread.
    pub complete_walks: u64,
    /// CPU time of programs that were not killed.
    pub process_cpu: Duration,
    /// Time that no tick represents.
    pub unaccounted: Duration,
    /// The part of it from before first and after last ticks: the rest is of threads without ticks.
    pub behind_last_ticks: Duration,
    /// CPU time of programs with code in step with the kernel's timer interrupts, at which their clock samples.
    pub in_step: Duration,
    /// That time as the interrupts count it.
    pub interrupted: Duration,
    /// Why the first of the programs without a sample has none.
    pub no_samples: Option<NoSamples>,
    /// The clocks that ran, by name, each with the number of programs that were not killed.
    pub clocks: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds what a program reported.
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

/// True if a process has more unaccounted time than can be from before its first and after its last tick: threads block the
/// signal, or have no timer. A session's own report has the same limit.
fn lacks_ticks(unaccounted: Duration, period: Duration) -> bool {
    unaccounted > Duration::from_millis(250) && unaccounted > 3 * period
}
