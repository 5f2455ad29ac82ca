//! The timers that send ticks, and the interval timer's owner. Signal-safe: atomics, system calls.
//!
//! Ticks of CPU time come from the interval timer until the application arms it: before Linux 6.4
//! only it interrupts the running thread; a POSIX timer's signal goes to the main thread, unless
//! that blocks it. When the application arms it, a POSIX timer takes over; its signals have the
//! address of a static as value. Ticks never return to the interval timer: a signal of the
//! application's may still be pending there, as long as it is blocked.
//!
//! | `state` | interval timer | its signals are | the application reads |
//! | --- | --- | --- | --- |
//! | [`NONE`] | the application's, unless a disarm failed | the application's, or late ticks | the kernel's answer |
//! | [`INTERVAL`] | the profiler's | ticks | of ITIMER_PROF, that it is not armed |
//! | [`POSIX`], [`THREADS`] | the application's | the application's, or late ticks | the kernel's answer |
//!
//! Per-thread timers (`thread_timers.rs`) tick beside the source. In clock `wall` there is no other
//! source if the main thread has one. Otherwise, and if the profiling signal is not the interval
//! timer's, a POSIX timer is the source from the start; for `wall`, if need be, the interval timer.
//!
//! Each interval timer has one [`TickSource`]:
//!
//! | word | set | cleared | decides |
//! | --- | --- | --- | --- |
//! | `state` | by a start, or a change of source | by a stop, [`silence`], or a failed start or change | the source |
//! | `is_app_timer` | when the application arms it; in clock `wall` | if it becomes the source of `wall` | its owner, if it is not the source; the next source |
//! | `may_be_ours` | before the profiler arms it | by a stop or change that disarms it | whether a stop disarms it; if an armed one is the application's |
//! | `signal` | by a start | never | the signal of ticks, also of late ones |
//! | `period_micros` | by a start | by a stop | the next expirations |
//!
//! A forked child clears the first three. Writers (start, stop, `setitimer`, loss of per-thread
//! timers) hold a lock and block all signals. A tick reads; it only tries the lock, to set the next
//! expiration. [`silence`] writes `state` without the lock, and waits for its owner.

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

struct TickSource {
    state: AtomicI32,
    /// 0 before the first start.
    signal: AtomicI32,
    period_micros: AtomicU32,
    is_app_timer: AtomicBool,
    may_be_ours: AtomicBool,
}

/// [`TickSource::state`]: one of these, or a POSIX timer's ID plus [`POSIX`].
const THREADS: i32 = -1;
const NONE: i32 = 0;
const INTERVAL: i32 = 1;
const POSIX: i32 = 2;

static OF_CPU: TickSource = TickSource::new();
static OF_REAL: TickSource = TickSource::new();

/// Signals that the application would read without a handler: bit n - 1 for signal n.
static READ_BY_APP: AtomicU64 = AtomicU64::new(0);

static IS_STATE_LOCKED: AtomicBool = AtomicBool::new(false);

/// The owner of the interval timer that sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOwner {
    Profiler,
    Application,
    /// A late tick, or a timer that the application has armed by a direct system call.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartError {
    /// The application uses the interval timer, and no other can be created (error number).
    NoTimer(i32),
    /// The system call for the interval timer fails (error number).
    NotArmed(i32),
    /// The application uses `signalfd(2)`, or `sigwait(3)` while all threads block the signal.
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

    fn set_next(&self, nanos: u64) {
        let period_micros = self.period_micros.load(Ordering::Relaxed);
        // SeqCst: after the lock is taken; pairs with `silence`.
        let state = self.state.load(Ordering::SeqCst);
        if let Some(posix) = Self::posix_timer_of(state) {
            // Fails for a timer that no longer exists.
            let _ = posix.set(nanos, u64::from(period_micros) * 1000);
        } else if state == INTERVAL {
            let every = Itimerval::every(period_micros);
            // The application may have armed it by a direct system call.
            if IntervalTimer::Cpu.get().is_ok_and(|present| present.has_interval_of(&every)) {
                let _ = IntervalTimer::Cpu.set(every.next_in(nanos));
            }
        }
    }

    fn start_posix(&self, timer: IntervalTimer, period_micros: u32) -> Result<(), StartError> {
        let signal = self.signal.load(Ordering::Relaxed);
        if timer == IntervalTimer::Real {
            // Per-thread timers have accounted for the time until now.
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
        // Before the timer: its first tick must find its owner.
        self.state.store(INTERVAL, Ordering::Release);
        timer.set(Itimerval::every(period_micros)).map(|_| ()).map_err(|errno| {
            self.state.store(NONE, Ordering::Release);
            StartError::NotArmed(errno)
        })
    }
}

/// True if the main thread, too, has a per-thread timer of elapsed time.
pub(super) fn has_only_thread_timers() -> bool {
    OF_REAL.state.load(Ordering::Relaxed) == THREADS
}

