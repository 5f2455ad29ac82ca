//! The timers that threads have of their own: which kind, when, and how their signals are known.
//!
//! | clock | a thread's timer | its signal tells |
//! | --- | --- | --- |
//! | `cpu` | POSIX timer of its CPU clock | a mark of ours, by its place in the table, and the timer's name |
//! | `perf` | event of its task clock | the event's descriptor |
//!
//! The table is [`threads`](super::threads). Who begins and ends: whoever may write in [`tick_source`](super::tick_source).

use super::{
    engine::Engine,
    host_action::HostAction,
    process_mark,
    threads::{MOST_THREADS, Met, Timers},
};
use crate::{
    config::Clock,
    sync::{AtomicBool, AtomicU32, Ordering},
    sys::{
        clock,
        perf::TaskClock,
        posix_timer::PosixTimer,
        process,
        signal::{self, Origin},
        tasks, thread,
        timer::IntervalTimer,
    },
};

/// What all timers of CPU time send.
const SIGNAL: i32 = IntervalTimer::Cpu.signal();

/// Timers are events of `perf` in the session that runs.
static IS_PERF: AtomicBool = AtomicBool::new(false);
/// They have been in one at least.
static HAS_PERF: AtomicBool = AtomicBool::new(false);
/// The process may have forbidden itself system calls, or has a handler of its own for the signal: the kernel drops a signal
/// that the host sends to a thread while a tick is pending for that thread.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
/// The process that the statics are of, once it is known.
static HOME: AtomicU32 = AtomicU32::new(0);
/// Linux before 6.4.
static IS_OLD_KERNEL: AtomicBool = AtomicBool::new(false);

/// The first one's address is the value in the signals of the process's POSIX timer, those of the others the values in the
/// signals of threads' timers. A second copy of the library has others.
static MARKS: [AtomicBool; 1 + MOST_THREADS] = [const { AtomicBool::new(false) }; 1 + MOST_THREADS];

/// Lets threads have timers from now on, if they have in this clock; before the process's timer is armed. Signal-safe.
pub(super) fn begin(engine: &Engine, clock: Clock, period_micros: u32) {
    // There are some after a call of `exec` that failed.
    end(engine);
    let is_perf = clock == Clock::Perf;
    if clock != Clock::Cpu && !is_perf {
        return;
    }
    HOME.store(OwnTimers.process(), Ordering::Relaxed);
    if are_forbidden() {
        return;
    }
    IS_OLD_KERNEL.store(process::kernel_is_before((6, 4)), Ordering::Relaxed);
    IS_PERF.store(is_perf, Ordering::Relaxed);
    HAS_PERF.fetch_or(is_perf, Ordering::Relaxed);
    engine.threads().begin(&OwnTimers, u64::from(period_micros) * 1000, most(is_perf));
    if is_perf {
        adopt_all(engine);
    }
}

/// Ends all of them. Signal-safe.
pub(super) fn end(engine: &Engine) {
    engine.threads().end(&OwnTimers);
}

/// The same, where there is an engine.
pub(super) fn end_if_any() {
    if let Some(engine) = Engine::get() {
        end(engine);
    }
}

/// Ends all of them, for good, and takes back what is pending of the caller's own.
pub(super) fn forbid() {
    IS_FORBIDDEN.store(true, Ordering::Relaxed);
    end_if_any();
    signal::take_back(SIGNAL, |origin| match origin {
        Origin::PosixTimer { .. } => place_of_mark(origin).is_some_and(|place| place > 0),
        Origin::File(_) => is_own_tick(origin),
        Origin::IntervalTimer | Origin::Elsewhere => false,
    });
}

/// True where threads may have none.
fn are_forbidden() -> bool {
    if HostAction::of(SIGNAL).is_some_and(HostAction::has_had_handler) {
        IS_FORBIDDEN.store(true, Ordering::Relaxed);
    }
    IS_FORBIDDEN.load(Ordering::Relaxed)
}

/// Notes whose memory this is. For ordinary context.
pub(crate) fn prepare() {
    HOME.store(OwnTimers.process(), Ordering::Relaxed);
}

/// True in a child that shares the memory, or has a copy of it that no hook has put right: what it does is none of ours.
pub(super) fn is_elsewhere() -> bool {
    let home = HOME.load(Ordering::Relaxed);
    home != 0 && home != OwnTimers.process()
}

/// In a forked child, which has none of the timers but copies of the events' descriptors.
pub(super) fn reset_after_fork() {
    prepare();
    if let Some(engine) = Engine::get() {
        engine.threads().reset_after_fork(&OwnTimers);
    }
}

/// The clock that there is in the place of another: threads have no timers of their own in a program that forbids itself
/// system calls, or handles their signal itself.
pub(crate) fn present(clock: Clock) -> Clock {
    match clock {
        Clock::Cpu | Clock::Perf if IS_FORBIDDEN.load(Ordering::Relaxed) => Clock::Itimer,
        clock => clock,
    }
}

/// Tries whether threads can have the timers of this clock. Signal-safe.
///
/// # Errors
/// The error number of `perf_event_open(2)`, for [`Clock::Perf`].
pub(crate) fn try_clock(clock: Clock) -> Result<(), i32> {
    match clock {
        Clock::Perf if !are_forbidden() => {
            TaskClock::open(thread::id(), SIGNAL).map(|event| event.end(thread::id(), SIGNAL))
        }
        _ => Ok(()),
    }
}

