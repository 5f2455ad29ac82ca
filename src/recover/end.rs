//! What a session said of itself at its end.

use crate::{
    config::Clock,
    control::{NoSamples, is_in_step},
    format::spool::EndFigures,
};
use std::time::Duration;

/// What a session said of itself at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionEnd {
    /// Time from its start to its end.
    pub elapsed: Duration,
    /// CPU time that the process used meanwhile.
    pub process_cpu: Duration,
    /// Time of its clock that no tick stands for.
    pub unaccounted: Duration,
    /// CPU time of the process as the kernel's timer interrupts count it; zero if it is not known.
    pub interrupted: Duration,
    /// Threads that blocked the signal of the ticks at the end, if that was looked for.
    pub blocking_threads: u64,
    /// How often a thread could not have a timer of its own.
    pub timers_refused: u64,
    /// Call chains that were walked.
    pub walks: u64,
    /// Of these: those that came to the entry point of their thread.
    pub complete_walks: u64,
    /// Periods that are missing in the samples.
    pub lost: u64,
    /// Why there are no samples, when there are none.
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
