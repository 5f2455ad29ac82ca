//! Which timer sends our ticks, and whose the process's interval timer is.
//!
//! A process has one interval timer for each signal of ours. Ticks of elapsed time never need it. Ticks of CPU time come
//! from it as long as the host does not want it: before Linux 6.4 it alone interrupts the thread that was running, while a
//! POSIX timer's signal goes to the first thread if that takes it. Once the host arms it, it is the host's for good, and
//! our ticks come from a POSIX timer, told by the value in their signals. They never move back: a signal of the host's
//! timer may be pending for as long as the host blocks it.
//!
//! | source | interval timer | its signals are | host is told |
//! | --- | --- | --- | --- |
//! | none | as the host has it | the host's, or late ticks | the kernel's answer |
//! | interval timer | ours | ticks | that it is not armed |
//! | POSIX timer | the host's | the host's | the kernel's answer |
//! | threads' timers | the host's | the host's | the kernel's answer |
//!
//! The last of these is for elapsed time, of which the first thread has a timer of its own as all others have.
//!
//! Ticks that are to have another signal than the interval timer's come from a POSIX timer from the start.
//!
//! In clocks `cpu`, `perf` and `wall` threads have timers of their own beside that one ([`thread_timers`]).
//!
//! Who writes: ordinary context, toggles, and hosts that call `setitimer`, wherever they are; one at a time, with all signals
//! blocked. Who reads: the handler.

use super::{
    app_disposition::AppDisposition,
    app_timer,
    engine::Engine,
    remainder,
    thread_timers::{self, is_own_tick},
    weight,
};
use crate::{
    config::Clock,
    error::Failure,
    sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering},
    sys::{
        errno,
        posix_timer::PosixTimer,
        signal::{self, AllBlocked, Origin},
        thread::Backoff,
        timer::{IntervalTimer, Itimerval},
    },
};

/// See the module.
struct TickSource {
    state: AtomicI32,
    /// What the last ticks were, or 0.
    signal: AtomicI32,
    /// Of ticks that are on, or would be if a timer were to be had.
    period_micros: AtomicU32,
    /// The interval timer is the host's.
    is_app_timer: AtomicBool,
    /// The interval timer may be armed by us: ever since we armed it, until it was disarmed without an error.
    may_be_ours: AtomicBool,
}

/// Values of [`TickSource::state`]: these, or the name of a POSIX timer and [`POSIX`].
const THREADS: i32 = -1;
const NONE: i32 = 0;
const INTERVAL: i32 = 1;
const POSIX: i32 = 2;

static OF_CPU: TickSource = TickSource::new();
static OF_REAL: TickSource = TickSource::new();

/// Signals whose ticks would reach the host by other ways than handlers: bit n - 1 for signal n.
static READ_BY_APP: AtomicU64 = AtomicU64::new(0);

/// Set while somebody writes.
static IS_STATE_LOCKED: AtomicBool = AtomicBool::new(false);

/// TimerOwner the signal of an interval timer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOwner {
    Profiler,
    Application,
    /// A late tick of ours, or of a timer that the host has armed by a system call of its own.
    Unknown,
}

/// Why no ticks come though they are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartError {
    /// The host uses the interval timer, and a timer beside it cannot be created, with this error number.
    NoTimer(i32),
    /// The system call for the interval timer fails with this error number.
    NotArmed(i32),
    /// The host takes the signal by `signalfd(2)`, or by `sigwait(3)` while all threads block it.
    ReadByApp,
}

impl TickSource {
    const fn new() -> Self {
        Self {
            state: AtomicI32::new(NONE),
            signal: AtomicI32::new(0),
            period_micros: AtomicU32::new(0),
            is_app_timer: AtomicBool::new(false),
            may_be_ours: AtomicBool::new(false),
        }
    }

