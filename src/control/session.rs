//! One session, from start to summary.

use super::{
    maps_text::KeptLines,
    notices::{self, Notice},
    output::{self, Contents, Naming, Opening, Output, Place},
    spool::{NO_DIRECTORY, Spool, SpoolFor, SpoolPlace},
    summary::{Ended, Facts, SpoolUse, Summary},
    ticks,
};
use crate::{
    config::{self, Clock, Filter},
    error::Failure,
    format::spool::State,
    sample::{
        counters::Counter,
        engine::Engine,
        handler::LOST_WITHOUT_SLOT,
        identities,
        met_objects::{self, MetObject},
        recording::{self, OwnedRecording, Recording, RecordingOptions, TableMemory},
        stamps,
        table::Shape,
        thread_timers,
        tick_source::{self, Stopped},
        weight,
    },
    sync::{AtomicU64, Ordering},
    sys::{clock, errno, file::PathBuffer, memory::MappedBox, process, signal, tasks, thread},
    thread::{SampledThreads, Thread, ThreadUse},
};
use core::time::Duration;

/// Nanoseconds that a stop waits for handlers to leave. They are inside for microseconds; one that is not back by
/// then belongs to a thread that is stopped, or that left its filter by a jump.
const PATIENCE: u64 = 2_000_000_000;

/// What a session is started with.
#[derive(Clone, Copy)]
pub(crate) struct StartOptions<'a> {
    pub(crate) sink: Sink<'a>,
    pub(crate) clock: Clock,
    /// Of the ticks, where it is not the clock's own.
    pub(crate) signal: Option<i32>,
    /// Ticks per second.
    pub(crate) frequency: u32,
    pub(crate) max_depth: usize,
    /// Whose a sample is is part of it.
    pub(crate) by_thread: bool,
    pub(crate) filter: Option<Filter>,
    /// Address ranges that are not recorded.
    pub(crate) excluded: &'a [(usize, usize)],
    /// What becomes of a file that has the name already.
    pub(crate) naming: Naming,
    /// A directory that is open already: the file's, if that is what the path asks for.
    pub(crate) near: Option<&'a Place>,
    /// A forked child goes on in this file, with `_` and its process id added.
    pub(crate) child_path: Option<&'a [u8]>,
    /// This is such a child: most end without a tick, so nothing is tried beforehand, and no empty file written.
    pub(crate) is_child: bool,
    /// Where the spool of a file's session is kept.
    pub(crate) spool: SpoolPlace<'a>,
    /// The profile is left in the spool, where there is one that holds all of it, and no file is written.
    pub(crate) keeps_spool: bool,
    /// Bytes of memory that the session may take.
    pub(crate) max_memory: usize,
    /// The mapped objects of a parent, for a child that may not see its own.
    pub(crate) lines: Option<&'a KeptLines>,
}

/// Where a profile goes.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'a> {
    File(&'a [u8]),
    Memory,
}

impl<'a> Sink<'a> {
    /// Empty for memory.
    pub(super) fn path(self) -> &'a [u8] {
        if let Self::File(path) = self { path } else { &[] }
    }
}

/// Names a session among all of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started(u64);

/// See the module.
pub(crate) struct Session {
    name: Started,
    recording: OwnedRecording,
    output: Option<Output>,
    child_path: Option<MappedBox<PathBuffer>>,
    /// None for a session in memory.
    lines: Option<MappedBox<KeptLines>>,
    /// None without a spool, and since a call of `exec` that failed.
    spool: Option<Spool>,
    spool_use: SpoolUse,
    keeps_spool: bool,
    /// A forked child writes no file when it had no ticks.
    skips_empty_file: bool,
    frequency: u32,
    max_memory: usize,
    /// Seconds since 1970.
    start_time: i64,
    start_monotonic: u64,
    start_cpu: u64,
    /// What it was at when its ticks ended: what ending takes is no time of the session's.
    end: Option<End>,
    /// How often a thread could not have a timer, before.
    refused_at_start: u64,
    lost_without_slot_at_start: u64,
    /// No timer was ticking when it ended.
    had_no_timer: bool,
}

