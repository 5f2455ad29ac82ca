//! The timers that threads have of their own: which kind, when, and how their signals are known.
//!
//! | clock | a thread's timer | its signal contains |
//! | --- | --- | --- |
//! | `cpu` | POSIX timer of its CPU clock | a mark of ours, by its place in the table, and the timer's name |
//! | `perf`, `auto` | perf event of its task clock; POSIX timer if it cannot have one | the event's descriptor; a mark |
//! | `wall` | POSIX timer of elapsed time | a mark |
//!
//! A process has a limit of descriptors, and the user one of pending signals, of which each POSIX timer takes one. Threads'
//! timers take a share of each ([`Quota`]).
//!
//! Threads that wait have no ticks of CPU time. So in clock `wall` all that there are have a timer from the start on; the
//! shared library tells of those that are created by `pthread_create`; and for the others the handler looks into
//! /proc/self/task some times in a second ([`scan_threads`]).
//!
//! The table is [`threads`](super::threads). Who begins and ends: whoever may write in [`tick_source`](super::tick_source).

mod descriptors;
mod limits;

use descriptors::DescriptorSet;
use limits::{Quota, Rate};

use super::{
    app_disposition::AppDisposition,
    caller::Caller,
    engine::Engine,
    fork_guard, remainder, tick_source,
    timer_table::{FirstTick, MAX_THREADS, TickThread, Timers},
    weight,
};
use crate::{
    config::Clock,
    error::Failure,
    sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering},
    sys::{
        clock, errno,
        perf::{Scope, TaskClock},
        posix_timer::PosixTimer,
        process,
        signal::{self, Origin},
        tasks::{self, TaskDirectory},
        thread,
    },
};

/// The signal of perf events.
const EVENT_SIGNAL: i32 = libc::SIGPROF;
/// What they send in the session that runs, or ran last; 0 before there was one.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The clock of that session, by its number.
static CLOCK: AtomicU32 = AtomicU32::new(Clock::Itimer.number());
/// File descriptors, of perf events.
static DESCRIPTORS: Quota = Quota::none();
/// Threads' events take one part of so many of the process's descriptors.
const DESCRIPTOR_PARTS: usize = 8;
/// Pending signals of the user, of POSIX timers.
static PENDING_SIGNALS: Quota = Quota::none();

/// How often a thread got a CPU timer instead of a perf event, since the process began.
static WITHOUT_EVENT: AtomicU64 = AtomicU64::new(0);

/// The same, for a summary.
pub(crate) fn without_event() -> u64 {
    WITHOUT_EVENT.load(Ordering::Relaxed)
}

/// Those of perf events, in any session.
static EVENT_DESCRIPTORS: DescriptorSet = DescriptorSet::empty();
/// The host has a handler of its own for their signal: the kernel drops one that the host sends to a thread while a tick is
/// pending for that thread.
static IS_LEFT_TO_HANDLER: AtomicBool = AtomicBool::new(false);
/// There were timers of several threads when the last session had to do without.
static HAS_LEFT_OTHERS: AtomicBool = AtomicBool::new(false);
/// The process may have forbidden itself system calls.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
/// The process that the statics are of, once it is known.
static HOME: AtomicU32 = AtomicU32::new(0);
/// Linux before 6.4.
static IS_OLD_KERNEL: AtomicBool = AtomicBool::new(false);

/// The first one's address is the value in the signals of the process's POSIX timer, those of the others the values in the
/// signals of threads' timers. A second copy of the library has others.
static COOKIES: [AtomicBool; 1 + MAX_THREADS] = [const { AtomicBool::new(false) }; 1 + MAX_THREADS];

/// The first tick of the next session's first thread is at random, too.
static STARTS_AT_RANDOM: AtomicBool = AtomicBool::new(false);

/// Sets the first tick of the process's first thread. Called before [`begin`].
pub(crate) fn set_start(at_random: bool) {
    STARTS_AT_RANDOM.store(at_random, Ordering::Relaxed);
}

/// The first tick of a thread.
fn first_tick(thread: u32) -> FirstTick {
    if thread != process::id() || STARTS_AT_RANDOM.load(Ordering::Relaxed) || is_wall() {
        FirstTick::AtRandom
    } else {
        FirstTick::AfterPeriod
    }
}

