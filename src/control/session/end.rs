//! The end of a session, and its pause during `exec`.

use super::Session;
use crate::{
    control::{
        diagnostics::{self, Diagnostic},
        maps_text::KeptLines,
        spool::SessionSpool,
        summary::{Ended, Summary},
        ticks,
    },
    format::spool::SpoolState,
    sample::{
        caller,
        engine::Engine,
        recording,
        sampled_dsos::SampledDso,
        stamps, thread_timers,
        tick_source::{self, StopResult},
    },
    sys::{tasks, thread::Backoff},
    thread::Thread,
};

impl Session {
    /// Stops the ticks for a call of `exec`, with all signals blocked, and discards pending ones.
    /// Unless the call `will_fail`, writes the file and removes the spool.
    pub(in crate::control) fn suspend(&mut self, will_fail: bool, dsos: &[SampledDso]) {
        let timer = self.recording.get().clock.timer();
        ticks::stop_for_exec(timer, self.path());
        tick_source::discard_pending_ticks(timer);
        if will_fail {
            return;
        }
        let summary = self.summary();
        let lost = summary.losses.periods();
        if self.is_spool_complete() {
            return self.keep_spool(&summary, SpoolState::Replaced);
        }
        let written =
            if summary.samples > 0 || lost > 0 { self.write_file(dsos).map(|_| ()) } else { Ok(()) };
        // No summary line follows, so only problems are reported.
        match written {
            Err(failure) => {
                let spool = self.spool.as_ref().filter(|spool| spool.is_there()).map(SessionSpool::path);
                diagnostics::report(self.path(), Diagnostic::NoProfile { failure, spool });
            }
            Ok(()) if lost > 0 => diagnostics::report(self.path(), Diagnostic::Lost(lost)),
            Ok(()) => {}
        }
        let memory = self.recording.get().memory();
        memory.set_state(if written.is_ok() { SpoolState::Complete } else { SpoolState::Ended });
        if written.is_ok() {
            if let Some(spool) = &mut self.spool {
                spool.remove();
            }
            // After the spool: if it remains, it needs these records.
            self.remove_spill_file();
        }
    }

    pub(in crate::control) fn resume(&self) {
        let recording = self.recording.get();
        // First: if the process is killed now, the spool must not have end figures.
        if self.keeps_spool {
            recording.memory().clear_end();
        }
        recording.memory().set_state(SpoolState::Running);
        ticks::handle_after_failed_exec(recording.signal);
        if let Err(failure) = ticks::arm(recording.clock, recording.signal, recording.period_micros) {
            diagnostics::report(self.path(), Diagnostic::NoTicks(failure));
        } else if self.starts_at_random {
            thread_timers::adopt_caller();
        }
    }

    /// Stops the ticks and waits for handlers. Returns the number of those still running.
    pub(in crate::control) fn end_recording(&mut self) -> u64 {
        let mut end = self.now();
        self.end = Some(end);
        if self.summary().is_short_of_time() {
            end.blocking = tasks::count_blocking(self.recording.get().signal);
            self.end = Some(end);
        }
        if thread_timers::has_unseen_threads() {
            diagnostics::report(self.path(), Diagnostic::MainThreadAlone);
        }
        let timer = self.recording.get().clock.timer();
        self.had_no_timer = !tick_source::is_ticking(timer);
        // If the kernel refuses, the handler stays installed and does nothing.
        if tick_source::stop(timer) == Ok(StopResult::TakenByApp) {
            diagnostics::report(self.path(), Diagnostic::TimerTaken);
        }
        recording::withdraw();
        let stuck_handlers = Engine::get().map_or(0, |engine| wait_for_handlers(engine, Backoff::bounded()));
        if stuck_handlers == 0 {
            thread_timers::close_list();
        }
        self.refresh_thread_names();
        stuck_handlers
    }

