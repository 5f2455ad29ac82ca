//! What the processes of a command have said of themselves.

use sigprof::{NoSamples, recover::Spool};
use std::time::Duration;

/// What the processes have said of themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Programs that left a spool: a process that becomes another program counts twice.
    pub programs: u64,
    /// Of these: those that were killed, or crashed, and could say no more.
    pub killed: u64,
    /// Processes that still run.
    pub running: u64,
    /// Periods that are in no sample.
    pub lost: u64,
    /// Spools that could not grow further.
    pub cut: u64,
    /// Call chains that were walked, of those that said so.
    pub walks: u64,
    /// Of these: those that came to the entry point of their thread.
    pub whole_walks: u64,
    /// CPU time of the processes that said so.
    pub process_cpu: Duration,
    /// Time that no tick represents.
    pub unaccounted: Duration,
    /// The part of it that processes have used behind their last ticks, or before their first, and not that of threads without ticks.
    pub behind_last_ticks: Duration,
    /// Why the first of the programs without a sample has none.
    pub no_samples: Option<NoSamples>,
}

impl Tally {
    /// Adds what a program said.
    pub(super) fn add(&mut self, spool: &Spool) {
        self.programs += 1;
        self.cut += u64::from(spool.is_cut());
        let Some(end) = spool.end() else {
            self.killed += 1;
            self.lost += spool.lost();
            return;
        };
        self.lost += end.lost;
        self.walks += end.walks;
        self.whole_walks += end.whole_walks;
        self.process_cpu += end.process_cpu;
        self.unaccounted += end.unaccounted;
        if !lacks_ticks(end.unaccounted, spool.period()) {
            self.behind_last_ticks += end.unaccounted;
        }
        self.no_samples = self.no_samples.or(end.no_samples);
    }
}

/// True where a process has so much time in no sample that not all of it can be what it used behind its last tick: its threads have
/// blocked the signal, or had no timer. As in what a session says of itself.
fn lacks_ticks(unaccounted: Duration, period: Duration) -> bool {
    unaccounted > Duration::from_millis(250) && unaccounted > 3 * period
}
