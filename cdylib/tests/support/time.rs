//! A session's time: in samples, or unaccounted for.
//!
//! The scheduler decides how much is unaccounted for. The kernel sends ticks of CPU time only at
//! its own ticks, to the thread that they interrupt. The time of a thread after the last of those
//! is not sampled, and on a busy machine it may be much. The sum of both is the time used on any
//! machine, so tests check that closely. A program that computes until it sees a tick can check
//! more: samples represent all time before that tick.

use std::path::Path;

use nix::time::{ClockId, clock_getres};

use super::process::Finished;

/// The resolution of times that programs and lines print.
const ROUNDED: f64 = 1e-5;

/// Seconds between two ticks of the kernel, the resolution of the coarse clock.
pub(crate) fn kernel_tick() -> f64 {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).expect("Linux has this clock");
    tick.tv_nsec() as f64 / 1e9
}

/// The figures of a session of CPU time in the lines of `CPUPROFILE_STATISTICS`, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionTime {
    pub(crate) samples: usize,
    /// The unaccounted time.
    pub(crate) unaccounted: f64,
    /// The time that the process used during the session.
    pub(crate) used: f64,
}

impl SessionTime {
    /// Each session's figures, in the order in which they stopped.
    #[track_caller]
    pub(crate) fn all(finished: &Finished) -> Vec<Self> {
        let lines = finished.stderr.lines().filter(|line| line.starts_with("sigprof: statistics: "));
        lines.map(Self::parse).collect()
    }

    #[track_caller]
    pub(crate) fn only(finished: &Finished) -> Self {
        let [time] = Self::all(finished)[..] else { panic!("not one session: {}", finished.stderr) };
        time
    }

    /// The figures of the session with this profile.
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
            unaccounted: seconds("unaccounted_micros"),
            used: seconds("cpu_micros"),
        }
    }

    /// Fails unless samples and unaccounted time are the time used.
    ///
    /// A tick represents whole periods, so each of `threads` with simultaneous ticks may be one
    /// ahead. Some time passes between reading the clock and the counts.
    pub(crate) fn adds_up(&self, period: f64, threads: usize) -> Result<(), String> {
        let sampled = self.samples as f64 * period;
        let margin = period * threads as f64 + kernel_tick();
        let is_true = (sampled + self.unaccounted - self.used).abs() <= margin;
        is_true.then_some(()).ok_or_else(|| format!("{sampled:.4} s sampled, margin {margin:.4}: {self:?}"))
    }

    /// Fails unless the session's time is between `least`, which the program measured within it,
    /// and the whole process's time.
    pub(crate) fn is_of(&self, least: f64, finished: &Finished) -> Result<(), String> {
        self.is_between(least, finished.used)
    }

    /// Fails unless the session's time is between `least` and `most`.
    pub(crate) fn is_between(&self, least: f64, most: f64) -> Result<(), String> {
        let is_true = least <= self.used + ROUNDED && self.used <= most + ROUNDED;
        is_true.then_some(()).ok_or_else(|| format!("{least:.6} to {most:.6} s: {self:?}"))
    }

    /// Fails if more is unaccounted for than the time after a moment that a tick followed. That
    /// tick represented all earlier time, except half a period and the time of other threads with
    /// timers. `rest` is the time used since then, plus the most that those threads used.
    pub(crate) fn is_accounted_except(&self, rest: f64, period: f64) -> Result<(), String> {
        let most = rest + period + ROUNDED;
        (self.unaccounted <= most)
            .then_some(())
            .ok_or_else(|| format!("most of {most:.6} s unaccounted: {self:?}"))
    }
}
