//! The signal that switches profiling on and off (`CPUPROFILESIGNAL`).
//!
//! Its handler runs start and stop where it interrupts. See the module above for why it may: no allocation, no
//! wait for the lock. Each start writes to the next of `NAME.0`, `NAME.1`, and so on, as in gperftools. Toggles that
//! come while one is being fulfilled cancel each other in pairs.

use super::{CONTROL_TOGGLES, Control, Locked, Session, Sink, SpoolPlace, StartOptions, summary::Ended};
use crate::{
    config::SpoolChoice,
    error::Failure,
    sync::{AtomicU32, AtomicU64, Ordering},
    sys::{
        errno::{self, ErrnoGuard},
        file::PathBuffer,
        memory::{MappedBox, Mapping, run_on},
        process,
        signal::{self, Context, HandlerStack, SignalInfo},
        timer::IntervalTimer,
    },
};
use once_cell::race::OnceBox;

/// What each start by the signal is started with, and who is told of its end.
pub(crate) struct ToggleOptions {
    /// The profiles' path without its number.
    pub(crate) path: Vec<u8>,
    pub(crate) timer: IntervalTimer,
    pub(crate) frequency: u32,
    pub(crate) max_depth: usize,
    pub(crate) spool: SpoolChoice,
    /// Told of each profile's end, in the signal's handler.
    pub(crate) ended: Box<dyn Fn(&Ended) + Send + Sync>,
    /// Told of a start that failed, in the signal's handler.
    pub(crate) failed: fn(&[u8], Failure),
}

static OPTIONS: OnceBox<ToggleOptions> = OnceBox::new();
static STARTS: AtomicU64 = AtomicU64::new(0);
/// The process id that a forked child adds to its files' names, or 0.
static CHILD: AtomicU32 = AtomicU32::new(0);
/// Start and stop take some kilobytes, more than the stack that the signal interrupts may have left.
static STACK: OnceBox<Mapping> = OnceBox::new();
const STACK_BYTES: usize = 256 << 10;

/// Makes `signal` switch profiling. Not for signal context.
///
/// # Errors
/// [`Failure::HandlerTaken`] where the program handles it itself, or what the system refused.
pub(crate) fn enable(signal: i32, options: ToggleOptions) -> Result<(), Failure> {
    super::prepare()?;
    let system = |errno| Failure::System { action: "install its handler", errno };
    if [IntervalTimer::Cpu, IntervalTimer::Real].iter().any(|timer| timer.signal() == signal) {
        return Err(Failure::System { action: "use a profiling timer's own signal", errno: errno::BUSY });
    }
    if signal::action(signal).map_err(system)?.is_handler() {
        return Err(Failure::HandlerTaken { signal });
    }
    OPTIONS.get_or_init(|| Box::new(options));
    super::renew_frame_index();
    STACK
        .get_or_try_init(|| Mapping::writable(STACK_BYTES).map(Box::new))
        .map_err(|errno| Failure::System { action: "map memory for its handler", errno })?;
    signal::install(signal, on_toggle, HandlerStack::Interrupted).map_err(system)
}

extern "C" fn on_toggle(_number: i32, _info: *mut SignalInfo, _context: *mut Context) {
    let _errno = ErrnoGuard::new();
    if !super::is_elsewhere() {
        CONTROL_TOGGLES.fetch_xor(1, Ordering::SeqCst);
        serve();
    }
}

/// Fulfils what a toggle has asked for, unless somebody else holds the lock: then that one does, when it lets go.
pub(super) fn serve() {
    while CONTROL_TOGGLES.load(Ordering::SeqCst) > 0 {
        let Some(mut control) = Locked::try_new() else { return };
        let (Some(options), Some(stack)) = (OPTIONS.get(), STACK.get()) else { return };
        if CONTROL_TOGGLES.swap(0, Ordering::SeqCst) > 0 {
            // The lock keeps the stack from being used twice.
            run_on(stack, &mut (&mut *control, options), |(control, options)| switch(control, options));
        }
    }
}

/// In a forked child: its files get names of their own.
pub(super) fn reset_after_fork() {
    CONTROL_TOGGLES.store(0, Ordering::SeqCst);
    CHILD.store(process::id(), Ordering::SeqCst);
}

fn switch(control: &mut Control, options: &ToggleOptions) {
    if control.session.is_some() {
        if let Ok((ended, ())) = control.stop_locked(|_, _| ()) {
            (options.ended)(&ended);
        }
        return;
    }
    if let Err(failure) = start(control, options) {
        (options.failed)(&options.path, failure);
    }
}

fn start(control: &mut Control, options: &ToggleOptions) -> Result<(), Failure> {
    let mut path = MappedBox::<PathBuffer>::zeroed()
        .map_err(|errno| Failure::System { action: "map memory for the path", errno })?;
    let child = u64::from(CHILD.load(Ordering::SeqCst));
    path.push(&options.path)
        .and_then(
            |()| if child == 0 { Ok(()) } else { path.push(b"_").and_then(|()| path.push_decimal(child)) },
        )
        .and_then(|()| path.push(b"."))
        .and_then(|()| path.push_decimal(STARTS.fetch_add(1, Ordering::Relaxed)))
        .map_err(|errno| Failure::Output { action: "take the path", errno })?;
    control.session = Some(Session::start(&StartOptions {
        sink: Sink::File(path.as_bytes()),
        timer: options.timer,
        frequency: options.frequency,
        max_depth: options.max_depth,
        filter: None,
        excluded: &[],
        child_path: None,
        is_child: false,
        spool: SpoolPlace::of(&options.spool),
    })?);
    Ok(())
}