    fn of(timer: IntervalTimer) -> &'static Self {
        if timer == IntervalTimer::Cpu { &OF_CPU } else { &OF_REAL }
    }

    /// That of the interval timer which has this signal.
    fn of_interval(number: i32) -> Option<&'static Self> {
        let timer =
            [IntervalTimer::Cpu, IntervalTimer::Real].into_iter().find(|timer| timer.signal() == number);
        timer.map(Self::of)
    }

    fn posix_timer(&self) -> Option<PosixTimer> {
        Self::posix_timer_of(self.state.load(Ordering::Relaxed))
    }

    fn posix_timer_of(state: i32) -> Option<PosixTimer> {
        (state >= POSIX).then(|| PosixTimer(state - POSIX))
    }

    /// See [`set_next`].
    fn set_next(&self, nanos: u64) {
        let period_micros = self.period_micros.load(Ordering::Relaxed);
        // SeqCst: after the start of writing; partner of `silence`.
        let state = self.state.load(Ordering::SeqCst);
        if let Some(posix) = Self::posix_timer_of(state) {
            // It fails for a timer that is not there any more.
            let _ = posix.set(nanos, u64::from(period_micros) * 1000);
        } else if state == INTERVAL {
            let every = Itimerval::every(period_micros);
            // The application may have armed it by a system call of its own.
            if IntervalTimer::Cpu.get().is_ok_and(|present| present.has_interval_of(&every)) {
                let _ = IntervalTimer::Cpu.set(every.next_in(nanos));
            }
        }
    }

    fn start_posix(&self, timer: IntervalTimer, period_micros: u32) -> Result<(), StartError> {
        let signal = self.signal.load(Ordering::Relaxed);
        if timer == IntervalTimer::Real {
            // What has passed was of threads' own timers.
            weight::charge_all();
        }
        let started = PosixTimer::start(timer, signal, period_micros, thread_timers::process_cookie())
            .map_err(StartError::NoTimer)?;
        self.state.store(started.0.saturating_add(POSIX), Ordering::Release);
        remainder::on_timer_start();
        Ok(())
    }

    fn start_interval(&self, timer: IntervalTimer, period_micros: u32) -> Result<(), StartError> {
        self.may_be_ours.store(true, Ordering::Relaxed);
        // Before the timer: its first tick finds itself ours.
        self.state.store(INTERVAL, Ordering::Release);
        timer.set(Itimerval::every(period_micros)).map(|_| ()).map_err(|errno| {
            self.state.store(NONE, Ordering::Release);
            StartError::NotArmed(errno)
        })
    }
}

/// True while elapsed time is sampled by threads' own timers, the first one's among them. Signal-safe.
pub(super) fn has_only_thread_timers() -> bool {
    OF_REAL.state.load(Ordering::Relaxed) == THREADS
}

/// Lets ticks come, the process's first after one period. Signal-safe.
///
/// # Errors
/// Why none come.
pub(crate) fn start(clock: Clock, signal: i32, period_micros: u32) -> Result<(), StartError> {
    let timer = clock.timer();
    let source = TickSource::of(timer);
    let _writing = StateLock::begin();
    source.signal.store(signal, Ordering::Relaxed);
    // Before any timer is made: what it sends would be read.
    if READ_BY_APP.load(Ordering::Relaxed) & bit(signal) != 0 {
        source.period_micros.store(period_micros, Ordering::Relaxed);
        return Err(StartError::ReadByApp);
    }
    let Some(engine) = Engine::get() else {
        return start_process(source, timer, period_micros);
    };
    thread_timers::begin(engine, clock, signal, period_micros);
    let started = start_process(source, timer, period_micros);
    if started.is_err() {
        thread_timers::end(engine);
    } else if timer == IntervalTimer::Cpu && engine.threads().generation() != 0 {
        // After the threads' first ticks.
        source.set_next(2 * u64::from(period_micros) * 1000);
    }
    started
}

/// Sets after how much CPU time, in nanoseconds, the process's timer ticks next; its interval stays one period. False if another
/// thread writes now. For handlers of ticks. Signal-safe: system calls.
pub(super) fn set_next(nanos: u64) -> bool {
    let Some(_writing) = StateLock::try_begin() else { return false };
    OF_CPU.set_next(nanos);
    true
}

/// Ends threads' own timers, for good: from now on the process's timer samples what it can. Signal-safe.
pub(crate) fn leave_threads() {
    if !thread_timers::is_other_process() {
        let _writing = StateLock::begin();
        continue_without_threads(thread_timers::forbid());
    }
}