/// How many there may be. A POSIX timer takes one of the signals that the user may have pending, an event one of the files
/// that the process may have open; hosts want some.
fn most(are_events: bool) -> usize {
    let limit = if are_events { process::open_files_limit() } else { process::pending_signals_limit() };
    limit.map_or(MOST_THREADS, |limit| limit / 4)
}

/// Gives all threads timers of their own, before the process's timer can meet one of them.
fn adopt_all(engine: &Engine) {
    let threads = engine.threads();
    let generation = threads.generation();
    tasks::for_each(|thread| {
        if let Some(now) = clock::cpu_of_thread(thread) {
            threads.adopt(&OwnTimers, Met { thread, generation, now });
        }
    });
}

/// Gives the calling thread a timer of its own now, instead of when the process's timer meets it. For a thread that no tick
/// interrupts meanwhile: it has all signals blocked. Signal-safe.
pub(crate) fn adopt_caller() {
    let Some(engine) = Engine::get() else { return };
    let threads = engine.threads();
    let generation = threads.generation();
    // A copy of the process has no session, whatever it has copied.
    if generation == 0 || process_mark::running_signal() != SIGNAL || is_elsewhere() {
        return;
    }
    let met = Met { thread: thread::id(), generation, now: clock::thread_cpu() };
    if !threads.covers(&OwnTimers, met) {
        threads.adopt(&OwnTimers, met);
    }
}

/// The value in the signals of the process's POSIX timer.
pub(super) fn process_mark() -> usize {
    MARKS.as_ptr() as usize
}

/// True for the signal of a timer of ours that is not the interval timer. Signal-safe.
#[inline]
pub(crate) fn is_own_tick(origin: Origin) -> bool {
    match origin {
        Origin::PosixTimer { .. } => place_of_mark(origin).is_some(),
        // No host has files send it SIGPROF.
        Origin::File(_) => HAS_PERF.load(Ordering::Relaxed),
        Origin::IntervalTimer | Origin::Elsewhere => false,
    }
}

/// The calling thread's place in the table, if this is a tick of its own timer, or of one that it had. Signal-safe.
#[inline]
pub(crate) fn thread_tick(engine: &Engine, origin: Origin) -> Option<usize> {
    match origin {
        Origin::PosixTimer { .. } => place_of_mark(origin)?.checked_sub(1),
        Origin::File(descriptor) => {
            // One that is not there any more weighs nothing, and asks for nothing.
            let threads = engine.threads();
            let timer = OwnTimers::of_event(descriptor);
            let index = if threads.generation() == 0 { None } else { threads.index_of(thread::id(), timer) };
            Some(index.unwrap_or(usize::MAX))
        }
        Origin::IntervalTimer | Origin::Elsewhere => None,
    }
}

/// Which of [`MARKS`] a signal's value is.
#[inline]
fn place_of_mark(origin: Origin) -> Option<usize> {
    let Origin::PosixTimer { value } = origin else { return None };
    value.checked_sub(process_mark()).filter(|place| *place < MARKS.len())
}

/// True for a tick of the process's that comes to the first thread whichever was running, as long as that takes it: a POSIX
/// timer's before Linux 6.4. Signal-safe.
pub(crate) fn meets_one_thread(origin: Origin) -> bool {
    matches!(origin, Origin::PosixTimer { .. }) && IS_OLD_KERNEL.load(Ordering::Relaxed)
}

/// POSIX timers by their names, which the kernel counts from 0, and events by their descriptors and a bit.
pub(crate) struct OwnTimers;

impl OwnTimers {
    const EVENT: i32 = 1 << 30;

    fn of_event(descriptor: i32) -> i32 {
        descriptor | Self::EVENT
    }

    fn event(timer: i32) -> Option<TaskClock> {
        (timer & Self::EVENT != 0).then_some(TaskClock(timer & !Self::EVENT))
    }
}

impl Timers for OwnTimers {
    fn create(&self, index: usize, thread: u32) -> Result<i32, i32> {
        if IS_PERF.load(Ordering::Relaxed) {
            return TaskClock::open(thread, SIGNAL).map(|event| Self::of_event(event.0));
        }
        // A mark has one byte.
        let value = process_mark().wrapping_add(1).wrapping_add(index);
        PosixTimer::of_thread(thread, SIGNAL, value).map(|timer| timer.0)
    }

    fn arm(&self, timer: i32, first: u64, period: u64) {
        match Self::event(timer) {
            Some(event) => event.arm(first),
            // It fails for a timer that is not there any more.
            None => drop(PosixTimer(timer).set(first, period)),
        }
    }

    fn is_precise(&self, timer: i32) -> bool {
        Self::event(timer).is_some()
    }

    fn delete(&self, timer: i32, thread: u32) {
        match Self::event(timer) {
            Some(event) => event.end(thread, SIGNAL),
            None => PosixTimer(timer).delete(),
        }
    }

    fn leave_to_parent(&self, timer: i32, thread: u32) {
        if let Some(event) = Self::event(timer) {
            event.leave(thread, SIGNAL);
        }
    }

    fn process(&self) -> u32 {
        process::id_by_system_call()
    }

    fn is_gone(&self, thread: u32) -> bool {
        thread::is_gone(thread)
    }

    fn clock_of(&self, thread: u32) -> Option<u64> {
        clock::cpu_of_thread(thread)
    }
}
