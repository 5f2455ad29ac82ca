//! The remainder: CPU time that no thread's own tick will represent, in clocks `cpu`, `perf` and `auto`. It is that of threads
//! without a timer, and of threads that have exited before a tick of their own.
//!
//! The process's ticks represent it. If there is none, they are not only needless. If a thread's tick and a process's tick are
//! pending at once, the kernel delivers the thread's, blocks the signal for the handler, and therefore wakes another thread for
//! the process's (`retarget_shared_pending` in kernel/signal.c). That interrupts system calls, of which some fail with EINTR. So
//! the process's timer is postponed as long as the remainder is below a period:
//!
//! | process's timer | surveys are made by | remainder below a period | from a period on |
//! | --- | --- | --- | --- |
//! | postponed | threads' ticks | it is postponed further | it ticks each period from now on |
//! | ticks each period | process's ticks | it is postponed | the tick represents it, if its thread may |
//!
//! A postponed timer ticks if threads' ticks do not come.
//!
//! A survey asks the clocks of all threads. It asks the process's clock first. So time that passes meanwhile is missing in the
//! remainder, and is in the next one; none is in it twice.

use super::{engine::Engine, thread_timers::OwnTimers, tick_source, weight};
use crate::{
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    sys::clock,
};

/// See the module.
struct Remainder {
    is_postponed: AtomicBool,
    /// A survey is being made.
    is_surveyed: AtomicBool,
    /// When the next survey may be made, by the monotonic clock.
    next_survey: AtomicU64,
    /// The process's CPU clock at the last survey.
    last_cpu: AtomicU64,
    /// Process's ticks in a row that met a remainder, on threads that may not represent it.
    vain_ticks: AtomicU32,
    /// Nanoseconds of the remainder that no thread could represent. They wait for one, but do not bring the timer forward.
    conceded: AtomicU64,
}

static REMAINDER: Remainder = Remainder {
    is_postponed: AtomicBool::new(false),
    is_surveyed: AtomicBool::new(false),
    next_survey: AtomicU64::new(0),
    last_cpu: AtomicU64::new(0),
    vain_ticks: AtomicU32::new(0),
    conceded: AtomicU64::new(0),
};

/// A survey takes one part in so many of the elapsed time.
const SHARE: u64 = 200;
/// Nanoseconds between two surveys.
const SHORTEST_PAUSE: u64 = 1_000_000;
const LONGEST_PAUSE: u64 = 1_000_000_000;
/// Nanoseconds of CPU time. If threads' ticks do not come, each postponement is twice as long as the one before.
const LONGEST_POSTPONEMENT: u64 = 10_000_000_000;
/// See [`Remainder::vain_ticks`].
const MOST_VAIN_TICKS: u32 = 8;

/// For the start of a session, before the process's timer is armed.
pub(super) fn begin() {
    reset_after_fork();
    REMAINDER.next_survey.store(0, Ordering::Relaxed);
    REMAINDER.last_cpu.store(clock::process_cpu(), Ordering::Relaxed);
    REMAINDER.vain_ticks.store(0, Ordering::Relaxed);
    REMAINDER.conceded.store(0, Ordering::Relaxed);
    REMAINDER.is_postponed.store(true, Ordering::Relaxed);
}

/// In a forked child, which does not have the thread that may make a survey.
pub(super) fn reset_after_fork() {
    REMAINDER.is_surveyed.store(false, Ordering::Relaxed);
}

/// A thread's own timer has ticked. Signal-safe: clocks, and system calls for timers.
pub(super) fn note_thread_tick(engine: &Engine) {
    // A late one asks for nothing: see `thread_timers::forbid`.
    if engine.threads().generation() == 0 || !REMAINDER.is_postponed.load(Ordering::Relaxed) {
        return;
    }
    REMAINDER.survey(engine, |survey| {
        if survey.is_below_a_period() {
            survey.postpone();
        } else if tick_source::set_next(weight::period()) {
            REMAINDER.is_postponed.store(false, Ordering::Relaxed);
        }
    });
}

/// What a tick of the process's timer weighs, in periods: the remainder, if its thread `is_representative`. Signal-safe, likewise.
pub(super) fn weigh_process_tick(engine: &Engine, is_representative: bool) -> usize {
    let weight = REMAINDER.survey(engine, |survey| {
        // The timer ticks each period from now on, unless it is postponed again.
        REMAINDER.is_postponed.store(false, Ordering::Relaxed);
        let weight = if is_representative { weight::consume_until(survey.represented_until) } else { 0 };
        if weight > 0 {
            REMAINDER.vain_ticks.store(0, Ordering::Relaxed);
            REMAINDER.conceded.store(0, Ordering::Relaxed);
        } else if survey.is_below_a_period() {
            survey.postpone();
        } else if REMAINDER.vain_ticks.fetch_add(1, Ordering::Relaxed) >= MOST_VAIN_TICKS {
            REMAINDER.conceded.store(survey.remainder, Ordering::Relaxed);
            survey.postpone();
        }
        weight
    });
    weight.unwrap_or(0)
}

/// What a survey has found.
struct Survey {
    /// The process's CPU clock, less what threads' next ticks will represent.
    represented_until: u64,
    /// Nanoseconds.
    remainder: u64,
    /// CPU time since the survey before, in nanoseconds.
    since: u64,
    /// Nanoseconds to the next survey, about.
    pause: u64,
}

impl Remainder {
    /// Makes a survey and calls `act` with it, unless another thread does, or it is too early.
    fn survey<T>(&self, engine: &Engine, act: impl FnOnce(&Survey) -> T) -> Option<T> {
        let start = clock::monotonic();
        if start < self.next_survey.load(Ordering::Relaxed) || self.is_surveyed.swap(true, Ordering::Acquire)
        {
            return None;
        }
        // In CPU time: if the thread is kept from running meanwhile, that costs nothing.
        let own_start = clock::thread_cpu();
        let pause = || {
            let taken = clock::thread_cpu().saturating_sub(own_start);
            taken.saturating_mul(SHARE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
        };
        let cpu = clock::process_cpu();
        let untold = engine.threads().survey(&OwnTimers);
        let represented_until = cpu.saturating_add_signed(untold.saturating_neg());
        let remainder = weight::uncharged(represented_until);
        let since = cpu.saturating_sub(self.last_cpu.swap(cpu, Ordering::Relaxed));
        let result = act(&Survey { represented_until, remainder, since, pause: pause() });
        self.next_survey.store(start.saturating_add(pause()), Ordering::Relaxed);
        self.is_surveyed.store(false, Ordering::Release);
        Some(result)
    }
}

impl Survey {
    fn is_below_a_period(&self) -> bool {
        let conceded = REMAINDER.conceded.load(Ordering::Relaxed);
        self.remainder < conceded.saturating_add(weight::period())
    }

    /// Postpones the process's timer beyond the next survey. A thread's tick comes after two periods at the latest, and the CPU
    /// time between two surveys seldom doubles.
    fn postpone(&self) {
        let pause = self.pause.saturating_mul(2);
        let expected = weight::period().saturating_add(self.since).saturating_add(pause);
        if tick_source::set_next(expected.saturating_mul(2).min(LONGEST_POSTPONEMENT)) {
            REMAINDER.vain_ticks.store(0, Ordering::Relaxed);
            REMAINDER.is_postponed.store(true, Ordering::Relaxed);
        }
    }
}
