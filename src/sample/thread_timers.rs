//! Timers of single threads. Signal-safe: atomics and system calls.
//!
//! | clock | per-thread timer | its signal contains |
//! | --- | --- | --- |
//! | `cpu` | POSIX timer on the thread's CPU clock | a cookie, by its table index |
//! | `perf`, `auto` | perf event of the task clock, or POSIX timer | its descriptor, or a cookie |
//! | `wall` | POSIX timer of elapsed time | a cookie |
//!
//! Timers take a share ([`Quota`]) of the process's descriptors or the user's pending signals.
//!
//! Threads that wait have no ticks of CPU time. So in clock `wall` the hook of `pthread_create` and
//! [`scan_threads`] (/proc/self/task) adopt all threads.
//!
//! The table is [`timer_table`](super::timer_table). [`begin`] needs the lock of `tick_source`.

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

const EVENT_SIGNAL: i32 = libc::SIGPROF;
/// The signal of the running or last session; 0 before the first.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CLOCK: AtomicU32 = AtomicU32::new(Clock::Itimer.number());
static DESCRIPTORS: Quota = Quota::none();
/// Perf events take 1 / DESCRIPTOR_PARTS of the process's descriptors.
const DESCRIPTOR_PARTS: usize = 8;
/// The user's pending signals, of POSIX timers.
static PENDING_SIGNALS: Quota = Quota::none();

/// Threads that got a CPU timer instead of a perf event, since the process's start.
static WITHOUT_EVENT: AtomicU64 = AtomicU64::new(0);

pub(crate) fn without_event() -> u64 {
    WITHOUT_EVENT.load(Ordering::Relaxed)
}

/// Of perf events in any session.
static EVENT_DESCRIPTORS: DescriptorSet = DescriptorSet::empty();
/// The application handles their signal: a pending tick would make the kernel drop its signals.
static IS_LEFT_TO_HANDLER: AtomicBool = AtomicBool::new(false);
/// The last session gave up the timers of several threads.
static HAS_LEFT_OTHERS: AtomicBool = AtomicBool::new(false);
/// The process may have forbidden itself system calls.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
/// The process that owns the statics, or 0.
static HOME: AtomicU32 = AtomicU32::new(0);
/// Before Linux 6.4.
static IS_OLD_KERNEL: AtomicBool = AtomicBool::new(false);

/// Their addresses are the values in signals: the first of the process's POSIX timer, the others of
/// per-thread timers. A second copy of the library has others.
static COOKIES: [AtomicBool; 1 + MAX_THREADS] = [const { AtomicBool::new(false) }; 1 + MAX_THREADS];

static STARTS_AT_RANDOM: AtomicBool = AtomicBool::new(false);

/// Sets whether the main thread's first tick is at random. Called before [`begin`].
pub(crate) fn set_start(at_random: bool) {
    STARTS_AT_RANDOM.store(at_random, Ordering::Relaxed);
}

fn first_tick(thread: u32) -> FirstTick {
    if thread != process::id() || STARTS_AT_RANDOM.load(Ordering::Relaxed) || is_wall() {
        FirstTick::AtRandom
    } else {
        FirstTick::AfterPeriod
    }
}

/// Permits per-thread timers, if the clock has them. Called before the process's timer is armed.
pub(super) fn begin(engine: &Engine, clock: Clock, signal: i32, period_micros: u32) {
    // There are some after an `exec` that failed.
    end(engine);
    HAS_LEFT_OTHERS.store(false, Ordering::Relaxed);
    CLOCK.store(clock.number(), Ordering::Relaxed);
    if clock == Clock::Itimer {
        return;
    }
    HOME.store(OwnTimers.process(), Ordering::Relaxed);
    SIGNAL.store(signal, Ordering::Relaxed);
    if update_forbidden(signal) {
        return;
    }
    IS_OLD_KERNEL.store(process::kernel_is_before((6, 4)), Ordering::Relaxed);
    DESCRIPTORS.allow(process::open_files_limit(), DESCRIPTOR_PARTS);
    PENDING_SIGNALS.allow(process::pending_signals_limit(), 4);
    engine.timers().begin(&OwnTimers, u64::from(period_micros) * 1000);
    SCAN.begin();
    SCAN.scan(engine);
    if clock != Clock::Wall {
        close_list();
        remainder::begin();
    }
}

