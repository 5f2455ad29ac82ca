//! Start, flush and stop of sessions, and the owner of the running session.
//!
//! | state | start | flush | stop |
//! | --- | --- | --- | --- |
//! | idle | running, or a failure and idle | failure | failure |
//! | running | failure | running | idle |
//!
//! One lock guards all of it, taken with all signals blocked: neither a tick nor the toggle
//! (`CPUPROFILESIGNAL`) interrupts its owner. A toggle that finds the lock taken leaves a request
//! to its owner. A toggle runs in a signal handler. So `Session::start` and `stop_locked` are
//! signal-safe: system calls, mapped memory, text in arrays.

mod diagnostics;
mod exit_hooks;
mod fork;
mod frame_files;
mod maps_text;
mod output;
mod session;
mod spool;
mod start_options;
mod summary;
mod ticks;
mod toggle;
mod toggle_request;

pub use diagnostics::{Diagnostic, DiagnosticSink};
pub(crate) use diagnostics::{report, set_diagnostic_sink};
pub(crate) use exit_hooks::{finish_before_exit, pause_for_exec, resume_after_failed_exec};
pub(crate) use frame_files::renew as renew_frame_index;
#[cfg(all(any(test, fuzzing), not(loom)))]
pub(crate) use frame_files::trial as frame_file_trial;
pub(crate) use maps_text::write as write_maps_text;
pub(crate) use output::{Naming, is_special};
pub(crate) use session::{Session, Started};
pub(crate) use spool::{DEFAULT_DIRECTORY, RECORDERS_FILE, SUFFIX, SpoolLocation, is_without_recorder};
pub(crate) use start_options::{Destination, StartOptions};
pub(crate) use summary::Ended;
pub(crate) use summary::is_in_step;
pub use summary::{Losses, NoSamples, SpoolUse, Summary, Walks};
pub(crate) use toggle::{ToggleOptions, enable as enable_toggle};

use crate::{
    error::Failure,
    sample::{
        engine::Engine,
        fork_guard,
        sampled_dsos::{self, SampledDso},
    },
    sync::{AtomicU32, Ordering},
    sys::{errno, own_object, process, signal::AllBlocked, thread::Backoff},
};
use core::ops::{Deref, DerefMut};
use parking_lot::{Mutex, MutexGuard};
use toggle_request::ToggleRequest;

pub(crate) struct Control {
    session: Option<Session>,
    /// Sampled DSOs that may be unloaded. [`prepare`] reserves the memory.
    sampled_dsos: Vec<SampledDso>,
}

static CONTROL: Mutex<Control> = Mutex::new(Control { session: None, sampled_dsos: Vec::new() });

const MAX_SAMPLED_DSOS: usize = 256;

/// Requests of toggles that found the lock taken.
#[cfg(not(loom))]
static CONTROL_TOGGLES: ToggleRequest = ToggleRequest::new();
// loom's atomics have no const constructor.
#[cfg(loom)]
loom::lazy_static! {
    static ref CONTROL_TOGGLES: ToggleRequest = ToggleRequest::new();
}

/// The session's process, or 0. Recognises children that run no fork hooks.
static SESSION_PROCESS: AtomicU32 = AtomicU32::new(0);

/// The lock, with all signals blocked until it is released.
struct Locked {
    control: Option<MutexGuard<'static, Control>>,
    #[expect(dead_code, reason = "held for its drop")]
    mask: AllBlocked,
    serves_toggles: bool,
    /// Return the lock to the fork hook that this thread is in.
    is_lent: bool,
}

impl Locked {
    /// Polls the lock: queued waiters would not exist in a forked child; waking one may allocate.
    fn new() -> Self {
        loop {
            if let Some(locked) = Self::lock_with_timeout(&mut Backoff::unbounded()) {
                return locked;
            }
        }
    }

    fn lock_with_timeout(backoff: &mut Backoff) -> Option<Self> {
        let mask = AllBlocked::new();
        loop {
            if let Some(control) = CONTROL.try_lock() {
                return Some(Self { control: Some(control), mask, serves_toggles: true, is_lent: false });
            }
            if let Some(control) = fork::borrow_lock() {
                return Some(Self { control: Some(control), mask, serves_toggles: false, is_lent: true });
            }
            if !backoff.wait() {
                return None;
            }
        }
    }

    /// For the toggle, which checks for further requests itself.
    fn try_new() -> Option<Self> {
        let mask = AllBlocked::new();
        Some(Self { control: Some(CONTROL.try_lock()?), mask, serves_toggles: false, is_lent: false })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(control) = self.control.take() {
            control.note_process();
            if self.is_lent {
                fork::return_lock(control);
            }
        }
        // A toggle that found the lock taken stored its request before this.
        if self.serves_toggles {
            toggle::run_pending();
        }
    }
}

/// Whether this is a child of `vfork`, `_Fork` or raw `clone`, which may never get the lock.
fn is_other_process() -> bool {
    let process = SESSION_PROCESS.load(Ordering::SeqCst);
    process != 0 && (process != process::id() || fork_guard::is_forked_copy())
}

