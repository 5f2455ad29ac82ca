//! The signal that starts and stops profiling (`CPUPROFILESIGNAL`).
//!
//! Its handler does both itself, without allocating or waiting for the lock (see the parent
//! module). Each start writes to the next of `NAME.0`, `NAME.1` and so on, as in gperftools, except
//! those that the process wrote before an `exec`. Requests that arrive during another cancel each
//! other in pairs.

use super::{
    CONTROL_TOGGLES, Control, Destination, Locked, Session, SpoolLocation, StartOptions,
    output::{self, Naming, OutputDirectory},
    summary::Ended,
};
use crate::{
    config::{Clock, SpoolChoice},
    error::Failure,
    sample::app_disposition,
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    sys::{
        errno::{self, ErrnoGuard},
        file::PathBuffer,
        memory::{MappedBox, OwnedMapping, run_on_stack},
        process,
        signal::{self, Context, HandlerStack, SignalInfo},
    },
};
use once_cell::race::OnceBox;

pub(crate) struct ToggleOptions {
    /// Without the number.
    pub(crate) path: Vec<u8>,
    pub(crate) clock: Clock,
    pub(crate) signal: Option<i32>,
    pub(crate) frequency: u32,
    pub(crate) max_depth: usize,
    pub(crate) by_thread: bool,
    pub(crate) spool: SpoolChoice,
    pub(crate) max_memory: usize,
    pub(crate) ended: Box<dyn Fn(&Ended) + Send + Sync>,
    pub(crate) failed: fn(&[u8], Failure),
}

static OPTIONS: OnceBox<ToggleOptions> = OnceBox::new();
/// The profiles' directory; empty if it did not exist yet.
static DIRECTORY: OnceBox<OutputDirectory> = OnceBox::new();
static STARTS: AtomicU64 = AtomicU64::new(0);
/// A device or a pipe gets all profiles, except those of forked children.
static IS_DEVICE: AtomicBool = AtomicBool::new(false);
/// The process ID in the names of a forked child's files, or 0.
static CHILD: AtomicU32 = AtomicU32::new(0);
/// Start and stop need some kilobytes; the interrupted stack may have less.
static STACK: OnceBox<OwnedMapping> = OnceBox::new();
const STACK_BYTES: usize = 256 << 10;

/// Makes `signal` toggle profiling. Not for signal context.
///
/// # Errors
/// [`Failure::HandlerTaken`] if the application handles the signal, or the system call that failed.
pub(crate) fn enable(signal: i32, mut options: ToggleOptions) -> Result<(), Failure> {
    super::prepare()?;
    let system = |errno| Failure::System { action: "install its handler", errno };
    if app_disposition::signals().contains(&signal) || options.signal == Some(signal) {
        return Err(Failure::System { action: "use a profiling timer's own signal", errno: errno::EBUSY });
    }
    let present = signal::disposition(signal).map_err(system)?;
    if present.is_handler() {
        return Err(Failure::HandlerTaken { signal, handler: present.handler });
    }
    let mut path = MappedBox::<PathBuffer>::zeroed()
        .map_err(|errno| Failure::System { action: "map memory for the path", errno })?;
    output::absolute(&options.path, &mut path)?;
    options.path = path.as_bytes().to_vec();
    let is_device = output::is_special(path.as_bytes());
    if let Some(place) = OutputDirectory::of(path.as_bytes()).ok().filter(|_| !is_device) {
        let _ = DIRECTORY.set(Box::new(place));
    }
    IS_DEVICE.store(is_device, Ordering::SeqCst);
    OPTIONS.get_or_init(|| Box::new(options));
    super::renew_frame_index();
    STACK
        .get_or_try_init(|| OwnedMapping::writable(STACK_BYTES).map(Box::new))
        .map_err(|errno| Failure::System { action: "map memory for its handler", errno })?;
    signal::install(signal, on_toggle, HandlerStack::Interrupted).map_err(system)
}

extern "C" fn on_toggle(_number: i32, _info: *mut SignalInfo, _context: *mut Context) {
    let _errno = ErrnoGuard::new();
    if !super::is_other_process() {
        CONTROL_TOGGLES.toggle();
        run_pending();
    }
}

/// Runs pending requests. If another thread holds the lock, it does so after releasing the lock.
pub(super) fn run_pending() {
    CONTROL_TOGGLES.run_pending(Locked::try_new, |control| {
        if let (Some(options), Some(stack)) = (OPTIONS.get(), STACK.get()) {
            // The lock prevents a second use of the stack.
            run_on_stack(stack, &mut (&mut **control, options), |(control, options)| {
                switch(control, options)
            });
        }
    });
}

pub(super) fn reset_after_fork() {
    CONTROL_TOGGLES.clear();
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
    let fails = |errno| Failure::Output { action: "take the path", errno };
    path.push(&options.path).map_err(fails)?;
    if IS_DEVICE.load(Ordering::SeqCst) {
        if child != 0 {
            return Ok(());
        }
    } else {
        if child != 0 {
            path.push(b"_").and_then(|()| path.push_decimal(child)).map_err(fails)?;
        }
        path.push(b".").map_err(fails)?;
        number(&mut path).map_err(fails)?;
    }
    control.session = Some(Session::start(&StartOptions {
        destination: Destination::File(path.as_bytes()),
        clock: options.clock,
        signal: options.signal,
        frequency: options.frequency,
        max_depth: options.max_depth,
        by_thread: options.by_thread,
        filter: None,
        excluded: &[],
        naming: Naming::Exact,
        open_directory: DIRECTORY.get(),
        child_path: None,
        ancestors: Default::default(),
        spool: SpoolLocation::of(&options.spool),
        keeps_spool: false,
        starts_at_random: false,
        max_memory: options.max_memory,
        lines: None,
    })?);
    Ok(())
}

/// Appends the next number for which this process has written no file.
fn number(path: &mut PathBuffer) -> Result<(), i32> {
    let length = path.as_bytes().len();
    loop {
        path.truncate(length);
        path.push_decimal(STARTS.fetch_add(1, Ordering::Relaxed))?;
        if !output::has_own_work(path, DIRECTORY.get()) {
            return Ok(());
        }
    }
}
