//! The figures of a session, so far and at its end.

use super::Session;
use crate::{
    control::{
        summary::{Facts, SpoolUse, Summary},
        ticks,
    },
    sample::{
        caller, counters::Counter, engine::Engine, handler::LOST_WITHOUT_SLOT, recording::Recording,
        thread_timers, weight,
    },
    sync::Ordering,
    sys::{clock, signal},
    thread::{SampledThreads, ThreadUse},
};
use core::time::Duration;

/// Totals of the process, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct EndTotals {
    pub(super) monotonic: u64,
    pub(super) cpu: u64,
    pub(super) interrupted: u64,
    /// Unaccounted time of the session's clock.
    pub(super) unaccounted: u64,
    /// Threads that block the signal, if they were counted.
    pub(super) blocking: u32,
}

impl Session {
    pub(crate) fn summary(&self) -> Summary {
        self.summary_with(0)
    }

    pub(super) fn now(&self) -> EndTotals {
        let (monotonic, cpu) = (clock::monotonic_nanos(), clock::process_cpu_nanos());
        let unaccounted =
            thread_timers::unaccounted_of_all().unwrap_or_else(|| weight::unaccounted_nanos(cpu));
        EndTotals { monotonic, cpu, interrupted: process_interrupted(), unaccounted, blocking: 0 }
    }

    /// The summary's `samples`, at less cost.
    pub(crate) fn samples(&self) -> u64 {
        let totals = Engine::get().map(|engine| engine.scratch().totals()).unwrap_or_default();
        let samples = totals.since(&self.recording.get().totals_at_start).get(Counter::Samples);
        samples.saturating_sub(self.spilled().1)
    }

    /// The spilled periods, and how many of them are lost: all if the file is gone, otherwise 0.
    fn spilled(&self) -> (u64, u64) {
        let hold = self.recording.get().spiller.lock();
        match hold.map(|mut hold| (hold.periods, hold.sink.is_there())) {
            Some((periods, false)) => (periods, periods),
            Some((periods, true)) => (periods, 0),
            None => (0, 0),
        }
    }

    pub(super) fn summary_with(&self, stuck_handlers: u64) -> Summary {
        let recording = self.recording.get();
        let totals = Engine::get().map(|engine| engine.scratch().totals()).unwrap_or_default();
        let signal = recording.signal;
        let end = self.end.unwrap_or_else(|| self.now());
        let (spilled, spill_lost) = self.spilled();
        Facts {
            clock: thread_timers::present(recording.clock),
            totals: totals.since(&recording.totals_at_start),
            period_micros: recording.period_micros,
            elapsed_nanos: end.monotonic.saturating_sub(self.start_monotonic),
            cpu_nanos: end.cpu.saturating_sub(self.start_cpu),
            interrupted_nanos: end.interrupted.saturating_sub(self.start_interrupted),
            unaccounted_nanos: end.unaccounted,
            blocking_threads: end.blocking,
            timers_refused: timers_refused().wrapping_sub(self.refused_at_start),
            without_event: thread_timers::without_event().wrapping_sub(self.without_event_at_start),
            lost_without_slot: LOST_WITHOUT_SLOT
                .load(Ordering::Relaxed)
                .wrapping_sub(self.lost_without_slot_at_start),
            stuck_handlers,
            threads: sampled_threads(recording),
            spilled,
            spill_lost,
            spill_failure: recording.spiller.failure(),
            handler_replaced: signal::disposition(signal).is_ok_and(|action| !ticks::is_own_handler(&action)),
            had_no_timer: self.had_no_timer,
            spool: match &self.spool {
                Some(spool) if !spool.is_there() => SpoolUse::Removed,
                Some(_) if recording.memory().is_truncated() => SpoolUse::Truncated,
                _ => self.spool_use,
            },
        }
        .summary()
    }
}

/// As [`clock::process_prof_nanos`]; 0 in a sandbox, which may forbid the call.
pub(super) fn process_interrupted() -> u64 {
    if caller::are_clock_reads_forbidden() { 0 } else { clock::process_prof_nanos() }
}

pub(super) fn timers_refused() -> u64 {
    Engine::get().map_or(0, |engine| engine.timers().refused())
}

/// The threads with samples. Signal-safe: clocks and atomics.
fn sampled_threads(recording: &Recording) -> SampledThreads {
    let busiest = recording.threads.busiest();
    let mut threads = SampledThreads {
        count: busiest.count,
        others: recording.threads.others(),
        ..SampledThreads::default()
    };
    for (place, (samples, index)) in threads.busiest.iter_mut().zip(busiest.threads) {
        if let Some(thread) = recording.threads.thread(index) {
            let cpu = clock::cpu_nanos_of_thread(thread.id).map(Duration::from_nanos);
            *place = ThreadUse { thread, samples, cpu };
        }
    }
    threads
}
