//! Sessions of the C interface and of the environment: they start, are looked at, and stop.
//!
//! # Safety
//! Takes the user's filter, for which the user vouches.
#![allow(unsafe_code)]

use crate::{
    config::{Clock, Filter, SpoolChoice},
    control::{
        self, Destination, DiagnosticSink, Ended, Naming, NoSamples, SessionSelector, SpoolLocation,
        SpoolUse, StartOptions, Summary,
    },
    error::Failure,
    sample::{handler::LIVE_TICKS, unwind::objects},
    sys::errno,
};
use core::ffi::{CStr, c_int, c_void};

/// Sessions of the C interface and of the environment.
#[derive(Clone, Copy)]
pub struct FileOptions<'a> {
    /// Where the profile goes.
    pub path: &'a [u8],
    /// A file of this name that the process itself has written is kept: the next free of NAME.2, NAME.3 and so on is
    /// taken. For names that nobody chose for this very session.
    pub is_numbered: bool,
    /// What a forked child's path begins with; None leaves children unprofiled.
    pub child_path: Option<&'a [u8]>,
    /// SessionSelector time is sampled.
    pub clock: Clock,
    /// The signal of ticks, where it is not the clock's own.
    pub timer_signal: Option<i32>,
    /// Ticks per second.
    pub frequency: u32,
    /// Frames.
    pub max_depth: usize,
    /// TimerOwner a sample is is part of it.
    pub by_thread: bool,
    /// `filter_in_thread` and its argument.
    pub filter: Option<(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void)>,
    /// Where the spool goes.
    pub spool: &'a SpoolChoice,
    /// The profile is left in the spool, where there is one that holds all of it, and no file is written.
    pub keeps_spool: bool,
    /// The calling thread has a timer of its own from the start, whose first tick comes at a random place in the first period.
    pub starts_at_random: bool,
    /// Bytes of memory that the profiler may take.
    pub max_memory: usize,
}

/// Makes what later calls must not allocate. `set_dlclose_interposed` says that the library was loaded with the program
/// and that its `dlclose` is the one that the program calls.
///
/// # Errors
/// What the system refused.
pub fn prepare(set_dlclose_interposed: bool) -> Result<(), Failure> {
    if set_dlclose_interposed {
        objects::set_dlclose_interposed();
    }
    control::prepare()
}

/// Has `sink` told what goes wrong where no call could return it. Not for signal context.
pub fn set_diagnostic_sink(sink: DiagnosticSink) {
    control::set_diagnostic_sink(sink);
}

/// Starts a session into a file.
///
/// # Errors
/// Why none was started.
///
/// # Safety
/// * A filter is async-signal-safe, and its argument valid until the session has stopped.
pub unsafe fn start(options: &FileOptions<'_>) -> Result<(), Failure> {
    control::start(&StartOptions {
        sink: Destination::File(options.path),
        clock: options.clock,
        signal: options.timer_signal,
        frequency: options.frequency,
        max_depth: options.max_depth,
        by_thread: options.by_thread,
        filter: options.filter.map(|(function, argument)| Filter::C(function, argument)),
        excluded: &[],
        naming: if options.is_numbered { Naming::Numbered } else { Naming::Exact },
        near: None,
        child_path: options.child_path,
        ancestors: Default::default(),
        spool: SpoolLocation::of(options.spool),
        keeps_spool: options.keeps_spool,
        starts_at_random: options.starts_at_random,
        max_memory: options.max_memory,
        lines: None,
    })
    .map(|_| ())
}

/// The file in a recorder's directory of spools that it keeps locked, by `flock(2)` and alone, as long as it collects them.
/// Programs that find it without a lock record nothing.
pub const RECORDERS_FILE: &CStr = control::RECORDERS_FILE;

/// True of a start that failed since the recorder has ended, or its directory of spools is not there any more.
pub fn is_without_recorder(failure: Failure) -> bool {
    control::is_without_recorder(failure)
}

/// True where `path` leads to a device or a pipe, beside which nothing can be written.
pub fn is_special(path: &[u8]) -> bool {
    control::is_special(path)
}

/// A session that is over.
pub struct StoppedSession<'e>(&'e Ended);