/// The host has a handler of its own for `number` from now on: threads' own timers of this signal end. Signal-safe.
pub(crate) fn leave_threads_to_handler(number: i32) {
    if !thread_timers::is_other_process() {
        let _writing = StateLock::begin();
        continue_without_threads(thread_timers::leave_to_handler(number));
    }
}

/// Lets the process's timer tick each period, if threads' timers `have_ended` just now. Makes it if there was none; if that fails,
/// the session has no ticks from now on.
fn continue_without_threads(have_ended: bool) {
    if have_ended {
        OF_CPU.set_next(u64::from(OF_CPU.period_micros.load(Ordering::Relaxed)) * 1000);
    }
    if has_only_thread_timers() && !thread_timers::has_first_thread() {
        OF_REAL.state.store(NONE, Ordering::Release);
        let _ = start_process(&OF_REAL, IntervalTimer::Real, OF_REAL.period_micros.load(Ordering::Relaxed));
    }
}

fn start_process(source: &TickSource, timer: IntervalTimer, period_micros: u32) -> Result<(), StartError> {
    source.period_micros.store(period_micros, Ordering::Relaxed);
    let signal = source.signal.load(Ordering::Relaxed);
    if timer == IntervalTimer::Real && thread_timers::has_first_thread() {
        source.is_app_timer.store(true, Ordering::Release);
        source.state.store(THREADS, Ordering::Release);
        return Ok(());
    }
    if signal != timer.signal() {
        return source.start_posix(timer, period_micros).map_err(|refusal| match refusal {
            StartError::NoTimer(errno) => StartError::NotArmed(errno),
            refusal => refusal,
        });
    }
    if timer == IntervalTimer::Real {
        let started = source.start_posix(timer, period_micros);
        // With a timer of our own the signals of the interval timer are the host's, be it by `alarm(2)`.
        source.is_app_timer.store(started.is_ok(), Ordering::Release);
        return started.or_else(|_| source.start_interval(timer, period_micros));
    }
    // The host may have armed it where nobody saw it: before we were loaded, or in a program that has only linked the crate.
    if !source.is_app_timer.load(Ordering::Relaxed) && !source.may_be_ours.load(Ordering::Relaxed) {
        if let Some(setting) = timer.get().ok().filter(Itimerval::is_armed) {
            app_timer::on_armed(&setting);
            source.is_app_timer.store(true, Ordering::Release);
        }
    }
    if source.is_app_timer.load(Ordering::Relaxed) {
        source.start_posix(timer, period_micros)
    } else {
        source.start_interval(timer, period_micros)
    }
}

/// What [`stop`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopResult {
    /// Nothing of note.
    WasTicking,
    /// The interval timer was not as we had armed it: the host has, by a system call of its own.
    TakenByApp,
}

/// Ends the ticks. What is pending may still arrive. Signal-safe.
///
/// # Errors
/// The error number of `setitimer(2)`: they go on.
pub(crate) fn stop(timer: IntervalTimer) -> Result<StopResult, i32> {
    let source = TickSource::of(timer);
    let _writing = StateLock::begin();
    thread_timers::end_if_any();
    let period_micros = source.period_micros.swap(0, Ordering::Relaxed);
    if let Some(posix) = source.posix_timer() {
        delete(posix);
    } else if source.state.load(Ordering::Relaxed) == INTERVAL || source.may_be_ours.load(Ordering::Relaxed) {
        let is_ours = source.state.swap(NONE, Ordering::AcqRel) == INTERVAL;
        let old = timer.set(Itimerval::NONE)?;
        source.may_be_ours.store(false, Ordering::Relaxed);
        if is_ours && !old.has_interval_of(&Itimerval::every(period_micros)) {
            return Ok(StopResult::TakenByApp);
        }
    }
    source.state.store(NONE, Ordering::Release);
    Ok(StopResult::WasTicking)
}

/// Ends a timer of the process, unless that may end the process: it ends with the program in any case, and until then our handler
/// takes its signals for nothing.
fn delete(timer: PosixTimer) {
    if !thread_timers::is_forbidden() {
        timer.delete();
    }
}