/// Starts ticks; the process's first after one period, or two if threads have timers.
///
/// # Errors
/// The reason why there are none.
pub(crate) fn start(clock: Clock, signal: i32, period_micros: u32) -> Result<(), StartError> {
    let timer = clock.timer();
    let source = TickSource::of(timer);
    let _writing = StateLock::begin();
    source.signal.store(signal, Ordering::Relaxed);
    // Before any timer is created: the application would read its signals.
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
    } else if timer == IntervalTimer::Cpu && engine.timers().generation() != 0 {
        source.set_next(2 * u64::from(period_micros) * 1000);
    }
    started
}

/// Sets the nanoseconds of CPU time to the next process tick. False if another thread writes.
pub(super) fn set_next(nanos: u64) -> bool {
    let Some(_writing) = StateLock::try_begin() else { return false };
    OF_CPU.set_next(nanos);
    true
}

/// Deletes per-thread timers for good; the process's timer continues.
pub(crate) fn leave_threads() {
    if !thread_timers::is_other_process() {
        let _writing = StateLock::begin();
        continue_without_threads(thread_timers::forbid_timers());
    }
}

/// Deletes per-thread timers of signal `number`, which the application handles now.
pub(crate) fn leave_threads_to_handler(number: i32) {
    if !thread_timers::is_other_process() {
        let _writing = StateLock::begin();
        continue_without_threads(thread_timers::leave_to_handler(number));
    }
}

/// Makes the process's timer tick if per-thread timers `have_ended`. Creates it if needed.
fn continue_without_threads(have_ended: bool) {
    if have_ended {
        OF_CPU.set_next(u64::from(OF_CPU.period_micros.load(Ordering::Relaxed)) * 1000);
    }
    if has_only_thread_timers() && !thread_timers::has_main_thread() {
        OF_REAL.state.store(NONE, Ordering::Release);
        let _ = start_process(&OF_REAL, IntervalTimer::Real, OF_REAL.period_micros.load(Ordering::Relaxed));
    }
}

fn start_process(source: &TickSource, timer: IntervalTimer, period_micros: u32) -> Result<(), StartError> {
    source.period_micros.store(period_micros, Ordering::Relaxed);
    let signal = source.signal.load(Ordering::Relaxed);
    if timer == IntervalTimer::Real && thread_timers::has_main_thread() {
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
        // The interval timer's signals are then the application's, also by `alarm(2)`.
        source.is_app_timer.store(started.is_ok(), Ordering::Release);
        return started.or_else(|_| source.start_interval(timer, period_micros));
    }
    // The application may have armed it before the profiler was loaded, or uninterposed.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopResult {
    WasTicking,
    /// The application has set the interval timer by a direct system call.
    TakenByApp,
}

/// Stops ticks; a pending one may still arrive.
///
/// # Errors
/// The error number of `setitimer(2)`: ticks continue.
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

/// Deletes a timer, unless that may kill the process: then the handler ignores its signals.
fn delete(timer: PosixTimer) {
    if !thread_timers::is_forbidden() {
        timer.delete();
    }
}

/// Stops ticks without the lock; waits at most two seconds for a writer. For a thread that is about
/// to call `exec`. After a failed call, [`start`] begins anew.
///
/// # Errors
/// As [`stop`], or EBUSY if another thread may arm the timer.
pub(crate) fn silence(timer: IntervalTimer) -> Result<(), i32> {
    thread_timers::end_if_any();
    let source = TickSource::of(timer);
    let posix = source.posix_timer();
    source.state.store(NONE, Ordering::SeqCst);
    // A handler that has loaded the old state may set the timer again.
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

/// Discards the caller's and the process's pending ticks. The caller has blocked all signals.
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

pub(crate) fn signal_of(timer: IntervalTimer) -> i32 {
    match TickSource::of(timer).signal.load(Ordering::Relaxed) {
        0 => timer.signal(),
        signal => signal,
    }
}

fn bit(signal: i32) -> u64 {
    1u64.checked_shl((signal - 1) as u32).unwrap_or(0)
}

pub(crate) fn is_ticking(timer: IntervalTimer) -> bool {
    TickSource::of(timer).state.load(Ordering::Relaxed) != NONE
}

/// Returns the interval timer's owner for signal `number`; `running` is the session's signal.
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

/// True for a tick that was pending when its session stopped, which the application must not get:
/// the last session had this signal, and the interval timer is not armed.
pub(crate) fn was_own_tick(number: i32) -> bool {
    let timer = weight::timer();
    let had_session =
        timer.signal() == number && TickSource::of(timer).signal.load(Ordering::Relaxed) == number;
    had_session && timer.get().is_ok_and(|setting| !setting.is_armed())
}

/// `setitimer(2)` of the CPU timer. Returns its old setting, and why ticks end, if they do.
///
/// # Errors
/// The error number for the application.
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
        // A pending tick must not become the application's.
        signal::discard_own_pending(TIMER.signal(), |origin| origin == Origin::IntervalTimer);
        source.state.store(NONE, Ordering::Release);
        let period_micros = source.period_micros.load(Ordering::Relaxed);
        refusal = source
            .start_posix(TIMER, period_micros)
            .or_else(|_| {
                // Per-thread timers may use what this one needs.
                thread_timers::end_if_any();
                source.start_posix(TIMER, period_micros)
            })
            .err();
    }
    if new.is_armed() {
        // Before it is armed: its first signal must find its owner.
        app_timer::on_armed(&new);
        source.is_app_timer.store(true, Ordering::Release);
    } else {
        app_timer::on_disarmed();
    }
    let old = TIMER.set(new)?;
    Ok((if is_ours { Itimerval::NONE } else { old }, refusal))
}