/// How far a session has come, in nanoseconds.
#[derive(Clone, Copy)]
struct End {
    monotonic: u64,
    cpu: u64,
    /// Time of its clock that no tick stands for.
    uncharged: u64,
    /// Threads that block the signal, if that was looked for.
    blocking: u32,
}

fn timers_refused() -> u64 {
    Engine::get().map_or(0, |engine| engine.threads().refused())
}

impl Session {
    /// Starts a session. The lock is held, the engine made.
    ///
    /// # Errors
    /// Why none was started; nothing has changed then.
    pub(super) fn start(options: &StartOptions<'_>) -> Result<Self, Failure> {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let system = |action| move |errno| Failure::System { action, errno };
        let engine = Engine::get().ok_or(Failure::System { action: "find the engine", errno: 0 })?;
        let signal = ticks::usable_signal(options);
        ticks::ensure_handler_possible(signal)?;
        let mut output = match options.sink {
            Sink::File(path) => {
                // A file that hardly ever is written need not be tried.
                let tries = !options.is_child && !options.keeps_spool;
                let (naming, near) = (options.naming, options.near);
                Some(Output::open(path, Opening { naming, near, tries })?)
            }
            Sink::Memory => None,
        };
        let child_path = match options.child_path {
            // Nothing can be written beside a device or a pipe.
            Some(path) if !output::is_special(path) => Some(path_box(path)?),
            _ => None,
        };
        let clock = ticks::usable_clock(options, signal);
        let period_micros = config::period_micros(options.frequency);
        let start_time = clock::seconds_since_epoch();
        let lines = match &mut output {
            Some(output) => Some(
                KeptLines::read(output.lines(), options.lines)
                    .map_err(system("map memory for the list of mapped objects"))?,
            ),
            None => None,
        };
        let beside = output.as_ref().and_then(Output::beside);
        let table_bytes = table_bytes(options.max_memory);
        // The other half is for the records without their threads, when the file is written.
        let is_folded = options.by_thread && output.is_some() && !options.keeps_spool;
        let table_bytes = if is_folded { table_bytes / 2 } else { table_bytes };
        let fold_bytes = if is_folded { table_bytes } else { 0 };
        let (spool, spool_use, memory) = match &output {
            Some(output) => {
                let lines = lines.as_deref().map_or(&[][..], KeptLines::text);
                let shape = Shape::of(table_bytes, beside.is_some());
                let is_by_thread = options.by_thread;
                let purpose = SpoolFor {
                    started: start_time,
                    period_micros,
                    is_by_thread,
                    table_bytes,
                    shape,
                    lines,
                    is_collected: options.keeps_spool,
                };
                memory_for(options.spool, &purpose, output)
            }
            None => (None, SpoolUse::Off, TableMemory::anonymous(table_bytes, false)),
        };
        // The recorder is gone, and nobody else wants the profile. A forked child has a parent that is recorded, so it only
        // cannot see the directory (`chroot`); the file that it writes in the place opened by its parent is collected.
        if let SpoolUse::Unavailable { action, errno } = spool_use {
            let is_recorders = options.keeps_spool && options.spool != SpoolPlace::Default;
            if is_recorders && !options.is_child && (action, errno) == NO_DIRECTORY {
                return Err(Failure::System { action, errno });
            }
        }
        let recording = memory.and_then(|memory| {
            OwnedRecording::new(
                engine,
                memory,
                RecordingOptions {
                    clock,
                    signal,
                    period_micros,
                    filter: options.filter,
                    max_depth: options.max_depth,
                    is_by_thread: options.by_thread,
                    fold_bytes,
                    excluded: options.excluded,
                    beside,
                },
            )
        });
        let started = recording
            .map_err(system("map memory for the table"))
            .and_then(|recording| ticks::install_handler(signal).map(|()| recording));
        let recording = match started {
            Ok(recording) => recording,
            Err(failure) => {
                if let Some(mut spool) = spool {
                    spool.remove();
                }
                return Err(failure);
            }
        };
        let mut session = Self {
            name: Started(SESSIONS.fetch_add(1, Ordering::Relaxed) + 1),
            recording,
            output,
            child_path,
            lines,
            spool,
            spool_use,
            keeps_spool: options.keeps_spool,
            skips_empty_file: options.is_child,
            frequency: options.frequency,
            max_memory: options.max_memory,
            start_time,
            start_monotonic: clock::monotonic(),
            start_cpu: clock::process_cpu(),
            end: None,
            refused_at_start: timers_refused(),
            lost_without_slot_at_start: LOST_WITHOUT_SLOT.load(Ordering::Relaxed),
            had_no_timer: false,
        };
        // Since an earlier session others may have come to the addresses of objects seen then.
        met_objects::forget_seen();
        weight::begin(options.clock.timer(), period_micros);
        session.recording.publish();
        if let Err(failure) = ticks::arm(clock, signal, period_micros) {
            recording::withdraw();
            let is_unused = wait_for_handlers(engine) == 0;
            session.discard_spool(is_unused);
            if !is_unused {
                session.recording.abandon();
            }
            return Err(failure);
        }
        Ok(session)
    }