/// Ends the ticks without the right to write; waits for a writer, two seconds at most. For a thread that is about to replace the
/// program. If that fails, [`start`] begins anew. Signal-safe.
///
/// # Errors
/// As [`stop`], or EBUSY if another thread may arm the timer.
pub(crate) fn silence(timer: IntervalTimer) -> Result<(), i32> {
    thread_timers::end_if_any();
    let source = TickSource::of(timer);
    let posix = source.posix_timer();
    source.state.store(NONE, Ordering::SeqCst);
    // A handler that has found the old state sets the timer once more.
    let mut backoff = Backoff::bounded();
    while IS_STATE_LOCKED.load(Ordering::SeqCst) {
        if !backoff.wait() {
            return Err(errno::EBUSY);
        }
    }
    if let Some(posix) = posix {
        delete(posix);
    } else if source.may_be_ours.load(Ordering::Relaxed) {
        timer.set(Itimerval::NONE)?;
    }
    Ok(())
}

/// Takes back ticks that are pending for the process or the calling thread, which has all signals blocked. For who has
/// stopped them. Signal-safe.
pub(crate) fn discard_pending_ticks(timer: IntervalTimer) {
    let signal = signal_of(timer);
    if thread_timers::leaves_pending(signal) {
        return;
    }
    let is_app_timer = signal != timer.signal() || TickSource::of(timer).is_app_timer.load(Ordering::Relaxed);
    signal::discard_own_pending(signal, |origin| match origin {
        Origin::IntervalTimer => !is_app_timer,
        Origin::PosixTimer { .. } | Origin::File(_) => is_own_tick(signal, origin),
        Origin::Elsewhere => false,
    });
}

/// The signal of the timer's ticks, as they were last. Signal-safe.
pub(crate) fn signal_of(timer: IntervalTimer) -> i32 {
    match TickSource::of(timer).signal.load(Ordering::Relaxed) {
        0 => timer.signal(),
        signal => signal,
    }
}

fn bit(signal: i32) -> u64 {
    1u64.checked_shl((signal - 1) as u32).unwrap_or(0)
}

/// True while ticks are to come. Signal-safe.
pub(crate) fn is_ticking(timer: IntervalTimer) -> bool {
    TickSource::of(timer).state.load(Ordering::Relaxed) != NONE
}

/// TimerOwner the signal `number` of an interval timer is, when the session that runs ticks by `running`. Signal-safe.
#[inline]
pub(crate) fn timer_owner(number: i32, running: i32) -> TimerOwner {
    let Some(source) = TickSource::of_interval(number) else { return TimerOwner::Unknown };
    if running == number && source.state.load(Ordering::Acquire) == INTERVAL {
        TimerOwner::Profiler
    } else if source.is_app_timer.load(Ordering::Acquire) {
        TimerOwner::Application
    } else {
        TimerOwner::Unknown
    }
}

/// True for a signal of an interval timer that is disarmed by now, and was armed by us in an earlier session: it was pending when
/// that ended. A handler of the program may end the program. Signal-safe: one system call.
pub(crate) fn was_own_tick(number: i32) -> bool {
    let timer = weight::timer();
    let had_session =
        timer.signal() == number && TickSource::of(timer).signal.load(Ordering::Relaxed) == number;
    had_session && timer.get().is_ok_and(|setting| !setting.is_armed())
}

