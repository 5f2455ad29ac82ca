//! What the shared library needs of this crate and nobody else should use: no promise of stability.
//!
//! # Safety
//! Hands pointers of the C interface on to where they are read; each function says what they must be.
#![allow(unsafe_code)]

pub use crate::config::{Clock, Environment, MARK, SpoolChoice, StatisticsChoice, is_marked};
pub use crate::control::{Listener, Notice, SpoolUse};
pub use crate::error::Failure;
pub use crate::line::Line;
pub use crate::sys::{
    signal::{AlternateStack, CAction, SigactionFunction, SignalInfo, SignalSet},
    timer::CSetting,
};

use crate::{
    config::Filter,
    control::{self, Ended, Naming, NoSamples, Sink, SpoolPlace, StartOptions, Summary, Which},
    sample::{
        engine::Engine,
        handler::{self, LIVE_TICKS},
        host_action::{self, HostAction},
        host_timer, identities, met_objects, process_mark,
        scratch::Held,
        thread_timers, tick_source,
        unwind::{self, PcForm, objects, trail::Trail},
    },
    sync::Ordering,
    sys::{
        arch::Registers,
        entry, errno, file, loader, own_object, process,
        signal::{self, Action, AllBlocked, Origin},
        timer::{IntervalTimer, Setting},
    },
};
use core::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_void},
};

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
    /// Which time is sampled.
    pub clock: Clock,
    /// The signal of ticks, where it is not the clock's own.
    pub timer_signal: Option<i32>,
    /// Ticks per second.
    pub frequency: u32,
    /// Frames.
    pub max_depth: usize,
    /// Whose a sample is is part of it.
    pub by_thread: bool,
    /// `filter_in_thread` and its argument.
    pub filter: Option<(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void)>,
    /// Where the spool goes.
    pub spool: &'a SpoolChoice,
    /// The profile is left in the spool, where there is one that holds all of it, and no file is written.
    pub keeps_spool: bool,
    /// Bytes of memory that the profiler may take.
    pub max_memory: usize,
}

/// True when the environment is not to be trusted.
pub fn is_privileged() -> bool {
    process::is_privileged()
}

/// The calling process's id. Signal-safe.
pub fn process() -> u32 {
    process::id()
}

/// The number of a signal, by number or name.
pub fn signal_number(name: &[u8]) -> Option<i32> {
    signal::number(name)
}

/// Makes what later calls must not allocate. `unloads_are_seen` says that the library was loaded with the program
/// and that its `dlclose` is the one that the program calls.
///
/// # Errors
/// What the system refused.
pub fn prepare(unloads_are_seen: bool) -> Result<(), Failure> {
    if unloads_are_seen {
        objects::unloads_are_seen();
    }
    control::prepare()
}

/// Has `listener` told what goes wrong where no call could return it. Not for signal context.
pub fn listen(listener: Listener) {
    control::listen(listener);
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
        sink: Sink::File(options.path),
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
        is_child: false,
        spool: SpoolPlace::of(options.spool),
        keeps_spool: options.keeps_spool,
        max_memory: options.max_memory,
        lines: None,
    })
    .map(|_| ())
}

/// True of a start that failed since the recorder's directory of spools is not there any more.
pub fn is_without_recorder(failure: Failure) -> bool {
    matches!(failure, Failure::System { action, errno } if (action, errno) == control::NO_DIRECTORY)
}

/// True where `path` leads to a device or a pipe, beside which nothing can be written.
pub fn is_special(path: &[u8]) -> bool {
    control::is_special(path)
}

/// A session that is over.
pub struct Stopped<'e>(&'e Ended);

impl Stopped<'_> {
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
    pub fn not_moved(&self) -> Option<&'static str> {
        self.0.summary.not_moved.map(errno::description)
    }

    /// The path of the spool that holds what could not be written.
    pub fn spool_path(&self) -> Option<&[u8]> {
        self.0.spool_path()
    }

    /// Periods that were lost.
    pub fn lost(&self) -> u64 {
        self.0.summary.losses.periods()
    }
}