    pub(crate) fn started(&self) -> Started {
        self.name
    }

    /// Seconds since 1970.
    pub(crate) fn start_time(&self) -> i64 {
        self.start_time
    }

    /// The path as the user gave it; empty for a session in memory.
    pub(crate) fn path(&self) -> &[u8] {
        self.output.as_ref().map_or(&[], |output| output.given().as_bytes())
    }

    pub(crate) fn recording(&self) -> &Recording {
        self.recording.get()
    }

    /// The process that started it.
    pub(crate) fn process(&self) -> u32 {
        self.recording.get().process
    }

    /// The figures so far.
    pub(crate) fn summary(&self) -> Summary {
        self.summary_with(0)
    }

    fn now(&self) -> End {
        let (monotonic, cpu) = (clock::monotonic(), clock::process_cpu());
        let uncharged = thread_timers::untold_of_all().unwrap_or_else(|| weight::uncharged(cpu));
        End { monotonic, cpu, uncharged, blocking: 0 }
    }

    /// Sum of the counts so far, as in the summary, which asks for more.
    pub(crate) fn samples(&self) -> u64 {
        let totals = Engine::get().map(|engine| engine.scratch().totals()).unwrap_or_default();
        let samples = totals.since(&self.recording.get().totals_at_start).get(Counter::Samples);
        samples.saturating_sub(self.moved().1)
    }

    /// Periods whose records are in a file, and as many if that is gone.
    fn moved(&self) -> (u64, u64) {
        let hold = self.recording.get().drain.hold();
        match hold.map(|mut hold| (hold.periods, hold.sink.is_there())) {
            Some((periods, false)) => (periods, periods),
            Some((periods, true)) => (periods, 0),
            None => (0, 0),
        }
    }

    fn summary_with(&self, stuck_handlers: u64) -> Summary {
        let recording = self.recording.get();
        let totals = Engine::get().map(|engine| engine.scratch().totals()).unwrap_or_default();
        let signal = recording.signal;
        let end = self.end.unwrap_or_else(|| self.now());
        let (moved, moved_lost) = self.moved();
        Facts {
            clock: thread_timers::present(recording.clock),
            totals: totals.since(&recording.totals_at_start),
            period_micros: recording.period_micros,
            elapsed_nanos: end.monotonic.saturating_sub(self.start_monotonic),
            cpu_nanos: end.cpu.saturating_sub(self.start_cpu),
            uncharged_nanos: end.uncharged,
            blocking_threads: end.blocking,
            timers_refused: timers_refused().wrapping_sub(self.refused_at_start),
            lost_without_slot: LOST_WITHOUT_SLOT
                .load(Ordering::Relaxed)
                .wrapping_sub(self.lost_without_slot_at_start),
            stuck_handlers,
            threads: sampled_threads(recording),
            moved,
            moved_lost,
            not_moved: recording.drain.failure(),
            handler_replaced: signal::action(signal).is_ok_and(|action| !ticks::is_ours(&action)),
            timer_refused: self.had_no_timer,
            spool: match &self.spool {
                Some(spool) if !spool.is_there() => SpoolUse::Removed,
                Some(_) if recording.memory().is_cut() => SpoolUse::Cut,
                _ => self.spool_use,
            },
        }
        .summary()
    }

