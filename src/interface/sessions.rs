//! Sessions of the C interface and of the environment.
//!
//! # Safety
//! Calls the user's filter under the precondition of [`start`].
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

#[derive(Clone, Copy)]
pub struct FileOptions<'a> {
    pub path: &'a [u8],
    /// Keep a file that the process wrote, and use the first free of NAME.2, NAME.3 and so on.
    pub is_numbered: bool,
    /// The start of a forked child's path, if children are profiled.
    pub child_path: Option<&'a [u8]>,
    pub clock: Clock,
    /// The profiling signal, if it is not the clock's own.
    pub timer_signal: Option<i32>,
    /// In Hz.
    pub frequency: u32,
    pub max_depth: usize,
    /// Keep samples of different threads apart.
    pub by_thread: bool,
    pub filter: Option<(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void)>,
    pub spool: &'a SpoolChoice,
    /// Write no file if the spool has the complete profile.
    pub keeps_spool: bool,
    /// Adopt the calling thread, with its first tick at a random time in the first period.
    pub starts_at_random: bool,
    /// In bytes.
    pub max_memory: usize,
}

/// Allocates what later calls need. `set_dlclose_interposed`: the program calls our `dlclose`.
///
/// # Errors
/// The failed system call.
pub fn prepare(set_dlclose_interposed: bool) -> Result<(), Failure> {
    if set_dlclose_interposed {
        objects::set_dlclose_interposed();
    }
    control::prepare()
}

/// Not for signal context.
pub fn set_diagnostic_sink(sink: DiagnosticSink) {
    control::set_diagnostic_sink(sink);
}

/// Starts a session.
///
/// # Errors
/// Why it was not started.
///
/// # Safety
/// * A filter is async-signal-safe, and its argument valid until the session has stopped.
pub unsafe fn start(options: &FileOptions<'_>) -> Result<(), Failure> {
    control::start(&StartOptions {
        destination: Destination::File(options.path),
        clock: options.clock,
        signal: options.timer_signal,
        frequency: options.frequency,
        max_depth: options.max_depth,
        by_thread: options.by_thread,
        filter: options.filter.map(|(function, argument)| Filter::C(function, argument)),
        excluded: &[],
        naming: if options.is_numbered { Naming::Numbered } else { Naming::Exact },
        open_directory: None,
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

/// The file in a recorder's directory that it locks exclusively by `flock(2)` while it collects
/// spools. Programs that find it unlocked record nothing.
pub const RECORDERS_FILE: &CStr = control::RECORDERS_FILE;

/// Whether a start failed because the recorder has exited or its directory is removed.
pub fn is_without_recorder(failure: Failure) -> bool {
    control::is_without_recorder(failure)
}

/// Whether `path` leads to a device or a pipe, beside which there are no files.
pub fn is_special(path: &[u8]) -> bool {
    control::is_special(path)
}

pub struct StoppedSession<'e>(&'e Ended);

impl StoppedSession<'_> {
    /// Sum of the weights.
    pub fn samples(&self) -> u64 {
        self.0.summary.samples
    }

    pub fn summary(&self) -> &Summary {
        &self.0.summary
    }

    /// Bytes of the file's binary part.
    ///
    /// # Errors
    /// Why there is no file.
    pub fn file_bytes(&self) -> Result<u64, Failure> {
        self.0.file.unwrap_or(Ok(0))
    }

    pub fn path(&self) -> &[u8] {
        self.0.path()
    }

    pub fn no_samples(&self) -> Option<NoSamples> {
        self.0.summary.no_samples
    }

    /// False for a child without samples.
    pub fn has_file(&self) -> bool {
        self.0.file.is_some()
    }

    /// Why records could not be spilled.
    pub fn spill_failure(&self) -> Option<&'static str> {
        self.0.summary.spill_failure.map(errno::description)
    }

    /// The spool with samples that could not be written.
    pub fn spool_path(&self) -> Option<&[u8]> {
        self.0.spool_path()
    }

    pub fn is_collected(&self) -> bool {
        self.0.keeps_spool
    }

    pub fn lost(&self) -> u64 {
        self.0.summary.losses.periods()
    }
}

/// Stops this process's session and passes it to `report`.
pub fn stop(report: impl FnOnce(StoppedSession<'_>)) {
    if let Ok((ended, ())) = control::stop(SessionSelector::Any, |_, _| ()) {
        report(StoppedSession(&ended));
    }
}

/// As [`stop`], before the process exits. Waits at most 2 s. Signal-safe on nearly full stacks, see
/// `control::exit_hooks`, if `report` is signal-safe.
pub fn finish_before_exit(report: impl FnOnce(StoppedSession<'_>)) {
    control::finish_before_exit(|ended| report(StoppedSession(ended)));
}

/// Writes the profile so far.
///
/// # Errors
/// Why it could not be written; or [`Failure::NotRunning`].
pub fn flush() -> Result<(), Failure> {
    control::flush(SessionSelector::Any)
}

/// Makes `signal` start and stop profiling, into files PATH.0, PATH.1 and so on.
///
/// # Errors
/// Why this is impossible.
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

/// A running session, for `ProfilerGetCurrentState`.
pub struct SessionState<'s> {
    /// Seconds since 1970.
    pub start_time: i64,
    pub path: &'s [u8],
    pub samples: u64,
}

pub fn with_state<R>(f: impl FnOnce(Option<SessionState<'_>>) -> R) -> R {
    control::with_session(SessionSelector::Any, |session, _| {
        f(session.map(|session| SessionState {
            start_time: session.start_time(),
            path: session.path(),
            samples: session.samples(),
        }))
    })
}

/// The action and the reason, if the running session's spool could not be created.
pub fn spool_refusal() -> Option<(&'static str, &'static str)> {
    control::with_session(SessionSelector::Any, |session, _| match session?.summary().spool {
        SpoolUse::Unavailable { action, errno } => Some((action, errno::description(errno))),
        _ => None,
    })
}

/// The counter of recorded ticks of the process. It wraps.
pub fn live_ticks() -> *const i32 {
    LIVE_TICKS.as_ptr()
}