/// Stops the running session, if this process has one, and shows it to `report`.
pub fn stop(report: impl FnOnce(Stopped<'_>)) {
    if let Ok((ended, ())) = control::stop(Which::Any, |_, _| ()) {
        report(Stopped(&ended));
    }
}

/// The process is about to end, and nothing more of it will run: stops its session, if it has one, and shows it to
/// `report`. Waits for nobody for longer than two seconds. Signal-safe, on a stack of any size, if `report` is.
pub fn complete(report: impl FnOnce(Stopped<'_>)) {
    control::complete(|ended| report(Stopped(ended)));
}

/// Writes the profile so far.
///
/// # Errors
/// Why it could not be written; and [`Failure::NotRunning`].
pub fn flush() -> Result<(), Failure> {
    control::flush(Which::Any)
}

/// Makes `signal` switch profiling on and off, in files named `PATH.0`, `PATH.1`, and so on.
///
/// # Errors
/// Why it cannot.
pub fn enable_toggle(
    signal: i32,
    options: &FileOptions<'_>,
    ended: fn(Stopped<'_>),
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
            ended: Box::new(move |report: &Ended| ended(Stopped(report))),
            failed,
        },
    )
}

/// What [`before_exec`] has changed.
#[derive(Clone, Copy)]
pub struct Replacing {
    had_session: bool,
    ignores: bool,
}

/// The process is about to replace its program: ends the ticks, and writes what was gathered, if that is anything; and lets
/// the next program inherit that the host ignores our signal. Waits for nobody for longer than two seconds. Signal-safe,
/// on a stack of any size.
///
/// `path` is the program's, or null where it is not known. Where none can be started from it nothing is written: who looks
/// for a program in one directory after another calls often.
///
/// # Safety
/// * `path` is as for `execve(2)`, or null.
pub unsafe fn before_exec(path: *const c_char) -> Replacing {
    // SAFETY: the caller's word.
    let is_in_vain = !path.is_null() && unsafe { entry::is_no_program(path) };
    let had_session = control::suspend(is_in_vain);
    Replacing { had_session, ignores: host_action::ignore_for_next_program() }
}

/// The program was not replaced, as [`before_exec`] had been told: all is as it was before, and ticks come again. Keeps
/// errno. Signal-safe, likewise.
pub fn after_failed_exec(replacing: Replacing) {
    let _errno = errno::ErrnoGuard::new();
    if replacing.ignores {
        host_action::handle_again();
    }
    if replacing.had_session {
        control::resume();
    }
}

/// A running session, as `ProfilerGetCurrentState` shows it.
pub struct State<'s> {
    /// Seconds since 1970.
    pub start_time: i64,
    /// As it was given.
    pub path: &'s [u8],
    /// Sum of the counts.
    pub samples: u64,
}

