//! Figures that a session reports at its end.

use crate::{
    config::Clock,
    control::{NoSamples, is_in_step},
    format::spool::EndFigures,
};
use std::time::Duration;

/// Figures that a session reported at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionEnd {
    /// Elapsed time from start to end.
    pub elapsed: Duration,
    /// CPU time of the process in that time.
    pub process_cpu: Duration,
    /// Time of the clock that no tick represents.
    pub unaccounted: Duration,
    /// CPU time of the process as the kernel's timer interrupts count it; zero if it is not known.
    pub interrupted: Duration,
    /// Threads that blocked the profiling signal at the end, if this was checked.
    pub blocking_threads: u64,
    /// How often a thread could not have a timer.
    pub timers_refused: u64,
    /// Call stacks that were unwound.
    pub walks: u64,
    /// Complete call stacks: those that reach the thread's entry point.
    pub complete_walks: u64,
    /// Lost periods.
    pub lost: u64,
    /// The reason if there are no samples.
    pub no_samples: Option<NoSamples>,
    /// The clock that ran; None if it is unknown.
    pub clock: Option<Clock>,
}

impl SessionEnd {
    /// True if code ran in step with the kernel's timer interrupts, at which the clock samples; see
    /// [`Summary::is_in_step`](crate::Summary::is_in_step).
    pub fn is_in_step(&self) -> bool {
        self.clock.is_some_and(|clock| is_in_step(clock, self.process_cpu, self.interrupted))
    }

    pub(super) fn of(figures: EndFigures) -> Self {
        Self {
            elapsed: Duration::from_nanos(figures.elapsed_nanos),
            process_cpu: Duration::from_nanos(figures.cpu_nanos),
            unaccounted: Duration::from_nanos(figures.unaccounted_nanos),
            interrupted: Duration::from_nanos(figures.interrupted_nanos),
            blocking_threads: figures.blocking_threads,
            timers_refused: figures.timers_refused,
            walks: figures.walks,
            complete_walks: figures.complete_walks,
            lost: figures.lost,
            no_samples: NoSamples::of_number(figures.no_samples),
            clock: u32::try_from(figures.clock).ok().and_then(Clock::of_number),
        }
    }
}