impl StoppedSession<'_> {
    /// Sum of the counts.
    pub fn samples(&self) -> u64 {
        self.0.summary.samples
    }

    /// All figures of the session.
    pub fn summary(&self) -> &Summary {
        &self.0.summary
    }

    /// Bytes of the file's binary part, or why there is no file.
    ///
    /// # Errors
    /// That reason.
    pub fn file_bytes(&self) -> Result<u64, Failure> {
        self.0.file.unwrap_or(Ok(0))
    }

    /// The path as it was given.
    pub fn path(&self) -> &[u8] {
        self.0.path()
    }

    /// Why there are no samples, if so.
    pub fn no_samples(&self) -> Option<NoSamples> {
        self.0.summary.no_samples
    }

    /// False for a child that had nothing to write.
    pub fn has_file(&self) -> bool {
        self.0.file.is_some()
    }

    /// Why records that had filled the memory could not be moved to a file, in words.
    pub fn spill_failure(&self) -> Option<&'static str> {
        self.0.summary.spill_failure.map(errno::description)
    }

    /// The path of the spool that holds what could not be written.
    pub fn spool_path(&self) -> Option<&[u8]> {
        self.0.spool_path()
    }

    /// True where a recorder takes the profile from its spool, or knows that there is none.
    pub fn is_collected(&self) -> bool {
        self.0.keeps_spool
    }

    /// Periods that were lost.
    pub fn lost(&self) -> u64 {
        self.0.summary.losses.periods()
    }
}

/// Stops the running session, if this process has one, and shows it to `report`.
pub fn stop(report: impl FnOnce(StoppedSession<'_>)) {
    if let Ok((ended, ())) = control::stop(SessionSelector::Any, |_, _| ()) {
        report(StoppedSession(&ended));
    }
}

/// The process is about to end, and nothing more of it will run: stops its session, if it has one, and shows it to
/// `report`. Waits for nobody for longer than two seconds (`sys::thread::Backoff` says which). Signal-safe, on a stack of any size, if `report` is.
pub fn finish_before_exit(report: impl FnOnce(StoppedSession<'_>)) {
    control::finish_before_exit(|ended| report(StoppedSession(ended)));
}

/// Writes the profile so far.
///
/// # Errors
/// Why it could not be written; and [`Failure::NotRunning`].
pub fn flush() -> Result<(), Failure> {
    control::flush(SessionSelector::Any)
}

/// Makes `signal` switch profiling on and off, in files named `PATH.0`, `PATH.1`, and so on.
///
/// # Errors
/// Why it cannot.
pub fn enable_toggle(
    signal: i32,
    options: &FileOptions<'_>,
    ended: fn(StoppedSession<'_>),
    failed: fn(&[u8], Failure),
) -> Result<(), Failure> {
    control::enable_toggle(
        signal,
        control::ToggleOptions {
            path: options.path.to_vec(),
            clock: options.clock,
            signal: options.timer_signal,
            frequency: options.frequency,
            max_depth: options.max_depth,
            by_thread: options.by_thread,
            spool: options.spool.clone(),
            max_memory: options.max_memory,
            ended: Box::new(move |report: &Ended| ended(StoppedSession(report))),
            failed,
        },
    )
}

/// A running session, as `ProfilerGetCurrentState` shows it.
pub struct SessionState<'s> {
    /// Seconds since 1970.
    pub start_time: i64,
    /// As it was given.
    pub path: &'s [u8],
    /// Sum of the counts.
    pub samples: u64,
}

/// Calls `f` with the state of the running session, if there is one.
pub fn with_state<R>(f: impl FnOnce(Option<SessionState<'_>>) -> R) -> R {
    control::with_session(SessionSelector::Any, |session, _| {
        f(session.map(|session| SessionState {
            start_time: session.start_time(),
            path: session.path(),
            samples: session.samples(),
        }))
    })
}

/// What failed, and why, when the running session's spool was to be made; None where it has one.
pub fn spool_refusal() -> Option<(&'static str, &'static str)> {
    control::with_session(SessionSelector::Any, |session, _| match session?.summary().spool {
        SpoolUse::Unavailable { action, errno } => Some((action, errno::description(errno))),
        _ => None,
    })
}

/// Where the number of ticks recorded since the process began can be watched; it wraps.
pub fn live_ticks() -> *const i32 {
    LIVE_TICKS.as_ptr()
}