/// Calls `f` with the state of the running session, if there is one.
pub fn with_state<R>(f: impl FnOnce(Option<State<'_>>) -> R) -> R {
    control::with_session(Which::Any, |session, _| {
        f(session.map(|session| State {
            start_time: session.start_time(),
            path: session.path(),
            samples: session.samples(),
        }))
    })
}

/// What failed, and why, when the running session's spool was to be made; None where it has one.
pub fn spool_refusal() -> Option<(&'static str, &'static str)> {
    control::with_session(Which::Any, |session, _| match session?.summary().spool {
        SpoolUse::Unavailable { action, errno } => Some((action, errno::description(errno))),
        _ => None,
    })
}

/// Where the number of ticks recorded since the process began can be watched; it wraps.
pub fn live_ticks() -> *const i32 {
    LIVE_TICKS.as_ptr()
}

/// Fills `result` with the stack of `context`, innermost PC first, and gives the number of PCs. Signal-safe once
/// [`prepare`] has run.
///
/// # Safety
/// * `context` is a valid `ucontext_t`.
pub unsafe fn stack_of_context(context: *const c_void, result: &mut [usize]) -> usize {
    // SAFETY: the caller's word.
    let registers = unsafe { signal::interrupted_registers(context) };
    with_chain(registers, |pcs| result.iter_mut().zip(pcs).map(|(place, pc)| *place = *pc).count())
}

/// Fills `result` with the stack of the function that this is inlined into, beginning with its caller, after
/// skipping `skip` frames; gives the number of PCs. Signal-safe once [`prepare`] has run.
#[inline(always)]
pub fn stack_from_here(skip: usize, result: &mut [usize]) -> usize {
    walk_behind(Registers::here(), skip, result)
}

/// Walks from `registers`, and leaves out the innermost frame and `skip` more.
#[inline(never)]
fn walk_behind(registers: Registers, skip: usize, result: &mut [usize]) -> usize {
    with_chain(registers, |pcs| {
        let pcs = pcs.iter().skip(skip.saturating_add(1));
        result.iter_mut().zip(pcs).map(|(place, pc)| *place = *pc).count()
    })
}

/// Calls `f` with the chain of `registers`, at most [`MAX_DEPTH`] PCs; gives 0 where there is no slot to walk in.
///
/// Signals are blocked meanwhile: a handler of the host's that leaves by a jump would take the slot with it.
fn with_chain(registers: Registers, f: impl FnOnce(&[usize]) -> usize) -> usize {
    struct Walk<'w> {
        engine: &'static Engine,
        held: Held<'w>,
        registers: Registers,
        chain: &'w mut [usize],
        trail: &'w mut Trail,
        depth: usize,
    }
    fn run(walk: &mut Walk<'_>) {
        let slot = walk.held.slot();
        walk.depth =
            unwind::walk(walk.engine, slot, walk.registers, 0, PcForm::Exact, walk.chain, walk.trail).0;
    }
    let Some(engine) = Engine::get() else { return 0 };
    let _blocked = AllBlocked::new();
    // Handlers of other threads have all of them, and leave soon. Not for ever: a caller may be the handler that they wait for.
    const TRIES: usize = 200;
    let claim = (0..TRIES).find_map(|i| {
        if i > 0 {
            std::thread::yield_now();
        }
        engine.scratch().claim(registers.sp())
    });
    let Some(mut claim) = claim else { return 0 };
    let (held, chain, trail) = claim.parts();
    let mut walk = Walk { engine, held, registers, chain, trail, depth: 0 };
    held.slot().run_on_stack(&mut walk, run);
    let Walk { chain, depth, .. } = walk;
    f(chain.get(..depth).unwrap_or_default())
}

/// Writes a line to a descriptor of the host's, if it takes it at once and is the file that `identity` names.
pub fn write_line(descriptor: c_int, identity: (u64, u64), line: &[u8]) -> bool {
    let is_same = file::identity(descriptor) == Some(identity);
    if is_same {
        file::write_line(descriptor, line);
    }
    is_same
}

/// Adds a line to the file at `path`, which is made where there is none; signal-safe. A file that cannot be written to, a
/// link, and a pipe without a reader are left as they are.
pub fn append_line(path: &CStr, line: &[u8]) {
    file::append_line(path, line);
}

/// Device and inode of an open descriptor.
pub fn identity(descriptor: c_int) -> Option<(u64, u64)> {
    file::identity(descriptor)
}

/// Calls `f` with every signal blocked and cancellation put off.
pub fn undisturbed<R>(f: impl FnOnce() -> R) -> R {
    let _blocked = AllBlocked::new();
    f()
}

/// Calls `child` in each child that `fork` makes. For ordinary context.
pub fn in_each_child(child: unsafe extern "C" fn()) {
    let _ = process::at_fork(None, None, Some(child));
}

/// Tells which function is the C library's own `sigaction`.
///
/// # Safety
/// * It is that, or behaves like it.
pub unsafe fn set_real_sigaction(function: SigactionFunction) {
    signal::set_real_sigaction(function);
}

/// The next definition of a function behind the calling object; null if there is none.
pub fn next_symbol(name: &CStr) -> *mut c_void {
    loader::next_symbol(name)
}