/// Closes the list of threads. No handler may read it: none has yet, or all have left.
pub(crate) fn close_list() {
    SCAN.tasks.close();
}

pub(super) fn end(engine: &Engine) {
    engine.timers().end(&OwnTimers);
}

pub(super) fn end_if_any() {
    if let Some(engine) = Engine::get() {
        end(engine);
    }
}

/// Deletes all timers for good; discards the caller's pending ticks. True if there could be timers.
pub(super) fn forbid_timers() -> bool {
    IS_FORBIDDEN.store(true, Ordering::Relaxed);
    leave()
}

/// The same if `number` is their signal, because the application handles it.
pub(super) fn leave_to_handler(number: i32) -> bool {
    if number != SIGNAL.load(Ordering::Relaxed) {
        return false;
    }
    IS_LEFT_TO_HANDLER.store(true, Ordering::Relaxed);
    leave()
}

fn leave() -> bool {
    let were_permitted = Engine::get().is_some_and(|engine| engine.timers().generation() != 0);
    let used = Engine::get().map_or(0, |engine| engine.timers().used());
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

/// True for a signal that stays pending: discards would reorder the application's queue. An exec
/// discards timers' signals, and the handler ignores late ones.
pub(super) fn leaves_pending(signal: i32) -> bool {
    signal::is_real_time(signal)
}

fn update_forbidden(signal: i32) -> bool {
    let is_handled = AppDisposition::of(signal).is_some_and(AppDisposition::has_had_handler);
    IS_LEFT_TO_HANDLER.store(is_handled, Ordering::Relaxed);
    is_handled || IS_FORBIDDEN.load(Ordering::Relaxed)
}

/// True if a session of clock `wall` omits all threads except the main one, and has or had others.
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

/// True if uncommon system calls may kill the process.
pub(super) fn is_forbidden() -> bool {
    IS_FORBIDDEN.load(Ordering::Relaxed)
}

fn session_clock() -> Clock {
    Clock::of_number(CLOCK.load(Ordering::Relaxed)).unwrap_or(Clock::Itimer)
}

#[inline]
pub(crate) fn is_wall() -> bool {
    CLOCK.load(Ordering::Relaxed) == Clock::Wall.number()
}

/// Reads the clock of the calling thread's timer.
#[inline]
pub(crate) fn now() -> u64 {
    if is_wall() { clock::monotonic_nanos() } else { clock::thread_cpu_nanos() }
}

pub(crate) fn prepare() {
    HOME.store(OwnTimers.process(), Ordering::Relaxed);
}

/// True in a child that shares the memory, or in an unrepaired forked copy.
pub(crate) fn is_other_process() -> bool {
    let home = HOME.load(Ordering::Relaxed);
    home != 0 && home != OwnTimers.process()
}

/// In a forked child, which has copies of the events' descriptors, but no timers.
pub(super) fn reset_after_fork() {
    prepare();
    SCAN.reset_after_fork();
    remainder::reset_after_fork();
    DESCRIPTORS.reset();
    PENDING_SIGNALS.reset();
    if let Some(engine) = Engine::get() {
        engine.timers().reset_after_fork(&OwnTimers);
    }
}

/// Returns the clock in use: `auto` needs perf events; without per-thread timers it is `itimer`.
pub(crate) fn present(clock: Clock) -> Clock {
    match clock {
        Clock::Auto | Clock::Cpu | Clock::Perf if are_out_of_use() => Clock::Itimer,
        Clock::Auto => Clock::Perf,
        clock => clock,
    }
}

/// Checks that threads can have this clock's timers.
///
/// # Errors
/// For [`Clock::Perf`], and for [`Clock::Auto`] also if time in the kernel cannot be sampled, or if
/// a seccomp filter may kill the process for the attempt.
pub(crate) fn try_clock(clock: Clock, signal: i32) -> Result<(), Failure> {
    if !clock.has_events() || update_forbidden(signal) {
        return Ok(());
    }
    // Each tick queues a real-time signal while the thread blocks it. If no signal can be queued,
    // the kernel sends SIGIO instead (F_SETSIG in fcntl(2)), which kills the program.
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

pub(crate) fn open_event(clock: Clock, thread: u32) -> Result<TaskClock, i32> {
    if clock == Clock::Perf {
        return TaskClock::open(thread, EVENT_SIGNAL, Scope::KernelIfPermitted);
    }
    // It may kill the process: `perf_event_open` is not in systemd's @system-service.
    if process::has_seccomp_filter() {
        return Err(errno::EPERM);
    }
    TaskClock::open(thread, EVENT_SIGNAL, Scope::WithKernel)
}

struct ThreadScan {
    tasks: TaskDirectory,
    is_on: AtomicBool,
    /// Monotonic clock at the last scan.
    last: AtomicU64,
    /// Monotonic clock at which the next scan is due.
    next: AtomicU64,
    /// Nanoseconds of threads without timers, between scans.
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
    /// Nanoseconds between two scans.
    const PAUSE: u64 = 50_000_000;
    /// Scans take 1 / SHARE of the time. After a preempted scan the pause is LONGEST at most.
    const SHARE: u64 = 200;
    const LONGEST: u64 = 1_000_000_000;

    /// Keeps the list open: no scan takes another descriptor.
    fn begin(&self) {
        self.tasks.open();
        self.last.store(clock::monotonic_nanos(), Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.missed.store(0, Ordering::Relaxed);
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Adopts threads without a timer, if a scan is due.
    fn scan(&self, engine: &Engine) {
        let start = clock::monotonic_nanos();
        if start < self.next.load(Ordering::Relaxed) || self.is_on.swap(true, Ordering::Acquire) {
            return;
        }
        let threads = engine.timers();
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
        // Exited threads' timers still count in `periods_of_a_tick`.
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

/// Adopts new threads in clock `wall`, and drops exited ones. For a handler, on its slot's stack.
pub(crate) fn scan_threads(engine: &Engine) {
    SCAN.scan(engine);
}

pub(crate) fn is_wall_session_running() -> bool {
    is_wall() && Engine::get().is_some_and(|engine| engine.timers().generation() != 0)
}

/// True if a new thread is to be adopted at its start: always in clock `wall`. A perf event costs
/// about as much as a thread's creation. So other clocks adopt some a second; process ticks find
/// the others, except threads that run only between kernel ticks.
pub(crate) fn claim_new_thread() -> bool {
    let is_running = || Engine::get().is_some_and(|engine| engine.timers().generation() != 0);
    match session_clock() {
        Clock::Wall => is_running(),
        Clock::Auto | Clock::Cpu | Clock::Perf => {
            is_running() && NEW_THREADS.allows(clock::monotonic_nanos())
        }
        Clock::Itimer => false,
    }
}

static NEW_THREADS: Rate = Rate::rested();

/// True if the main thread has a timer, in clock `wall`.
pub(super) fn has_main_thread() -> bool {
    let has = |engine: &Engine| {
        let threads = engine.timers();
        let generation = threads.generation();
        generation != 0 && threads.has(TickThread { thread: process::id(), generation, now: 0 })
    };
    is_wall() && Engine::get().is_some_and(has)
}

/// Returns the unaccounted nanoseconds of all threads in clock `wall`; None in other clocks.
pub(crate) fn unaccounted_of_all() -> Option<u64> {
    if !is_wall() {
        return None;
    }
    let threads = Engine::get()?.timers();
    // A main thread that has exited exists as long as the process.
    if has_main_thread() && process::has_main_thread_exited() {
        threads.drop_timer(&OwnTimers, process::id());
    }
    let rest = if tick_source::has_only_thread_timers() {
        0
    } else {
        weight::unaccounted_nanos(clock::monotonic_nanos())
    };
    let unaccounted = if threads.generation() == 0 { 0 } else { threads.unaccounted(&OwnTimers) };
    let missed = SCAN.missed.load(Ordering::Relaxed);
    Some(rest.saturating_add(missed).saturating_add(u64::try_from(unaccounted).unwrap_or(0)))
}

/// Adopts the calling thread, which must block all signals.
pub(crate) fn adopt_caller() {
    let Some(engine) = Engine::get() else { return };
    let threads = engine.timers();
    let generation = threads.generation();
    // A forked copy has no session.
    let signal = SIGNAL.load(Ordering::Relaxed);
    if generation == 0 || fork_guard::running_signal() != signal || is_other_process() {
        return;
    }
    let tick_thread = TickThread { thread: thread::id(), generation, now: now() };
    if !(if is_wall() { threads.has(tick_thread) } else { threads.ensure_covered(&OwnTimers, tick_thread) }) {
        // In the long run, as many threads exit as are created.
        threads.reap(&OwnTimers, 4);
        threads.adopt(&OwnTimers, tick_thread, first_tick(tick_thread.thread));
    }
}

pub(super) fn process_cookie() -> usize {
    COOKIES.as_ptr() as usize
}

/// True for `number` from a profiler's timer other than the interval timer.
#[inline]
pub(crate) fn is_own_tick(number: i32, origin: Origin) -> bool {
    match origin {
        Origin::PosixTimer { .. } => index_of_cookie(origin).is_some(),
        // Also of a closed event: in the application's handler it could end the program.
        Origin::File(descriptor) => number == EVENT_SIGNAL && EVENT_DESCRIPTORS.contains(descriptor),
        Origin::IntervalTimer | Origin::Elsewhere => false,
    }
}

/// Returns the calling thread's table index, for a tick of its present or former timer.
#[inline]
pub(super) fn thread_tick(engine: &Engine, origin: Origin, caller: Option<Caller>) -> Option<usize> {
    match origin {
        Origin::PosixTimer { .. } => index_of_cookie(origin)?.checked_sub(1),
        Origin::File(descriptor) => {
            // An unknown timer has no weight, and needs no system call.
            let threads = engine.timers();
            let timer = OwnTimers::of_event(descriptor);
            Some(caller.and_then(|caller| threads.index_of(caller.thread, timer)).unwrap_or(usize::MAX))
        }
        Origin::IntervalTimer | Origin::Elsewhere => None,
    }
}

#[inline]
fn index_of_cookie(origin: Origin) -> Option<usize> {
    let Origin::PosixTimer { value } = origin else { return None };
    value.checked_sub(process_cookie()).filter(|place| *place < COOKIES.len())
}

/// True for a process tick that goes to the main thread unless that blocks it (before Linux 6.4).
pub(crate) fn signals_one_thread(origin: Origin) -> bool {
    matches!(origin, Origin::PosixTimer { .. }) && IS_OLD_KERNEL.load(Ordering::Relaxed)
}

/// POSIX timers by ID, which the kernel counts from 0; events by descriptor and a bit.
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
        // A cookie has one byte.
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
            // Fails for a timer that no longer exists.
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

    fn close_copy(&self, timer: i32, thread: u32) {
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
        /// Threads that may tick in one period.
        const CROWD: u32 = 32;
        if is_wall() { used.div_ceil(CROWD).max(1) } else { 1 }
    }
}