    /// Writes the file, complete; gives the bytes of its binary part, 0 where there is no file.
    ///
    /// # Errors
    /// Why it could not be written.
    pub(super) fn write_file(&mut self, met: &[MetObject]) -> Result<u64, Failure> {
        let Some(output) = &mut self.output else { return Ok(0) };
        let kept = self.lines.as_deref().map_or(&[][..], KeptLines::text);
        let recording = self.recording.get();
        let mut hold = recording
            .drain
            .hold()
            .ok_or(Failure::System { action: "wait for records that are being moved", errno: errno::BUSY })?;
        let written = output.write(Contents { recording, moved: &mut hold.sink, met, kept })?;
        drop(hold);
        // So that a recovery can tell this file from one that another program has written since.
        if let Some(stamp) = output.stamp() {
            self.recording.get().memory().note_written(stamp);
        }
        if let Err(errno) = written.list {
            let failure = Failure::System { action: "read /proc/self/maps", errno };
            notices::tell(self.path(), Notice::NoList(failure));
        }
        Ok(written.bytes)
    }

    /// Writes the file of a session that goes on. One whose spool is collected needs none: of both, each sample would count
    /// twice.
    ///
    /// # Errors
    /// Why it could not be written.
    pub(super) fn flush(&mut self, met: &[MetObject]) -> Result<(), Failure> {
        if self.keeps_spool && self.spool.as_ref().is_some_and(Spool::is_there) {
            return Ok(());
        }
        self.write_file(met).map(|_| ())
    }

    /// Removes the file of moved records, if nobody is writing to it.
    fn remove_moved(&self) {
        if let Some(mut hold) = self.recording.get().drain.hold() {
            hold.sink.remove();
        }
    }

    /// Removes the spool, of which nothing is needed any more; `is_unused` says that no handler uses its memory.
    fn discard_spool(&mut self, is_unused: bool) {
        if let Some(spool) = self.spool.take() {
            spool.discard(self.recording.get().memory(), is_unused);
        }
    }

    /// Ends the ticks for a while. All signals are blocked, so a tick that is pending stays so, and is taken back here.
    /// That is all for a call of exec that `is_in_vain`; for any other the file is written, and the spool removed.
    pub(super) fn suspend(&mut self, is_in_vain: bool, met: &[MetObject]) {
        let timer = self.recording.get().clock.timer();
        ticks::stop_for_next_program(timer, self.path());
        tick_source::take_back(timer);
        if is_in_vain {
            return;
        }
        let summary = self.summary();
        let lost = summary.losses.periods();
        if self.has_all_in_spool() {
            return self.leave_spool(&summary, State::Replaced);
        }
        let written = if summary.samples > 0 || lost > 0 { self.write_file(met).map(|_| ()) } else { Ok(()) };
        // No end line will be written, so only what went wrong is told.
        match written {
            Err(failure) => {
                let spool = self.spool.as_ref().filter(|spool| spool.is_there()).map(Spool::path);
                notices::tell(self.path(), Notice::NoProfile { failure, spool });
            }
            Ok(()) if lost > 0 => notices::tell(self.path(), Notice::Lost(lost)),
            Ok(()) => {}
        }
        // The spool keeps what could not be written.
        let memory = self.recording.get().memory();
        memory.set_state(if written.is_ok() { State::Complete } else { State::Ended });
        if written.is_ok() {
            if let Some(spool) = &mut self.spool {
                spool.remove();
            }
            // Behind the spool: one that stays must not want them.
            self.remove_moved();
        }
    }

    /// Lets ticks come again.
    pub(super) fn resume(&self) {
        let recording = self.recording.get();
        // First: killed from here on, the process has said nothing of its end.
        if self.keeps_spool {
            recording.memory().clear_end();
        }
        recording.memory().set_state(State::Running);
        ticks::handle_again(recording.signal);
        if let Err(failure) = ticks::arm(recording.clock, recording.signal, recording.period_micros) {
            notices::tell(self.path(), Notice::NoTicks(failure));
        }
    }

