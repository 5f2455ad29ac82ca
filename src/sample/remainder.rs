//! The remainder: CPU time that no per-thread tick will represent (clocks `cpu`, `perf`, `auto`).
//! It was used by threads before they had a timer, or by exited threads after their last tick.
//!
//! ```text
//! remainder = the process's CPU clock - charged - unaccounted
//!
//! charged:      the clock at the session's start, plus what ticks have represented (weight.rs)
//! unaccounted:  what threads with a timer have used since the end of the last cell that a tick
//!               represented, or since their adoption; negative within that cell (timer_table.rs)
//! ```
//!
//! A survey reads the process's clock, then those of threads with a timer. What these use in
//! between makes the remainder too small until the next survey; no time is counted twice.
//!
//! Only a *representative* tick can have the remainder in its weight: on a thread without a timer,
//! or that has not ticked yet; or any of a POSIX process timer before Linux 6.4, which goes to one
//! thread. Other threads are sampled by their own timers.
//!
//! Needless process ticks do harm: if a thread's and a process's tick are pending, the kernel
//! delivers the thread's, blocks the signal, and wakes another thread for the other
//! (`retarget_shared_pending` in kernel/signal.c). That interrupts system calls, of which some fail
//! with EINTR. So the process's timer is postponed. A survey for a representative tick, if half a
//! period or more remains, leaves the timer as it is. The others:
//!
//! | process's timer | surveys are made by | remainder below a period | from a period on |
//! | --- | --- | --- | --- |
//! | postponed | threads' ticks | postponed further | ticks each period from now on |
//! | ticks each period | process's and threads' first ticks | postponed | unchanged |
//!
//! If threads' ticks do not come, the postponed timer ticks. After nine process ticks in a row that
//! may not represent the remainder, it is set aside: what comes on top is compared with a period.
//!
//! An estimate from the last readings is at least the remainder, unless threads have exited since.
//! If it is below a period, and the timer ticks neither soon nor very late, a tick that is not
//! representative makes no survey: a system call for each thread with a timer, and about five more.

use super::{engine::Engine, thread_timers::OwnTimers, tick_source, weight};
use crate::{
    sync::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    sys::clock,
};

struct Remainder {
    is_postponed: AtomicBool,
    is_surveying: AtomicBool,
    /// Monotonic clock; also of an estimate.
    last_survey: AtomicU64,
    /// CPU time of the last survey, in nanoseconds.
    taken: AtomicU64,
    /// The process's CPU clock at the last survey or estimate.
    last_cpu: AtomicU64,
    /// The process's CPU clock when the postponed timer ticks.
    next_tick: AtomicU64,
    /// Successive process ticks with a remainder on threads that may not represent it.
    unrepresentative_ticks: AtomicU32,
    /// Nanoseconds of the remainder that no thread could represent.
    set_aside: AtomicU64,
}

static REMAINDER: Remainder = Remainder::new();

/// Surveys take at most 1 / SHARE of the elapsed time; more if a tick may represent the remainder.
const SHARE: u64 = 200;
const REPRESENTATIVE_SHARE: u64 = 20;
/// Nanoseconds between two surveys.
const SHORTEST_PAUSE: u64 = 1_000_000;
const LONGEST_PAUSE: u64 = 1_000_000_000;
/// Nanoseconds of CPU time. Without threads' ticks, each postponement is at least twice the last
/// one.
const LONGEST_POSTPONEMENT: u64 = 10_000_000_000;
const MAX_UNREPRESENTATIVE_TICKS: u32 = 8;

pub(super) fn begin() {
    reset_after_fork();
    REMAINDER.last_survey.store(0, Ordering::Relaxed);
    REMAINDER.taken.store(0, Ordering::Relaxed);
    REMAINDER.last_cpu.store(clock::process_cpu_nanos(), Ordering::Relaxed);
    on_timer_start();
    REMAINDER.unrepresentative_ticks.store(0, Ordering::Relaxed);
    REMAINDER.set_aside.store(0, Ordering::Relaxed);
    REMAINDER.is_postponed.store(true, Ordering::Relaxed);
}

/// Called when the process's timer starts: its next tick is unknown. Signal-safe: an atomic.
pub(super) fn on_timer_start() {
    REMAINDER.next_tick.store(0, Ordering::Relaxed);
}

