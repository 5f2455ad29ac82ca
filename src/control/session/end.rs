//! How a session ends: for a while, before the program is replaced, or for good.

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
    /// Ends the ticks for a while. All signals are blocked, so a tick that is pending stays so, and is taken back here.
    /// That is all for a call of exec that `will_fail`; for any other the file is written, and the spool removed.
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
        // No end line will be written, so only what went wrong is told.
        match written {
            Err(failure) => {
                let spool = self.spool.as_ref().filter(|spool| spool.is_there()).map(SessionSpool::path);
                diagnostics::report(self.path(), Diagnostic::NoProfile { failure, spool });
            }
            Ok(()) if lost > 0 => diagnostics::report(self.path(), Diagnostic::Lost(lost)),
            Ok(()) => {}
        }
        // The spool keeps what could not be written.
        let memory = self.recording.get().memory();
        memory.set_state(if written.is_ok() { SpoolState::Complete } else { SpoolState::Ended });
        if written.is_ok() {
            if let Some(spool) = &mut self.spool {
                spool.remove();
            }
            // Behind the spool: one that stays must not want them.
            self.remove_spill_file();
        }
    }

    /// Lets ticks come again.
    pub(in crate::control) fn resume(&self) {
        let recording = self.recording.get();
        // First: killed from here on, the process has said nothing of its end.
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

    /// Ends the ticks and waits until no handler is inside; gives the number of those that did not come back.
    pub(in crate::control) fn end_recording(&mut self) -> u64 {
        let mut end = self.now();
        self.end = Some(end);
        if self.summary().is_short_of_time() {
            end.blocking = tasks::count_blocking(self.recording.get().signal);
            self.end = Some(end);
        }
        if thread_timers::has_unseen_threads() {
            diagnostics::report(self.path(), Diagnostic::FirstThreadAlone);
        }
        let timer = self.recording.get().clock.timer();
        self.had_no_timer = !tick_source::is_ticking(timer);
        // Where the kernel refuses it, the handler stays and does nothing.
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

    /// Reads the names of the busiest threads once more: they may have been named since their last looks. Asks for none in a
    /// program that may be ended for it.
    fn refresh_thread_names(&self) {
        if caller::are_forbidden() {
            return;
        }
        let recording = self.recording.get();
        for (_, identity) in recording.threads.busiest().threads {
            let Some(thread) = recording.threads.thread(identity) else { break };
            if let Some(name) = tasks::name_of(thread.id) {
                recording.name(identity, Thread { name, ..thread });
            }
        }
    }

    /// Writes the file and frees the memory, unless a handler may still be using it.
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
            // One that comes back must move nothing to a file that nobody would remove.
            core::mem::forget(self.recording.get().spiller.lock());
            self.recording.abandon();
        }
        ended
    }

    /// True where the spool is what is wanted, and holds the whole profile.
    fn is_spool_complete(&self) -> bool {
        self.keeps_spool
            && self.spool.as_ref().is_some_and(SessionSpool::is_there)
            && !self.recording.get().memory().is_truncated()
    }

    /// Leaves the spool as the profile, with what a kill would not have left in it.
    fn keep_spool(&mut self, summary: &Summary, state: SpoolState) {
        let memory = self.recording.get().memory();
        if let (Some(output), Some(kept)) = (&mut self.output, &mut self.lines) {
            // Code without a file, as that of a JIT compiler, is met by nobody, and has come since the start. Where the list
            // cannot be read or kept, that of the start stays.
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

    /// Removes the spool, unless it has what `is_unwritten`.
    fn close_spool(&mut self, summary: &Summary, is_unwritten: bool, stuck_handlers: u64) {
        // What could not be written may be recovered.
        if summary.samples == 0 || !is_unwritten {
            self.recording.get().memory().set_state(SpoolState::Complete);
            // Behind that word: a spool that stays must not want them.
            self.remove_spill_file();
            self.discard_spool(stuck_handlers == 0);
        } else {
            // Without a spool nothing would tell what the records mean.
            if !self.spool.as_ref().is_some_and(SessionSpool::is_there) {
                self.remove_spill_file();
            }
            self.recording.get().memory().set_state(SpoolState::Ended);
        }
    }

    /// Removes the file of moved records, if nobody is writing to it.
    fn remove_spill_file(&self) {
        if let Some(mut hold) = self.recording.get().spiller.lock() {
            hold.sink.remove();
        }
    }

    /// Removes the spool, of which nothing is needed any more; `is_unused` says that no handler uses its memory.
    pub(super) fn discard_spool(&mut self, is_unused: bool) {
        if let Some(spool) = self.spool.take() {
            spool.discard(self.recording.get().memory(), is_unused);
        }
    }
}

/// Waits until every slot has been seen free once, as far as [`Backoff`] goes; gives the number that never was.
pub(in crate::control) fn wait_for_handlers(engine: &Engine, mut backoff: Backoff) -> u64 {
    // They are inside for microseconds; one that is not back by then belongs to a thread that is stopped, or that left its filter
    // by a jump.
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