    /// Ends the ticks and waits until no handler is inside; gives the number of those that did not come back.
    pub(super) fn end_recording(&mut self) -> u64 {
        let mut end = self.now();
        self.end = Some(end);
        if self.summary().is_short_of_time() {
            end.blocking = tasks::blocking(self.recording.get().signal);
            self.end = Some(end);
        }
        if thread_timers::misses_threads() {
            notices::tell(self.path(), Notice::FirstThreadAlone);
        }
        let timer = self.recording.get().clock.timer();
        self.had_no_timer = !tick_source::is_ticking(timer);
        // Where the kernel refuses it, the handler stays and does nothing.
        if tick_source::stop(timer) == Ok(Stopped::TakenByHost) {
            notices::tell(self.path(), Notice::TimerTaken);
        }
        recording::withdraw();
        let stuck_handlers = Engine::get().map_or(0, wait_for_handlers);
        if stuck_handlers == 0 {
            thread_timers::close_list();
        }
        self.look_at_names();
        stuck_handlers
    }

    /// Reads the names of the busiest threads once more: they may have been named since their last looks. Asks for none in a
    /// program that may be ended for it.
    fn look_at_names(&self) {
        if identities::are_forbidden() {
            return;
        }
        let recording = self.recording.get();
        for (_, identity) in recording.identities.busiest().threads {
            let Some(thread) = recording.identities.thread(identity) else { break };
            if let Some(name) = tasks::name_of(thread.id) {
                recording.name(identity, Thread { name, ..thread });
            }
        }
    }

    /// Writes the file and frees the memory, unless a handler may still be using it.
    pub(super) fn finish(mut self, met: &[MetObject], stuck_handlers: u64) -> Ended {
        let summary = self.summary_with(stuck_handlers);
        let is_skipped = self.skips_empty_file && summary.samples == 0 && summary.losses.periods() == 0;
        let is_left = !is_skipped && self.has_all_in_spool();
        let file = (self.output.is_some() && !is_skipped && !is_left).then(|| self.write_file(met));
        stamps::write_out();
        if is_left {
            self.leave_spool(&summary, State::Ended);
        } else {
            self.put_spool_away(&summary, file.is_some_and(|file| file.is_err()), stuck_handlers);
        }
        let ended = Ended { summary, file, output: self.output, spool: self.spool };
        if stuck_handlers > 0 {
            // One that comes back must move nothing to a file that nobody would remove.
            core::mem::forget(self.recording.get().drain.hold());
            self.recording.abandon();
        }
        ended
    }

    /// True where the spool is what is wanted, and holds the whole profile.
    fn has_all_in_spool(&self) -> bool {
        self.keeps_spool
            && self.spool.as_ref().is_some_and(Spool::is_there)
            && !self.recording.get().memory().is_cut()
    }