/// In a forked child, which does not have the thread that may make a survey.
pub(super) fn reset_after_fork() {
    REMAINDER.is_surveying.store(false, Ordering::Relaxed);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticked {
    Process,
    Thread,
}

/// Returns how many periods of the remainder a tick represents: 0 unless its thread
/// `is_representative`. Sets the next process tick. Signal-safe: clocks, and system calls for
/// timers.
pub(super) fn weigh(engine: &Engine, ticked: Ticked, is_representative: bool) -> usize {
    let is_of_process = ticked == Ticked::Process;
    let is_needed = is_of_process || is_representative || REMAINDER.is_postponed.load(Ordering::Relaxed);
    // A late tick reads no clock: see `caller::forbid_clock_reads`.
    if engine.timers().generation() == 0 || !is_needed {
        return 0;
    }
    let share = if is_representative { REPRESENTATIVE_SHARE } else { SHARE };
    let may_estimate = !is_of_process && !is_representative;
    let weight = REMAINDER.survey(engine, share, may_estimate, |survey| {
        if is_of_process {
            // Each period, unless it is postponed again.
            REMAINDER.is_postponed.store(false, Ordering::Relaxed);
        }
        let weight = if is_representative { weight::consume_until(survey.represented_until) } else { 0 };
        if weight > 0 {
            REMAINDER.unrepresentative_ticks.store(0, Ordering::Relaxed);
            REMAINDER.set_aside.store(0, Ordering::Relaxed);
        } else if survey.is_below_a_period() {
            survey.postpone();
        } else if !is_of_process {
            if tick_source::set_next(weight::period()) {
                REMAINDER.is_postponed.store(false, Ordering::Relaxed);
            }
        } else if REMAINDER.unrepresentative_ticks.fetch_add(1, Ordering::Relaxed)
            >= MAX_UNREPRESENTATIVE_TICKS
        {
            REMAINDER.set_aside.store(survey.remainder, Ordering::Relaxed);
            survey.postpone();
        }
        weight
    });
    weight.unwrap_or(0)
}

/// The result of a survey, or an estimate; in nanoseconds.
struct Survey {
    /// The process's CPU clock.
    cpu: u64,
    /// `cpu`, less what threads' next ticks will represent.
    represented_until: u64,
    remainder: u64,
    /// CPU time since the last survey.
    since: u64,
    /// Approximate time to the next survey.
    pause: u64,
    period: u64,
    set_aside: u64,
}

impl Remainder {
    const fn new() -> Self {
        Self {
            is_postponed: AtomicBool::new(false),
            is_surveying: AtomicBool::new(false),
            last_survey: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            last_cpu: AtomicU64::new(0),
            next_tick: AtomicU64::new(0),
            unrepresentative_ticks: AtomicU32::new(0),
            set_aside: AtomicU64::new(0),
        }
    }

    /// Makes a survey for `act`, unless another thread makes one, the last one is too recent for
    /// this `share` of the elapsed time, or an estimate shows nothing to do.
    fn survey<T>(
        &self,
        engine: &Engine,
        share: u64,
        may_estimate: bool,
        act: impl FnOnce(&Survey) -> T,
    ) -> Option<T> {
        let start = clock::monotonic_nanos();
        let taken_before = self.taken.load(Ordering::Relaxed);
        let is_early =
            start < self.last_survey.load(Ordering::Relaxed).saturating_add(pause_after(taken_before, share));
        if is_early || self.is_surveying.swap(true, Ordering::Acquire) {
            return None;
        }
        let threads = engine.timers();
        let cpu = clock::process_cpu_nanos();
        let since = cpu.saturating_sub(self.last_cpu.swap(cpu, Ordering::Relaxed));
        let estimate = || Survey::new(cpu, threads.noted_unaccounted(), since, taken_before);
        let result = if may_estimate && self.is_in_order(&estimate()) {
            None
        } else {
            // In CPU time, which excludes preemption.
            let own_start = clock::thread_cpu_nanos();
            let taken = || clock::thread_cpu_nanos().saturating_sub(own_start);
            let unaccounted = threads.survey(&OwnTimers);
            let result = act(&Survey::new(cpu, unaccounted, since, taken()));
            self.taken.store(taken(), Ordering::Relaxed);
            Some(result)
        };
        self.last_survey.store(start, Ordering::Relaxed);
        self.is_surveying.store(false, Ordering::Release);
        result
    }

    /// True if the remainder is below a period, and the timer ticks late, but not so late that
    /// clocks are old.
    fn is_in_order(&self, survey: &Survey) -> bool {
        let left = self.next_tick.load(Ordering::Relaxed).saturating_sub(survey.cpu);
        let least = survey.postponement();
        survey.is_below_a_period() && (least..=least.saturating_mul(4)).contains(&left)
    }
}

fn pause_after(taken: u64, share: u64) -> u64 {
    taken.saturating_mul(share).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

impl Survey {
    fn new(cpu: u64, unaccounted: i64, since: u64, taken: u64) -> Self {
        let represented_until = cpu.saturating_add_signed(unaccounted.saturating_neg());
        let remainder = weight::unaccounted_nanos(represented_until);
        let set_aside = REMAINDER.set_aside.load(Ordering::Relaxed);
        let (pause, period) = (pause_after(taken, SHARE), weight::period());
        Self { cpu, represented_until, remainder, since, pause, period, set_aside }
    }

    fn is_below_a_period(&self) -> bool {
        self.remainder < self.set_aside.saturating_add(self.period)
    }

    /// Returns the CPU time within which the next survey is expected: a thread's tick comes after
    /// at most two periods, and the CPU time between surveys seldom doubles.
    fn postponement(&self) -> u64 {
        let pause = self.pause.saturating_mul(2);
        self.period.saturating_add(self.since.max(self.period)).saturating_add(pause)
    }

    /// Postpones the process's timer beyond the next two surveys.
    fn postpone(&self) {
        let nanos = self.postponement().saturating_mul(2).min(LONGEST_POSTPONEMENT);
        if tick_source::set_next(nanos) {
            REMAINDER.next_tick.store(self.cpu.saturating_add(nanos), Ordering::Relaxed);
            REMAINDER.unrepresentative_ticks.store(0, Ordering::Relaxed);
            REMAINDER.is_postponed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PERIOD: u64 = 10_000_000;

    fn survey(remainder: u64, since: u64) -> Survey {
        let (cpu, pause) = (1_000_000_000, SHORTEST_PAUSE);
        Survey { cpu, represented_until: cpu, remainder, since, pause, period: PERIOD, set_aside: 0 }
    }

    /// True if a tick makes no survey when the timer ticks after `left` nanoseconds.
    fn is_in_order(survey: &Survey, left: u64) -> bool {
        let remainder = Remainder::new();
        remainder.next_tick.store(survey.cpu + left, Ordering::Relaxed);
        remainder.is_in_order(survey)
    }

    #[test]
    fn estimate_of_a_period_needs_a_survey() {
        let left = survey(0, PERIOD).postponement();
        assert!(is_in_order(&survey(PERIOD - 1, PERIOD), left));
        assert!(!is_in_order(&survey(PERIOD, PERIOD), left));
        let set_aside = Survey { set_aside: PERIOD, ..survey(PERIOD, PERIOD) };
        assert!(is_in_order(&set_aside, left), "no thread can represent it");
    }

    /// Threads' ticks are at most two periods apart, and the next survey may come a pause later.
    #[test]
    fn timer_that_ticks_soon_needs_a_survey() {
        for (since, least) in [(0, 22_000_000), (PERIOD, 22_000_000), (50_000_000, 62_000_000)] {
            assert!(is_in_order(&survey(0, since), least), "{since}");
            assert!(!is_in_order(&survey(0, since), least - 1), "{since}");
        }
        let started = Remainder::new();
        assert!(!started.is_in_order(&survey(0, PERIOD)), "a timer that is not postponed");
    }

    #[test]
    fn timer_that_ticks_very_late_needs_a_survey() {
        assert!(is_in_order(&survey(0, PERIOD), 88_000_000));
        assert!(!is_in_order(&survey(0, PERIOD), 88_000_001));
    }

    #[test]
    fn excludes_the_time_of_next_ticks() {
        let ahead = Survey::new(1_000, -500, 0, 0);
        let behind = Survey::new(1_000, 300, 0, 0);
        assert_eq!((ahead.represented_until, behind.represented_until), (1_500, 700));
    }
}