/// The first definition of a function in the program; null if there is none. Not for signal context.
pub fn first_symbol(name: &CStr) -> *mut c_void {
    loader::symbol(name)
}

/// True for an address in the program itself. Signal-safe once [`prepare`] has run.
pub fn is_in_program(address: *const c_void) -> bool {
    loader::is_in_program(address as usize)
}

/// True where nobody else uses the environment now, as far as libc knows. Not for signal context.
pub fn is_alone() -> bool {
    loader::is_alone()
}

/// True for an address in the object that holds this code. Not for signal context.
pub fn is_own_code(address: *const c_void) -> bool {
    own_object::has(address as usize)
}

/// The file of the object that holds this code. Not for signal context.
pub fn own_file() -> Option<Vec<u8>> {
    own_object::file()
}

/// The file of the object that `address` lies in. Not for signal context.
pub fn file_of(address: usize) -> Option<Vec<u8>> {
    loader::file_of(address)
}

/// True for the signal whose handler is ours. Signal-safe.
pub fn owns_signal(number: c_int) -> bool {
    HostAction::of(number).is_some_and(HostAction::is_taken_over)
}

/// `sigaction(2)` for the host: for the signal that is ours, the host's setting is kept aside. Signal-safe.
///
/// # Safety
/// * As for `sigaction(2)`.
pub unsafe fn host_sigaction(number: c_int, new: *const CAction, old: *mut CAction) -> c_int {
    let Some(host) = HostAction::of(number).filter(|host| host.is_taken_over()) else {
        // SAFETY: the caller's word.
        return unsafe { signal::real_sigaction()(number, new, old) };
    };
    // SAFETY: the caller's word: null or valid.
    let new = unsafe { new.as_ref() }.map(|new| Action::from_c(new).as_kept());
    let before = host.exchange(new);
    if new.is_some_and(|new| new.is_handler()) {
        tick_source::leave_threads_to_handler(number);
    }
    if !old.is_null() {
        // SAFETY: the caller's word: writable.
        unsafe { old.write(before.to_c()) };
    }
    0
}

/// `setitimer(2)` for the host, where the timer is one that sends the signal that is ours: the host's timer and our ticks
/// share nothing. None for any other timer, which is the system's business. Sets errno. Signal-safe.
///
/// # Safety
/// * As for `setitimer(2)`.
pub unsafe fn host_setitimer(which: c_int, new: *const CSetting, old: *mut CSetting) -> Option<c_int> {
    if which != IntervalTimer::Cpu.which() || !owns_signal(IntervalTimer::Cpu.signal()) {
        return None;
    }
    // SAFETY: the caller's word: null or valid. Null disarms, as the kernel has it.
    let new = unsafe { new.as_ref() }.map_or(Setting::NONE, Setting::from_c);
    let before = match tick_source::set_for_host(new) {
        Err(number) => return Some(fail(number)),
        Ok((before, None)) => before,
        Ok((before, Some(refusal))) => {
            let _errno = errno::ErrnoGuard::new();
            control::tell(&[], Notice::NoTicks(refusal.into()));
            before
        }
    };
    if !old.is_null() {
        // SAFETY: the caller's word: writable.
        unsafe { old.write(before.to_c()) };
    }
    Some(0)
}

/// `getitimer(2)`, likewise. Signal-safe.
///
/// # Safety
/// * As for `getitimer(2)`.
pub unsafe fn host_getitimer(which: c_int, present: *mut CSetting) -> Option<c_int> {
    if which != IntervalTimer::Cpu.which() || present.is_null() || !owns_signal(IntervalTimer::Cpu.signal()) {
        return None;
    }
    Some(match tick_source::get_for_host() {
        Err(number) => fail(number),
        Ok(setting) => {
            // SAFETY: the caller's word: writable.
            unsafe { present.write(setting.to_c()) };
            0
        }
    })
}

fn fail(number: i32) -> c_int {
    errno::set(number);
    -1
}