/// `setitimer(2)` for a host whose SIGPROF is handled by us, and its timer that of CPU time. Gives what the timer was, and
/// why our ticks end, if they do. Signal-safe.
///
/// # Errors
/// The error number for the host.
pub(crate) fn set_for_app(new: Itimerval) -> Result<(Itimerval, Option<StartError>), i32> {
    const TIMER: IntervalTimer = IntervalTimer::Cpu;
    if !new.is_valid() {
        return Err(errno::EINVAL);
    }
    let source = TickSource::of(TIMER);
    let _writing = StateLock::begin();
    let is_ours = source.state.load(Ordering::Relaxed) == INTERVAL;
    if is_ours && !new.is_armed() {
        return Ok((Itimerval::NONE, None));
    }
    let mut refusal = None;
    if is_ours {
        TIMER.set(Itimerval::NONE)?;
        source.may_be_ours.store(false, Ordering::Relaxed);
        // A tick of ours that is pending must not become the host's.
        signal::discard_own_pending(TIMER.signal(), |origin| origin == Origin::IntervalTimer);
        source.state.store(NONE, Ordering::Release);
        let period_micros = source.period_micros.load(Ordering::Relaxed);
        refusal = source
            .start_posix(TIMER, period_micros)
            .or_else(|_| {
                // What threads' timers take may be what this one lacks. Without it they would find no more threads.
                thread_timers::end_if_any();
                source.start_posix(TIMER, period_micros)
            })
            .err();
    }
    if new.is_armed() {
        // Before it is: its first signal finds itself the host's.
        app_timer::on_armed(&new);
        source.is_app_timer.store(true, Ordering::Release);
    } else {
        app_timer::on_disarmed();
    }
    let old = TIMER.set(new)?;
    Ok((if is_ours { Itimerval::NONE } else { old }, refusal))
}

/// `getitimer(2)` for such a host. Signal-safe.
///
/// # Errors
/// The error number for the host.
pub(crate) fn get_for_app() -> Result<Itimerval, i32> {
    if OF_CPU.state.load(Ordering::Acquire) == INTERVAL {
        return Ok(Itimerval::NONE);
    }
    IntervalTimer::Cpu.get()
}

/// The host is about to read `number` by `signalfd(2)`: ticks would turn up there, as signals that nobody has sent. Ends
/// them, for good; true if there were any. Signal-safe.
pub(crate) fn yield_signal_to_readers(number: i32) -> bool {
    READ_BY_APP.fetch_or(bit(number), Ordering::Relaxed);
    end(number)
}

/// Ends the ticks that have this signal; true if there were any.
fn end(number: i32) -> bool {
    let has_ticks = |timer: &IntervalTimer| is_ticking(*timer) && signal_of(*timer) == number;
    let Some(timer) = [IntervalTimer::Cpu, IntervalTimer::Real].into_iter().find(has_ticks) else {
        return false;
    };
    let _ = stop(timer);
    let _blocked = AllBlocked::new();
    discard_pending_ticks(timer);
    true
}

/// How often in a row a host may be kept waiting by ticks.
const MAX_SWALLOWED: u32 = 20;

/// Ticks that were hidden from the host since the last one that was recorded, and the number of those at that time.
static SWALLOWED: AtomicU32 = AtomicU32::new(0);
static RECORDED: AtomicI32 = AtomicI32::new(0);
/// When the last of them was hidden that counts, by the clock of [`weight`].
static SWALLOWED_AT: AtomicU64 = AtomicU64::new(0);

/// A tick was taken by who waits for the signal, so the thread that was running blocks it. Where that goes on all threads do,
/// no tick comes to anything, and one that is pending makes the kernel drop the host's own signals: ticks end then, and
/// this is true. Those that come in no time count as one: of events with a real-time signal as many are pending as came while it
/// was blocked, which says nothing of what goes on. Signal-safe.
pub(crate) fn count_swallowed_tick(number: i32, recorded: i32) -> bool {
    is_one_too_many(recorded, weight::has_passed_since(SWALLOWED_AT.load(Ordering::Relaxed))) && end(number)
}

/// The same, at the moment `now`, of a tick that `is_apart` from the last one that counts.
fn is_one_too_many(recorded: i32, (is_apart, now): (bool, u64)) -> bool {
    if RECORDED.swap(recorded, Ordering::Relaxed) != recorded {
        SWALLOWED.store(0, Ordering::Relaxed);
    }
    if SWALLOWED.load(Ordering::Relaxed) > 0 && !is_apart {
        return false;
    }
    SWALLOWED_AT.store(now, Ordering::Relaxed);
    SWALLOWED.fetch_add(1, Ordering::Relaxed) >= MAX_SWALLOWED
}