    /// Leaves the spool as the profile, with what a kill would not have left in it.
    fn leave_spool(&mut self, summary: &Summary, state: State) {
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
    fn put_spool_away(&mut self, summary: &Summary, is_unwritten: bool, stuck_handlers: u64) {
        // What could not be written may be recovered.
        if summary.samples == 0 || !is_unwritten {
            self.recording.get().memory().set_state(State::Complete);
            // Behind that word: a spool that stays must not want them.
            self.remove_moved();
            self.discard_spool(stuck_handlers == 0);
        } else {
            // Without a spool nothing would tell what the records mean.
            if !self.spool.as_ref().is_some_and(Spool::is_there) {
                self.remove_moved();
            }
            self.recording.get().memory().set_state(State::Ended);
        }
    }

    /// In a forked child: drops the parent's session, and starts the child's own where one is wanted.
    ///
    /// # Errors
    /// Why the child goes on unprofiled.
    pub(super) fn restart_in_child(mut self, process: u32) -> Result<Option<Self>, Failure> {
        let child = self.start_in_child(process);
        self.recording.leave_to_parent();
        child
    }

    fn start_in_child(&mut self, process: u32) -> Result<Option<Self>, Failure> {
        let recording = self.recording.get();
        let Some(path) = &mut self.child_path else { return Ok(None) };
        let fails = |errno| Failure::Output { action: "take the path", errno };
        let base_length = path.as_bytes().len();
        path.push(b"_").and_then(|()| path.push_decimal(u64::from(process))).map_err(fails)?;
        let base = path.as_bytes().get(..base_length);
        let options = StartOptions {
            sink: Sink::File(path.as_bytes()),
            clock: recording.clock,
            signal: Some(recording.signal),
            frequency: self.frequency,
            max_depth: recording.max_depth,
            by_thread: recording.is_by_thread,
            filter: recording.filter,
            excluded: recording.excluded(),
            naming: Naming::Numbered,
            near: self.output.as_ref().and_then(Output::place),
            child_path: base,
            is_child: true,
            spool: self.spool.as_ref().map_or(SpoolPlace::Off, Spool::place),
            keeps_spool: self.keeps_spool,
            max_memory: self.max_memory,
            lines: self.lines.as_deref(),
        };
        // Nobody waits for what comes of it.
        let told = |&failure: &Failure| {
            notices::tell(path.as_bytes(), Notice::NoProfile { failure, spool: None });
        };
        Self::start(&options).inspect_err(told).map(Some)
    }
}

/// The threads that have samples. Signal-safe: clocks, and atomics.
fn sampled_threads(recording: &Recording) -> SampledThreads {
    let busiest = recording.identities.busiest();
    let mut threads = SampledThreads {
        count: busiest.count,
        others: recording.identities.others(),
        ..SampledThreads::default()
    };
    for (place, (samples, identity)) in threads.busiest.iter_mut().zip(busiest.threads) {
        if let Some(thread) = recording.identities.thread(identity) {
            let cpu = clock::cpu_of_thread(thread.id).map(Duration::from_nanos);
            *place = ThreadUse { thread, samples, cpu };
        }
    }
    threads
}

/// Bytes that the table may grow to: what is reserved counts against a limit of the address space, of which the
/// program is left nearly all.
fn table_bytes(max_memory: usize) -> usize {
    const SHARE: usize = 64;
    let wanted = config::table_bytes(max_memory);
    process::address_space_limit().map_or(wanted, |limit| wanted.min(limit / SHARE))
}

/// The memory of a file's session: a spool's, where one can be had.
fn memory_for(
    place: SpoolPlace<'_>,
    purpose: &SpoolFor<'_>,
    output: &Output,
) -> (Option<Spool>, SpoolUse, Result<TableMemory, i32>) {
    let anonymous =
        |spool_use| (None, spool_use, TableMemory::anonymous(purpose.table_bytes, purpose.shape.is_halved));
    if place == SpoolPlace::Off {
        return anonymous(SpoolUse::Off);
    }
    match Spool::make(place, purpose, output) {
        Ok((memory, spool)) => (Some(spool), SpoolUse::Whole, TableMemory::new(memory, purpose.shape)),
        Err((action, errno)) => anonymous(SpoolUse::Unavailable { action, errno }),
    }
}

/// Waits until every slot has been seen free once, for at most [`PATIENCE`]; gives the number that never was.
pub(super) fn wait_for_handlers(engine: &Engine) -> u64 {
    let start = clock::monotonic();
    let scratch = engine.scratch();
    let stuck = (0..scratch.count()).filter(|&slot| {
        while !scratch.is_free(slot) {
            if clock::monotonic().saturating_sub(start) > PATIENCE {
                return true;
            }
            thread::pause();
        }
        false
    });
    stuck.count() as u64
}

fn path_box(path: &[u8]) -> Result<MappedBox<PathBuffer>, Failure> {
    let mut copy = MappedBox::<PathBuffer>::zeroed()
        .map_err(|errno| Failure::System { action: "map memory for the path", errno })?;
    // The program may change its directory before it forks.
    output::absolute(path, &mut copy)?;
    Ok(copy)
}