/// `getitimer(2)` of the CPU timer.
///
/// # Errors
/// The error number for the application.
pub(crate) fn get_for_app() -> Result<Itimerval, i32> {
    if OF_CPU.state.load(Ordering::Acquire) == INTERVAL {
        return Ok(Itimerval::NONE);
    }
    IntervalTimer::Cpu.get()
}

/// Ends ticks of `number`, which the application reads by `signalfd(2)`. True if there were any.
pub(crate) fn yield_signal_to_readers(number: i32) -> bool {
    READ_BY_APP.fetch_or(bit(number), Ordering::Relaxed);
    end(number)
}

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

/// Swallowed ticks in a row that may keep an application waiting.
const MAX_SWALLOWED: u32 = 20;

/// Swallowed ticks since the last recorded one, and the number of recorded ones then.
static SWALLOWED: AtomicU32 = AtomicU32::new(0);
static RECORDED: AtomicI32 = AtomicI32::new(0);
/// When the last counted tick was swallowed, by the clock of [`weight`].
static SWALLOWED_AT: AtomicU64 = AtomicU64::new(0);

/// Counts a tick that `sigwait(3)` took: the running thread blocks the signal. If all threads do,
/// no tick is recorded, and the kernel drops the application's signals while one is pending: this
/// stops ticks, and returns true. Simultaneous ticks count as one: real-time signals queue.
pub(crate) fn count_swallowed_tick(number: i32, recorded: i32) -> bool {
    is_one_too_many(recorded, weight::has_passed_since(SWALLOWED_AT.load(Ordering::Relaxed))) && end(number)
}

/// Counts a tick at `now` that `is_apart` from the last one. True if it is one too many.
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

/// In a forked child, which has no timer and no other thread.
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

/// True if a tick was taken by `sigwait(3)`: the application continues to wait.
pub(crate) fn swallows(number: i32, origin: Origin, running: i32) -> bool {
    match origin {
        Origin::PosixTimer { .. } | Origin::File(_) => is_own_tick(number, origin),
        Origin::IntervalTimer => match timer_owner(number, running) {
            TimerOwner::Profiler => true,
            TimerOwner::Application => number == IntervalTimer::Cpu.signal() && app_timer::is_too_early(),
            // A late tick, unless the application uses timers unseen, with a handler.
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

/// The lock of writers, with all signals blocked.
struct StateLock {
    /// None in a handler, which blocks all signals: dropping [`AllBlocked`] may cancel the thread.
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

    /// For a handler of ticks. None if another thread has the lock.
    fn try_begin() -> Option<Self> {
        let is_ours =
            IS_STATE_LOCKED.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // Made only in this case: its drop releases the lock.
        is_ours.then(|| Self { blocked: None })
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Before the mask changes.
        IS_STATE_LOCKED.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_swallowed(recorded: i32) -> u32 {
        (1..).find(|&count| is_one_too_many(recorded, (true, count.into()))).expect("numbers do not end")
    }

    #[test]
    fn failed_try_begin_does_not_release_the_lock() {
        let first = StateLock::try_begin().expect("nobody writes");
        assert!(StateLock::try_begin().is_none() && StateLock::try_begin().is_none());
        drop(first);
        drop(StateLock::try_begin().expect("nobody writes"));
        drop(StateLock::begin());
    }

    /// One test of all counters, so that no other test changes them.
    #[test]
    fn counts_swallowed_ticks_until_one_is_recorded_or_a_fork() {
        const AFTER: u32 = MAX_SWALLOWED + 1;
        assert_eq!(count_swallowed(1), AFTER);
        assert_eq!(count_swallowed(1), 1, "the row continues");
        assert_eq!(count_swallowed(2), AFTER, "one was recorded");
        reset_after_fork();
        assert_eq!(count_swallowed(2), AFTER);
        reset_after_fork();
        assert!((0..10 * AFTER).all(|_| !is_one_too_many(2, (false, 1))));
        assert_eq!(count_swallowed(2), MAX_SWALLOWED);
    }
}
