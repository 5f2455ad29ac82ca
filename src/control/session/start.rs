//! The start of a session, also in a forked child.

use super::{
    Session, Started,
    end::wait_for_handlers,
    figures::{process_interrupted, timers_refused},
};
use crate::{
    config,
    control::{
        diagnostics::{self, Diagnostic},
        maps_text::KeptLines,
        output::{self, Naming, OpenOptions, Output, OutputDirectory},
        spool::{NO_DIRECTORY, NO_RECORDER, SessionSpool, SpoolLocation, SpoolRequest, is_without_recorder},
        start_options::{Destination, StartOptions},
        summary::SpoolUse,
        ticks,
    },
    error::Failure,
    sample::{
        engine::Engine,
        handler::LOST_WITHOUT_SLOT,
        recording::{self, OwnedRecording, RecordingOptions, TableMemory},
        sampled_dsos,
        table::Shape,
        thread_timers, weight,
    },
    sync::{AtomicU64, Ordering},
    sys::{clock, file::PathBuffer, memory::MappedBox, process, thread::Backoff},
};

impl Session {
    /// Starts a session. Requires the lock and the engine.
    ///
    /// # Errors
    /// Why no session was started. Nothing has changed then, but the handler may be installed.
    pub(in crate::control) fn start(options: &StartOptions<'_>) -> Result<Self, Failure> {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let system = |action| move |errno| Failure::System { action, errno };
        let engine = Engine::get().ok_or(Failure::System { action: "find the engine", errno: 0 })?;
        let signal = ticks::usable_signal(options);
        ticks::ensure_handler_possible(signal)?;
        let mut output = match options.destination {
            Destination::File(path) => {
                let tries = options.ancestors.is_empty() && !options.keeps_spool;
                let (naming, open_directory) = (options.naming, options.open_directory);
                Some(Output::open(path, OpenOptions { naming, open_directory, tries })?)
            }
            Destination::Memory => None,
        };
        let child_path = match options.child_path {
            // No file can be created beside a device or a pipe.
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
        // Half of the memory merges the records of threads when the file is written.
        let is_folded = options.by_thread && output.is_some() && !options.keeps_spool;
        let table_bytes = if is_folded { table_bytes / 2 } else { table_bytes };
        let fold_bytes = if is_folded { table_bytes } else { 0 };
        let (spool, spool_use, memory) = match &output {
            Some(output) => {
                let lines = lines.as_deref().map_or(&[][..], KeptLines::text);
                let shape = Shape::of(table_bytes, beside.is_some());
                let is_by_thread = options.by_thread;
                let request = SpoolRequest {
                    started: start_time,
                    period_micros,
                    is_by_thread,
                    ancestors: options.ancestors,
                    table_bytes,
                    shape,
                    lines,
                    is_collected: options.keeps_spool,
                };
                memory_for(options.spool, &request, output)
            }
            None => (None, SpoolUse::Off, TableMemory::anonymous(table_bytes, false)),
        };
        // Without its recorder no process needs the profile. A forked child with another root does
        // not find the directory by its path; its file is in the directory that its parent holds
        // open, so it continues.
        if let SpoolUse::Unavailable { action, errno } = spool_use {
            let is_for_recorder = options.keeps_spool && options.spool != SpoolLocation::Default;
            let sees_all = options.ancestors.is_empty()
                || options.open_directory.is_some_and(OutputDirectory::has_same_root);
            let is_missing = sees_all && (action, errno) == NO_DIRECTORY;
            if is_for_recorder && (is_missing || (action, errno) == NO_RECORDER) {
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
        let recorders_directory = match options.spool {
            SpoolLocation::Directory(path) if options.keeps_spool && spool.is_none() => path_box(path).ok(),
            _ => None,
        };
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
            recorders_directory,
            starts_at_random: options.starts_at_random,
            ancestors: options.ancestors,
            frequency: options.frequency,
            max_memory: options.max_memory,
            start_time,
            start_monotonic: clock::monotonic_nanos(),
            start_cpu: clock::process_cpu_nanos(),
            start_interrupted: process_interrupted(),
            end: None,
            refused_at_start: timers_refused(),
            without_event_at_start: thread_timers::without_event(),
            lost_without_slot_at_start: LOST_WITHOUT_SLOT.load(Ordering::Relaxed),
            had_no_timer: false,
        };
        // Since an earlier session, other objects may have been loaded at the same addresses.
        sampled_dsos::forget_seen();
        weight::begin(options.clock.timer(), period_micros);
        thread_timers::set_start(options.starts_at_random);
        session.recording.publish();
        if let Err(failure) = ticks::arm(clock, signal, period_micros) {
            recording::withdraw();
            let is_unused = wait_for_handlers(engine, Backoff::bounded()) == 0;
            session.discard_spool(is_unused);
            if !is_unused {
                session.recording.abandon();
            }
            return Err(failure);
        }
        if options.starts_at_random {
            // The process's timer would adopt it only after a period.
            thread_timers::adopt_caller();
        }
        Ok(session)
    }

    /// In a forked child: drops the parent's session, and starts the child's if it is wanted.
    ///
    /// # Errors
    /// Why the child is not profiled.
    pub(in crate::control) fn restart_in_child(mut self, process: u32) -> Result<Option<Self>, Failure> {
        let child = self.start_in_child(process);
        self.recording.forget_in_child();
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
            destination: Destination::File(path.as_bytes()),
            clock: recording.clock,
            signal: Some(recording.signal),
            frequency: self.frequency,
            max_depth: recording.max_depth,
            by_thread: recording.is_by_thread,
            filter: recording.filter,
            excluded: recording.excluded(),
            naming: Naming::Numbered,
            open_directory: self.output.as_ref().and_then(Output::place),
            child_path: base,
            ancestors: self.ancestors.of_child(recording.process),
            spool: match (&self.spool, &self.recorders_directory) {
                (Some(spool), _) => spool.place(),
                (None, Some(directory)) => SpoolLocation::Directory(directory.as_bytes()),
                (None, None) => SpoolLocation::Off,
            },
            keeps_spool: self.keeps_spool,
            starts_at_random: self.starts_at_random,
            max_memory: self.max_memory,
            lines: self.lines.as_deref(),
        };
        // No caller checks the result. That the recorder is gone needs no diagnostic.
        let report = |&failure: &Failure| {
            if !is_without_recorder(failure) {
                diagnostics::report(path.as_bytes(), Diagnostic::NoProfile { failure, spool: None });
            }
        };
        Self::start(&options).inspect_err(report).map(Some)
    }
}

/// Reserved memory counts against `RLIMIT_AS`, of which most is left to the application.
fn table_bytes(max_memory: usize) -> usize {
    const SHARE: usize = 64;
    let wanted = config::table_bytes(max_memory);
    process::address_space_limit().map_or(wanted, |limit| wanted.min(limit / SHARE))
}

fn memory_for(
    place: SpoolLocation<'_>,
    request: &SpoolRequest<'_>,
    output: &Output,
) -> (Option<SessionSpool>, SpoolUse, Result<TableMemory, i32>) {
    let anonymous =
        |spool_use| (None, spool_use, TableMemory::anonymous(request.table_bytes, request.shape.is_halved));
    if place == SpoolLocation::Off {
        return anonymous(SpoolUse::Off);
    }
    match SessionSpool::make(place, request, output) {
        Ok((memory, spool)) => (Some(spool), SpoolUse::Complete, TableMemory::new(memory, request.shape)),
        Err((action, errno)) => anonymous(SpoolUse::Unavailable { action, errno }),
    }
}

fn path_box(path: &[u8]) -> Result<MappedBox<PathBuffer>, Failure> {
    let mut copy = MappedBox::<PathBuffer>::zeroed()
        .map_err(|errno| Failure::System { action: "map memory for the path", errno })?;
    output::absolute(path, &mut copy)?;
    Ok(copy)
}