/// True when a host that waits for one of these signals could be woken by a tick of ours. Signal-safe.
///
/// # Safety
/// * `set` is null or valid.
pub unsafe fn may_meet_ticks(set: *const SignalSet) -> bool {
    // SAFETY: the caller's word.
    unsafe { set.as_ref() }.is_some_and(|set| {
        host_action::signals().iter().any(|&number| owns_signal(number) && signal::contains(set, number))
    })
}

/// True when what the host has waited for is a tick of ours, so that it goes on waiting. The tick is lost, and its time is
/// charged to the next. Signal-safe.
pub fn is_tick(info: &mut SignalInfo) -> bool {
    let number = info.si_signo;
    // SAFETY: the kernel has filled it.
    let origin = unsafe { Origin::of(info) };
    if !HostAction::of(number).is_some_and(HostAction::is_taken_over) {
        return false;
    }
    let is_cpu = number == IntervalTimer::Cpu.signal();
    if !tick_source::hides(number, origin, process_mark::running_signal()) {
        if is_cpu && origin == Origin::IntervalTimer {
            host_timer::note_served();
        }
        return false;
    }
    if is_cpu && host_timer::is_owed() {
        *info = signal::interval_timer_info(number);
        return false;
    }
    if tick_source::note_hidden(number, LIVE_TICKS.load(Ordering::Relaxed)) {
        tell_of_no_ticks();
    }
    true
}

fn tell_of_no_ticks() {
    let _errno = errno::ErrnoGuard::new();
    control::tell(&[], Notice::NoTicks(tick_source::Refusal::ReadByHost.into()));
}

/// The host is about to read these signals by `signalfd(2)`, where ticks cannot be told apart: they end, and one line says
/// so. Signal-safe.
///
/// # Safety
/// * `set` is null or valid.
pub unsafe fn host_reads_signals(set: *const SignalSet) {
    // SAFETY: the caller's word.
    let Some(set) = (unsafe { set.as_ref() }) else { return };
    for number in host_action::signals() {
        if number != 0 && signal::contains(set, number) && tick_source::leave_to_readers(number) {
            tell_of_no_ticks();
        }
    }
}

/// Gives the calling thread its own timer now. Signal-safe.
pub fn register_thread() {
    let _errno = errno::ErrnoGuard::new();
    let _blocked = AllBlocked::new();
    thread_timers::adopt_caller();
}

/// True while a session runs that samples threads which wait, too: each new one had better [`register`](register_thread).
/// Signal-safe.
pub fn awaits_threads() -> bool {
    thread_timers::are_awaited()
}

/// The host is about to forbid itself system calls: threads' own timers end, and nobody asks any more which thread a tick meets,
/// since that takes some that few programs allow themselves. Keeps errno. Signal-safe.
pub fn host_enters_sandbox() {
    let _errno = errno::ErrnoGuard::new();
    tick_source::leave_threads();
    // Behind it: a handler that finds this said finds no timers either.
    identities::forbid();
    control::let_handlers_leave();
}

/// The host is about to register this alternate stack for a thread. Signal-safe.
///
/// # Safety
/// * `stack` is null or valid.
pub unsafe fn host_alternate_stack(stack: *const AlternateStack) {
    // SAFETY: the caller's word.
    if unsafe { stack.as_ref() }.is_some_and(|stack| !signal::is_large_enough(stack)) {
        handler::avoid_alternate_stacks();
    }
}

/// Runs `unload`, which may unload objects, while no handler reads them, and forgets what was known of them. None,
/// without running it, where a handler does not leave them: they then stay loaded.
pub fn while_unloading<R>(unload: impl FnOnce() -> R) -> Option<R> {
    let Some(engine) = Engine::get() else { return Some(unload()) };
    let has_forgotten = Cell::new(false);
    let forget = || {
        engine.rules().retain(&objects::stays);
        control::take_met_objects();
        met_objects::forget_seen();
        has_forgotten.set(true);
    };
    let result = objects::while_unloading(forget, unload)?;
    if has_forgotten.get() {
        control::renew_frame_index();
    }
    Some(result)
}