    /// Reads the names of the busiest threads again. Not in a sandbox, which may kill the program.
    fn refresh_thread_names(&self) {
        if caller::are_clock_reads_forbidden() {
            return;
        }
        let recording = self.recording.get();
        for (_, index) in recording.threads.busiest().threads {
            let Some(thread) = recording.threads.thread(index) else { break };
            if let Some(name) = tasks::name_of(thread.id) {
                recording.name(index, Thread { name, ..thread });
            }
        }
    }

    /// Writes the file and frees the memory, unless a handler may still use it.
    pub(in crate::control) fn finish(mut self, dsos: &[SampledDso], stuck_handlers: u64) -> Ended {
        let summary = self.summary_with(stuck_handlers);
        let is_skipped = !self.ancestors.is_empty() && summary.samples == 0 && summary.losses.periods() == 0;
        let is_left = !is_skipped && self.is_spool_complete();
        let file = (self.output.is_some() && !is_skipped && !is_left).then(|| self.write_file(dsos));
        stamps::write_out();
        if is_left {
            self.keep_spool(&summary, SpoolState::Ended);
        } else {
            self.close_spool(&summary, file.is_some_and(|file| file.is_err()), stuck_handlers);
        }
        let ended =
            Ended { summary, file, output: self.output, spool: self.spool, keeps_spool: self.keeps_spool };
        if stuck_handlers > 0 {
            // A handler that returns now must spill nothing: no code would remove the file.
            core::mem::forget(self.recording.get().spiller.lock());
            self.recording.abandon();
        }
        ended
    }

    /// Whether the spool is to be the profile, and is complete.
    fn is_spool_complete(&self) -> bool {
        self.keeps_spool
            && self.spool.as_ref().is_some_and(SessionSpool::is_there)
            && !self.recording.get().memory().is_truncated()
    }

    /// Keeps the spool as the profile, and adds what a killed process could not.
    fn keep_spool(&mut self, summary: &Summary, state: SpoolState) {
        let memory = self.recording.get().memory();
        if let (Some(output), Some(kept)) = (&mut self.output, &mut self.lines) {
            // Code without a file (JIT compilers') is not in the list of the start. That list
            // remains if the current one cannot be read.
            let now = KeptLines::read(output.lines(), Some(&**kept)).ok();
            if let Some(now) = now.filter(|now| now.text() != kept.text()) {
                if memory.replace_text(now.text()).is_ok() {
                    *kept = now;
                }
            }
        }
        memory.note_end(summary.end_figures());
        memory.set_state(state);
    }

    /// Removes the spool, unless it has samples that are missing in the file.
    fn close_spool(&mut self, summary: &Summary, is_unwritten: bool, stuck_handlers: u64) {
        if summary.samples == 0 || !is_unwritten {
            self.recording.get().memory().set_state(SpoolState::Complete);
            // After the state: a spool that cannot be removed must not need it.
            self.remove_spill_file();
            self.discard_spool(stuck_handlers == 0);
        } else {
            if !self.spool.as_ref().is_some_and(SessionSpool::is_there) {
                self.remove_spill_file();
            }
            self.recording.get().memory().set_state(SpoolState::Ended);
        }
    }

    /// Removes the spill file, unless a thread is writing to it.
    fn remove_spill_file(&self) {
        if let Some(mut hold) = self.recording.get().spiller.lock() {
            hold.sink.remove();
        }
    }

    pub(super) fn discard_spool(&mut self, is_unused: bool) {
        if let Some(spool) = self.spool.take() {
            spool.discard(self.recording.get().memory(), is_unused);
        }
    }
}

/// Waits for a grace period. Returns the number of slots that were never idle.
pub(in crate::control) fn wait_for_handlers(engine: &Engine, mut backoff: Backoff) -> u64 {
    // Handlers run for microseconds. Others are stopped, or left their filter by `longjmp`.
    let scratch = engine.scratch();
    let stuck = (0..scratch.count()).filter(|&slot| {
        while !scratch.is_free(slot) {
            if !backoff.wait() {
                return true;
            }
        }
        false
    });
    stuck.count() as u64
}