/// In a forked child: it has no timer, and no other thread.
pub(crate) fn reset_after_fork() {
    for source in [&OF_CPU, &OF_REAL] {
        source.state.store(NONE, Ordering::Relaxed);
        source.is_app_timer.store(false, Ordering::Relaxed);
        source.may_be_ours.store(false, Ordering::Relaxed);
    }
    thread_timers::reset_after_fork();
    app_timer::on_disarmed();
    SWALLOWED.store(0, Ordering::Relaxed);
    IS_STATE_LOCKED.store(false, Ordering::Release);
}

impl From<StartError> for Failure {
    fn from(refusal: StartError) -> Self {
        let (action, errno) = match refusal {
            StartError::NoTimer(errno) => ("create a timer beside the program's own ITIMER_PROF", errno),
            StartError::NotArmed(errno) => ("arm the profiling timer", errno),
            StartError::ReadByApp => ("send ticks to a program that uses their signal itself", errno::EBUSY),
        };
        Self::System { action, errno }
    }
}

/// True when the signal `number`, which was taken by `sigwait(3)` and its like, is a tick of ours, so that the host goes on
/// waiting. Signal-safe.
pub(crate) fn swallows(number: i32, origin: Origin, running: i32) -> bool {
    match origin {
        Origin::PosixTimer { .. } | Origin::File(_) => is_own_tick(number, origin),
        Origin::IntervalTimer => match timer_owner(number, running) {
            TimerOwner::Profiler => true,
            TimerOwner::Application => number == IntervalTimer::Cpu.signal() && app_timer::is_too_early(),
            // A late tick, unless the host uses timers in ways that nobody sees; then it has a handler, or reads them.
            TimerOwner::Unknown => {
                AppDisposition::of(number).is_some_and(AppDisposition::is_replaced) && is_late(number)
            }
        },
        Origin::Elsewhere => false,
    }
}

fn is_late(number: i32) -> bool {
    weight::timer().signal() == number && TickSource::of(weight::timer()).may_be_ours.load(Ordering::Relaxed)
}

/// The right to write, with all signals blocked.
struct StateLock {
    /// None in a handler, in which all signals are blocked. The end of [`AllBlocked`] can cancel the thread, which would unwind the
    /// handler.
    #[expect(dead_code, reason = "held for its drop")]
    blocked: Option<AllBlocked>,
}

impl StateLock {
    fn begin() -> Self {
        let blocked = AllBlocked::new();
        let mut backoff = Backoff::unbounded();
        while IS_STATE_LOCKED
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            backoff.wait();
        }
        Self { blocked: Some(blocked) }
    }

    /// The same for a handler of ticks; None if another thread has it.
    fn try_begin() -> Option<Self> {
        let is_ours =
            IS_STATE_LOCKED.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // Made only in this case: its drop ends the right to write.
        is_ours.then(|| Self { blocked: None })
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Before the mask comes back.
        IS_STATE_LOCKED.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks that are hidden, each apart from the one before, until one is too many.
    fn count_hidden(recorded: i32) -> u32 {
        (1..).find(|&count| is_one_too_many(recorded, (true, count.into()))).expect("numbers do not end")
    }

    #[test]
    fn a_handler_that_may_not_write_takes_the_right_from_nobody() {
        let first = StateLock::try_begin().expect("nobody writes");
        assert!(StateLock::try_begin().is_none() && StateLock::try_begin().is_none());
        drop(first);
        drop(StateLock::try_begin().expect("nobody writes"));
        drop(StateLock::begin());
    }

    /// All that there is to count in, so that no test of it runs beside another.
    #[test]
    fn ticks_are_hidden_in_a_row_until_one_is_recorded_or_the_process_is_a_copy() {
        const AFTER: u32 = MAX_SWALLOWED + 1;
        assert_eq!(count_hidden(1), AFTER);
        assert_eq!(count_hidden(1), 1, "the row goes on");
        assert_eq!(count_hidden(2), AFTER, "one was recorded");
        // What its parent has counted is nothing to a child.
        reset_after_fork();
        assert_eq!(count_hidden(2), AFTER);
        // Those that come at one moment are one.
        reset_after_fork();
        assert!((0..10 * AFTER).all(|_| !is_one_too_many(2, (false, 1))));
        assert_eq!(count_hidden(2), MAX_SWALLOWED);
    }
}
