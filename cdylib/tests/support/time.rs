//! Where a session's time is: in samples, or told to be in none.
//!
//! How much is in none is the scheduler's choice. The kernel sends ticks of CPU time at its own ticks alone, and to the thread
//! that these meet: what a thread uses between the last of those and its end is in no sample, and on a busy machine, where the
//! processor goes to others all the time, that may be much. The sum of both is the time used, whatever the machine does, so
//! that is what a test may ask for to within little. A program that computes on until it has seen a tick come knows more: what it
//! had used before is in samples, whatever the scheduler does.

use std::path::Path;

use nix::time::{ClockId, clock_getres};

use super::process::Finished;

/// To which programs and lines cut their times.
const ROUNDED: f64 = 1e-5;

/// Seconds between two ticks of the kernel: the coarse clock goes by them.
pub(crate) fn kernel_tick() -> f64 {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).expect("Linux has this clock");
    tick.tv_nsec() as f64 / 1e9
}

/// What the lines of `CPUPROFILE_STATISTICS` tell of a session of CPU time, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) samples: usize,
    /// What no tick stands for.
    pub(crate) untold: f64,
    /// What the process used meanwhile.
    pub(crate) used: f64,
}

impl Told {
    /// Of each session, in the order of their ends.
    #[track_caller]
    pub(crate) fn all(finished: &Finished) -> Vec<Self> {
        let lines = finished.stderr.lines().filter(|line| line.starts_with("sigprof: statistics: "));
        lines.map(Self::parse).collect()
    }

    /// Of the only session.
    #[track_caller]
    pub(crate) fn only(finished: &Finished) -> Self {
        let [told] = Self::all(finished)[..] else { panic!("not one session: {}", finished.stderr) };
        told
    }

    /// Of the session whose profile has this path.
    #[track_caller]
    pub(crate) fn of(finished: &Finished, path: &Path) -> Self {
        let end = format!(" profile={}", path.display());
        let mut lines = finished.stderr.lines().filter(|line| line.ends_with(&end));
        Self::parse(lines.next().unwrap_or_else(|| panic!("no line with{end}: {}", finished.stderr)))
    }

    #[track_caller]
    fn parse(line: &str) -> Self {
        let figure = |name: &str| -> usize {
            let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_else(|| panic!("no {name}: {line}")).parse().expect("a number")
        };
        let seconds = |name: &str| figure(name) as f64 / 1e6;
        Self {
            samples: figure("samples"),
            untold: seconds("unaccounted_micros"),
            used: seconds("cpu_micros"),
        }
    }

    /// Says what is wrong unless samples of so many seconds, and what is in none, are the time used.
    ///
    /// A tick stands for whole periods, so each of the threads that had ticks at a time may be one ahead; and something is used
    /// between the looks at the clock and at the counts.
    pub(crate) fn adds_up(&self, period: f64, threads: usize) -> Result<(), String> {
        let sampled = self.samples as f64 * period;
        let margin = period * threads as f64 + kernel_tick();
        let is_true = (sampled + self.untold - self.used).abs() <= margin;
        is_true.then_some(()).ok_or_else(|| format!("{sampled:.4} s sampled, margin {margin:.4}: {self:?}"))
    }

    /// Says what is wrong unless the session's time is no less than what the program has seen go by within it, and no more than
    /// the whole process's.
    pub(crate) fn is_of(&self, least: f64, finished: &Finished) -> Result<(), String> {
        self.is_between(least, finished.used)
    }

    /// The same, where somebody else has measured what it may be at most.
    pub(crate) fn is_between(&self, least: f64, most: f64) -> Result<(), String> {
        let is_true = least <= self.used + ROUNDED && self.used <= most + ROUNDED;
        is_true.then_some(()).ok_or_else(|| format!("{least:.6} to {most:.6} s: {self:?}"))
    }

    /// Says what is wrong if more is in no sample than what came behind a moment after which the program saw a tick come. That tick
    /// stood for all time until then, but for half a period, and for what other threads with timers of their own had used: `rest`
    /// has what was used since, and what those had at most.
    pub(crate) fn is_told_but_for(&self, rest: f64, period: f64) -> Result<(), String> {
        let most = rest + period + ROUNDED;
        (self.untold <= most)
            .then_some(())
            .ok_or_else(|| format!("most of {most:.6} s unaccounted: {self:?}"))
    }
}