/// Lets threads have timers from now on, if they have in this clock; before the process's timer is armed. Signal-safe.
pub(super) fn begin(engine: &Engine, clock: Clock, signal: i32, period_micros: u32) {
    // There are some after a call of `exec` that failed.
    end(engine);
    HAS_LEFT_OTHERS.store(false, Ordering::Relaxed);
    CLOCK.store(clock.number(), Ordering::Relaxed);
    if clock == Clock::Itimer {
        return;
    }
    HOME.store(OwnTimers.process(), Ordering::Relaxed);
    SIGNAL.store(signal, Ordering::Relaxed);
    if are_forbidden(signal) {
        return;
    }
    IS_OLD_KERNEL.store(process::kernel_is_before((6, 4)), Ordering::Relaxed);
    DESCRIPTORS.allow(process::open_files_limit(), DESCRIPTOR_PARTS);
    PENDING_SIGNALS.allow(process::pending_signals_limit(), 4);
    engine.threads().begin(&OwnTimers, u64::from(period_micros) * 1000);
    SCAN.begin();
    SCAN.scan(engine);
    if clock != Clock::Wall {
        // Its ticks find the others.
        close_list();
        remainder::begin();
    }
}

/// Closes the list of threads. For who knows that no handler reads it: none has been in a session yet, or all have left it.
/// Signal-safe: system calls.
pub(crate) fn close_list() {
    SCAN.tasks.close();
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

/// Ends all of them, for good, and takes back what is pending of the caller's own. True if threads could have timers until now.
pub(super) fn forbid() -> bool {
    IS_FORBIDDEN.store(true, Ordering::Relaxed);
    leave()
}

/// The same where the host handles `number` itself, if that is their signal; for as long as it is.
pub(super) fn leave_to_handler(number: i32) -> bool {
    if number != SIGNAL.load(Ordering::Relaxed) {
        return false;
    }
    IS_LEFT_TO_HANDLER.store(true, Ordering::Relaxed);
    leave()
}

fn leave() -> bool {
    let were_permitted = Engine::get().is_some_and(|engine| engine.threads().generation() != 0);
    let used = Engine::get().map_or(0, |engine| engine.threads().used());
    end_if_any();
    let signal = SIGNAL.load(Ordering::Relaxed);
    if signal != 0 && !leaves_pending(signal) {
        signal::discard_own_pending(signal, |origin| match origin {
            Origin::PosixTimer { .. } => index_of_cookie(origin).is_some_and(|place| place > 0),
            Origin::File(_) => is_own_tick(signal, origin),
            Origin::IntervalTimer | Origin::Elsewhere => false,
        });
    }
    if is_wall() && used > 0 {
        HAS_LEFT_OTHERS.fetch_or(used > 1, Ordering::Relaxed);
    }
    were_permitted
}

/// True for a signal that is not taken back where it is pending: a queue of the host's would lose its order. The kernel spares the
/// next program timers' signals, and our handler takes those that come late for nothing. Signal-safe.
pub(super) fn leaves_pending(signal: i32) -> bool {
    signal::is_real_time(signal)
}

/// True where threads may have none.
fn are_forbidden(signal: i32) -> bool {
    let is_handled = AppDisposition::of(signal).is_some_and(AppDisposition::has_had_handler);
    IS_LEFT_TO_HANDLER.store(is_handled, Ordering::Relaxed);
    is_handled || IS_FORBIDDEN.load(Ordering::Relaxed)
}

/// True in a session of clock `wall` whose threads may have no timers, so that it is of the first one alone, where there are
/// others or were when that began. Signal-safe: system calls for files.
pub(crate) fn has_unseen_threads() -> bool {
    let others = || {
        let mut threads = 0u32;
        tasks::for_each(|_| threads = threads.saturating_add(1));
        threads > 1
    };
    let had_others = || HAS_LEFT_OTHERS.load(Ordering::Relaxed);
    is_wall() && are_out_of_use() && (had_others() || !is_forbidden() && others())
}

fn are_out_of_use() -> bool {
    IS_LEFT_TO_HANDLER.load(Ordering::Relaxed) || is_forbidden()
}

/// True where the process may be ended for a call that few programs make. Signal-safe.
pub(super) fn is_forbidden() -> bool {
    IS_FORBIDDEN.load(Ordering::Relaxed)
}

/// The clock of the session that runs, or ran last. Signal-safe.
fn session_clock() -> Clock {
    Clock::of_number(CLOCK.load(Ordering::Relaxed)).unwrap_or(Clock::Itimer)
}

/// True in clock `wall`, where time passes for threads that wait as well. Signal-safe.
#[inline]
pub(crate) fn is_wall() -> bool {
    CLOCK.load(Ordering::Relaxed) == Clock::Wall.number()
}

/// The time that the calling thread's timer counts. Signal-safe.
#[inline]
pub(crate) fn now() -> u64 {
    if is_wall() { clock::monotonic_nanos() } else { clock::thread_cpu_nanos() }
}

/// Notes whose memory this is. For ordinary context.
pub(crate) fn prepare() {
    HOME.store(OwnTimers.process(), Ordering::Relaxed);
}

/// True in a child that shares the memory, or has a copy of it that no hook has put right: what it does is none of ours.
pub(crate) fn is_other_process() -> bool {
    let home = HOME.load(Ordering::Relaxed);
    home != 0 && home != OwnTimers.process()
}

/// In a forked child, which has none of the timers but copies of the events' descriptors.
pub(super) fn reset_after_fork() {
    prepare();
    SCAN.reset_after_fork();
    remainder::reset_after_fork();
    DESCRIPTORS.reset();
    PENDING_SIGNALS.reset();
    if let Some(engine) = Engine::get() {
        engine.threads().reset_after_fork(&OwnTimers);
    }
}

/// The clock that runs in a session of this clock. `auto` is in use only if perf events are permitted. Threads have no timers of
/// their own in a program that forbids itself system calls, or handles their signal itself.
pub(crate) fn present(clock: Clock) -> Clock {
    match clock {
        Clock::Auto | Clock::Cpu | Clock::Perf if are_out_of_use() => Clock::Itimer,
        Clock::Auto => Clock::Perf,
        clock => clock,
    }
}

/// Tries whether threads can have the timers of this clock. Signal-safe.
///
/// # Errors
/// What cannot be done, with its error number: for [`Clock::Perf`], and for [`Clock::Auto`] also if time in the kernel cannot be
/// sampled, or if a seccomp filter may kill a process for the attempt.
pub(crate) fn try_clock(clock: Clock, signal: i32) -> Result<(), Failure> {
    if !clock.has_events() || are_forbidden(signal) {
        return Ok(());
    }
    // If no signal can be queued, the kernel sends SIGIO instead of a real-time signal, which kills the program
    // (F_SETSIG in fcntl(2)). It queues one for each tick while the thread blocks the signal.
    if signal != EVENT_SIGNAL {
        let action = "let perf events send another signal than SIGPROF";
        return Err(Failure::System { action, errno: errno::EINVAL });
    }
    let failure = |errno| Failure::System { action: "open a perf event of the task clock", errno };
    if process::open_files_limit().is_some_and(|limit| limit < DESCRIPTOR_PARTS) {
        return Err(failure(errno::EMFILE));
    }
    open_event(clock, thread::id())
        .map(|event| event.disable_and_close(thread::id(), signal))
        .map_err(failure)
}

/// A perf event of the thread, as the clock permits. Signal-safe: system calls.
pub(crate) fn open_event(clock: Clock, thread: u32) -> Result<TaskClock, i32> {
    if clock == Clock::Perf {
        return TaskClock::open(thread, EVENT_SIGNAL, Scope::KernelIfPermitted);
    }
    // A filter may kill the process for a call that it does not list. `perf_event_open` is not in systemd's @system-service.
    if process::has_seccomp_filter() {
        return Err(errno::EPERM);
    }
    TaskClock::open(thread, EVENT_SIGNAL, Scope::WithKernel)
}

/// When threads are looked for that no tick finds.
struct ThreadScan {
    tasks: TaskDirectory,
    /// Somebody does it now.
    is_on: AtomicBool,
    /// When the last one was, by the monotonic clock.
    last: AtomicU64,
    /// When it is time again.
    next: AtomicU64,
    /// Nanoseconds of threads that could not have timers, between looks.
    missed: AtomicU64,
}

static SCAN: ThreadScan = ThreadScan {
    tasks: TaskDirectory::closed(),
    is_on: AtomicBool::new(false),
    last: AtomicU64::new(0),
    next: AtomicU64::new(0),
    missed: AtomicU64::new(0),
};

impl ThreadScan {
    /// Nanoseconds between two looks, at least.
    const PAUSE: u64 = 50_000_000;
    /// It takes one part of the time of this many; where it was kept from going on for long, that is no reason for more than
    /// the longest pause.
    const SHARE: u64 = 200;
    const LONGEST: u64 = 1_000_000_000;

    /// Keeps the list open: while the host runs none of its descriptors is in the way.
    fn begin(&self) {
        self.tasks.open();
        self.last.store(clock::monotonic_nanos(), Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.missed.store(0, Ordering::Relaxed);
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Gives all threads that have none a timer of their own, if it is time for that.
    fn scan(&self, engine: &Engine) {
        let start = clock::monotonic_nanos();
        if start < self.next.load(Ordering::Relaxed) || self.is_on.swap(true, Ordering::Acquire) {
            return;
        }
        let threads = engine.threads();
        let generation = threads.generation();
        let is_wall = is_wall();
        let (mut with_timer, mut without) = (0u32, 0u64);
        self.tasks.for_each(|thread| {
            let now = if is_wall { Some(start) } else { clock::cpu_nanos_of_thread(thread) };
            if let Some(tick_thread) = now.map(|now| TickThread { thread, generation, now }) {
                if generation != 0 && !threads.has(tick_thread) {
                    threads.adopt(&OwnTimers, tick_thread, first_tick(tick_thread.thread));
                }
                let has_timer = threads.has(tick_thread);
                with_timer = with_timer.saturating_add(u32::from(has_timer));
                without = without.saturating_add(u64::from(!has_timer));
            }
        });
        // What has ended counts where ticks are shared out among all.
        if threads.used() > with_timer {
            threads.reap(&OwnTimers, MAX_THREADS as u32);
        }
        let since = start.saturating_sub(self.last.swap(start, Ordering::Relaxed));
        self.missed.fetch_add(without.saturating_mul(since), Ordering::Relaxed);
        let end = clock::monotonic_nanos();
        let taken = end.saturating_sub(start).saturating_mul(Self::SHARE);
        let pause = taken.clamp(Self::PAUSE, Self::LONGEST);
        self.next.store(end.saturating_add(pause), Ordering::Relaxed);
        self.is_on.store(false, Ordering::Release);
    }

    fn reset_after_fork(&self) {
        self.tasks.close();
        self.is_on.store(false, Ordering::Relaxed);
    }
}

/// In clock `wall`: gives threads that have none a timer of their own, and takes it from those that have ended, some times in a
/// second. For a handler, on its own stack. Signal-safe.
pub(crate) fn scan_threads(engine: &Engine) {
    SCAN.scan(engine);
}

/// True while a session of clock `wall` runs. Signal-safe.
pub(crate) fn are_awaited() -> bool {
    is_wall() && Engine::get().is_some_and(|engine| engine.threads().generation() != 0)
}

/// True if a thread that is about to be created should get its timer when it begins. Signal-safe.
///
/// In clock `wall` always. A perf event costs a new thread about as much as its creation, so in the other clocks only some in a
/// second get their timer then, and the process's ticks find the others. They do not find a thread that runs only between ticks
/// of the kernel.
pub(crate) fn claim_new_thread() -> bool {
    let is_running = || Engine::get().is_some_and(|engine| engine.threads().generation() != 0);
    match session_clock() {
        Clock::Wall => is_running(),
        Clock::Auto | Clock::Cpu | Clock::Perf => {
            is_running() && NEW_THREADS.allows(clock::monotonic_nanos())
        }
        Clock::Itimer => false,
    }
}

/// Threads that get their timer when they begin.
static NEW_THREADS: Rate = Rate::rested();

/// True in a session of clock `wall` whose first thread has a timer of its own.
pub(super) fn has_first_thread() -> bool {
    let has = |engine: &Engine| {
        let threads = engine.threads();
        let generation = threads.generation();
        generation != 0 && threads.has(TickThread { thread: process::id(), generation, now: 0 })
    };
    is_wall() && Engine::get().is_some_and(has)
}

/// Nanoseconds of elapsed time of all threads that no tick stands for, in clock `wall`; None in any other. Signal-safe: system
/// calls, some for files.
pub(crate) fn unaccounted_of_all() -> Option<u64> {
    if !is_wall() {
        return None;
    }
    let threads = Engine::get()?.threads();
    // A first thread that has ended is there for as long as the process is.
    if has_first_thread() && process::has_first_thread_exited() {
        threads.drop_timer(&OwnTimers, process::id());
    }
    // What the process's timer stands for, where it is the one that samples the first thread.
    let rest = if tick_source::has_only_thread_timers() {
        0
    } else {
        weight::unaccounted_nanos(clock::monotonic_nanos())
    };
    let unaccounted = if threads.generation() == 0 { 0 } else { threads.unaccounted(&OwnTimers) };
    let missed = SCAN.missed.load(Ordering::Relaxed);
    Some(rest.saturating_add(missed).saturating_add(u64::try_from(unaccounted).unwrap_or(0)))
}

/// Gives the calling thread a timer of its own now, instead of when the process's timer meets it. For a thread that no tick
/// interrupts meanwhile: it has all signals blocked. Signal-safe.
pub(crate) fn adopt_caller() {
    let Some(engine) = Engine::get() else { return };
    let threads = engine.threads();
    let generation = threads.generation();
    // A copy of the process has no session, whatever it has copied.
    let signal = SIGNAL.load(Ordering::Relaxed);
    if generation == 0 || fork_guard::running_signal() != signal || is_other_process() {
        return;
    }
    let tick_thread = TickThread { thread: thread::id(), generation, now: now() };
    if !(if is_wall() { threads.has(tick_thread) } else { threads.covers(&OwnTimers, tick_thread) }) {
        // As many as are created end sooner or later.
        threads.reap(&OwnTimers, 4);
        threads.adopt(&OwnTimers, tick_thread, first_tick(tick_thread.thread));
    }
}

/// The value in the signals of the process's POSIX timer.
pub(super) fn process_cookie() -> usize {
    COOKIES.as_ptr() as usize
}

/// True for a signal `number` of a timer of ours that is not the interval timer. Signal-safe.
#[inline]
pub(crate) fn is_own_tick(number: i32, origin: Origin) -> bool {
    match origin {
        Origin::PosixTimer { .. } => index_of_cookie(origin).is_some(),
        // Of an event that is closed by now, too: the program's handler may end the program.
        Origin::File(descriptor) => number == EVENT_SIGNAL && EVENT_DESCRIPTORS.contains(descriptor),
        Origin::IntervalTimer | Origin::Elsewhere => false,
    }
}

/// The calling thread's place in the table, if this is a tick of its own timer, or of one that it had. Signal-safe.
#[inline]
pub(super) fn thread_tick(engine: &Engine, origin: Origin, caller: Option<Caller>) -> Option<usize> {
    match origin {
        Origin::PosixTimer { .. } => index_of_cookie(origin)?.checked_sub(1),
        Origin::File(descriptor) => {
            // One that is not there any more weighs nothing, and asks for nothing.
            let threads = engine.threads();
            let timer = OwnTimers::of_event(descriptor);
            Some(caller.and_then(|caller| threads.index_of(caller.thread, timer)).unwrap_or(usize::MAX))
        }
        Origin::IntervalTimer | Origin::Elsewhere => None,
    }
}

/// Which of [`COOKIES`] a signal's value is.
#[inline]
fn index_of_cookie(origin: Origin) -> Option<usize> {
    let Origin::PosixTimer { value } = origin else { return None };
    value.checked_sub(process_cookie()).filter(|place| *place < COOKIES.len())
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
        let clock = session_clock();
        if clock.has_events() && DESCRIPTORS.take().is_ok() {
            match open_event(clock, thread) {
                Ok(event) if EVENT_DESCRIPTORS.add(event.0) => return Ok(Self::of_event(event.0)),
                Ok(event) => {
                    event.disable_and_close(thread, EVENT_SIGNAL);
                    DESCRIPTORS.restore();
                }
                Err(_) => DESCRIPTORS.restore(),
            }
        }
        self.create_fallback(index, thread)
    }

    fn create_fallback(&self, index: usize, thread: u32) -> Result<i32, i32> {
        PENDING_SIGNALS.take()?;
        let like = session_clock().timer();
        // A mark has one byte.
        let value = process_cookie().wrapping_add(1).wrapping_add(index);
        let timer = PosixTimer::of_thread(like, thread, SIGNAL.load(Ordering::Relaxed), value)
            .inspect_err(|_| PENDING_SIGNALS.restore())?;
        if session_clock().has_events() {
            WITHOUT_EVENT.fetch_add(1, Ordering::Relaxed);
        }
        Ok(timer.0)
    }

    fn is_there(&self, timer: i32, thread: u32) -> bool {
        match Self::event(timer) {
            Some(event) => event.is_open(thread, EVENT_SIGNAL),
            None => PosixTimer(timer).exists(),
        }
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
            Some(event) => {
                event.disable_and_close(thread, EVENT_SIGNAL);
                DESCRIPTORS.restore();
            }
            None => {
                PosixTimer(timer).delete();
                PENDING_SIGNALS.restore();
            }
        }
    }

    fn release_to_parent(&self, timer: i32, thread: u32) {
        if let Some(event) = Self::event(timer) {
            event.close_copy(thread, EVENT_SIGNAL);
        }
    }

    fn process(&self) -> u32 {
        process::id_by_system_call()
    }

    fn is_gone(&self, thread: u32) -> bool {
        thread::is_gone(thread)
    }

    fn clock_of(&self, thread: u32) -> Option<u64> {
        if !is_wall() {
            return clock::cpu_nanos_of_thread(thread);
        }
        (!thread::is_gone(thread)).then(clock::monotonic_nanos)
    }

    fn periods_of_a_tick(&self, used: u32) -> u32 {
        /// Threads whose ticks may come in one period.
        const CROWD: u32 = 32;
        if is_wall() { used.div_ceil(CROWD).max(1) } else { 1 }
    }
}