impl Deref for Locked {
    type Target = Control;
    fn deref(&self) -> &Control {
        match &self.control {
            Some(control) => control,
            None => unreachable!("the guard is taken in drop only"),
        }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Control {
        match &mut self.control {
            Some(control) => control,
            None => unreachable!("the guard is taken in drop only"),
        }
    }
}

/// Makes the engine and the hooks, so that a later start allocates nothing. Not for signal context.
///
/// # Errors
/// The system call that failed.
pub(crate) fn prepare() -> Result<(), Failure> {
    Engine::get_or_make().map_err(|errno| Failure::System { action: "map memory for the handler", errno })?;
    // Before any other code has the address of a function of this object.
    own_object::pin()
        .map_err(|errno| Failure::System { action: "keep the profiler's code loaded", errno })?;
    exit_hooks::prepare()
        .map_err(|errno| Failure::System { action: "map memory for the program's end", errno })?;
    fork::install_hooks();
    // Not under the lock: a fork hook of the allocator may hold the heap and wait for the lock.
    let mut room = Vec::new();
    room.try_reserve_exact(MAX_SAMPLED_DSOS).map_err(|_| Failure::System {
        action: "find memory for names of libraries",
        errno: errno::ENOMEM,
    })?;
    let mut control = Locked::new();
    if control.sampled_dsos.capacity() == 0 {
        control.sampled_dsos = room;
    }
    Ok(())
}

/// Starts a session.
///
/// # Errors
/// Why no session was started. Nothing has changed then, but the handler may be installed.
pub(crate) fn start(options: &StartOptions<'_>) -> Result<Started, Failure> {
    if is_other_process() {
        return Err(Failure::AlreadyRunning);
    }
    prepare()?;
    renew_frame_index();
    let mut control = Locked::new();
    if control.session.is_some() {
        return Err(Failure::AlreadyRunning);
    }
    let session = Session::start(options)?;
    let started = session.started();
    control.session = Some(session);
    Ok(started)
}

/// Waits at most 2 s for handlers that are running now. Signal-safe: clocks and atomics.
pub(crate) fn wait_for_running_handlers() {
    if let Some(engine) = Engine::get() {
        let mut backoff = Backoff::bounded();
        engine.clock_readers().wait_until_done(|| backoff.wait());
        session::wait_for_handlers(engine, backoff);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionSelector {
    Any,
    This(Started),
}

impl SessionSelector {
    fn matches(self, session: &Session) -> bool {
        match self {
            Self::Any => true,
            Self::This(started) => session.started() == started,
        }
    }
}

/// Stops the session and writes its file, if any. Its memory is freed after `finish`.
///
/// # Errors
/// [`Failure::NotRunning`]. The result contains the failure of writing the file.
pub(crate) fn stop<R>(
    which: SessionSelector,
    finish: impl FnOnce(&Session, &[SampledDso]) -> R,
) -> Result<(Ended, R), Failure> {
    if is_other_process() {
        return Err(Failure::NotRunning);
    }
    let mut control = Locked::new();
    if !control.session.as_ref().is_some_and(|session| which.matches(session)) {
        return Err(Failure::NotRunning);
    }
    control.stop_locked(finish)
}

/// Writes a complete profile so far, unless a kept spool contains it. The session continues.
///
/// # Errors
/// [`Failure::NotRunning`], or why the file could not be written; it is unchanged then.
pub(crate) fn flush(which: SessionSelector) -> Result<(), Failure> {
    if is_other_process() {
        return Err(Failure::NotRunning);
    }
    // For libraries that were opened since the start.
    if SESSION_PROCESS.load(Ordering::SeqCst) != 0 {
        renew_frame_index();
    }
    let mut control = Locked::new();
    let control = &mut *control;
    control.drain_sampled_dsos();
    let session = control.session.as_mut().filter(|session| which.matches(session));
    session.ok_or(Failure::NotRunning)?.flush(&control.sampled_dsos)
}

pub(crate) fn with_session<R>(
    which: SessionSelector,
    f: impl FnOnce(Option<&Session>, &[SampledDso]) -> R,
) -> R {
    if is_other_process() {
        return f(None, &[]);
    }
    let mut control = Locked::new();
    control.drain_sampled_dsos();
    f(control.session.as_ref().filter(|session| which.matches(session)), &control.sampled_dsos)
}

/// Takes sampled objects from the queue before they are unloaded, unless the lock is taken.
pub(crate) fn collect_sampled_dsos() {
    if let Some(mut control) = Locked::try_new() {
        control.serves_toggles = true;
        control.drain_sampled_dsos();
    }
}

impl Control {
    fn note_process(&self) {
        let process = self.session.as_ref().map_or(0, Session::process);
        SESSION_PROCESS.store(process, Ordering::SeqCst);
    }

    fn stop_locked<R>(
        &mut self,
        finish: impl FnOnce(&Session, &[SampledDso]) -> R,
    ) -> Result<(Ended, R), Failure> {
        let mut session = self.session.take().ok_or(Failure::NotRunning)?;
        let stuck_handlers = session.end_recording();
        self.drain_sampled_dsos();
        let result = finish(&session, &self.sampled_dsos);
        Ok((session.finish(&self.sampled_dsos, stuck_handlers), result))
    }

    fn drain_sampled_dsos(&mut self) {
        while self.sampled_dsos.len() < self.sampled_dsos.capacity() {
            let Some(dso) = sampled_dsos::pop() else { break };
            // A library that is opened and sampled again moves to the end of the list.
            if let Some(known) = self.sampled_dsos.iter().position(|known| known.is_same(&dso)) {
                self.sampled_dsos.remove(known);
            }
            self.sampled_dsos.push(dso);
        }
    }
}
