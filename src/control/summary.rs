//! The summary of a session.

use super::{output::Output, spool::SessionSpool};
use crate::{
    config::Clock,
    error::Failure,
    format::spool::EndFigures,
    sample::counters::{Counter, Totals},
    thread::SampledThreads,
};
use core::{fmt, time::Duration};

/// The figures of a session: samples and losses.
///
/// Every tick is in `samples`, in [`Losses`], was excluded on request (`filtered`, `excluded`), or
/// represents no time (`early_ticks`). The process's ticks do not count on threads with own timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The clock that ran: the requested one or its replacement, never [`Clock::Auto`].
    /// [`Clock::Itimer`] replaces [`Clock::Cpu`] and [`Clock::Perf`] if the program handles SIGPROF
    /// or enters a sandbox ([`before_sandbox`](crate::before_sandbox); with the shared library also
    /// prctl(2)).
    pub clock: Clock,
    /// Sum of the weights: a number of periods.
    pub samples: u64,
    /// The time that a weight of 1 represents.
    pub period: Duration,
    /// Recorded signals of profiling timers. At high frequencies one can represent several periods.
    pub timer_ticks: u64,
    /// Recorded profiling signals of other senders (`kill`, `raise`), each with a weight of 1.
    pub foreign_ticks: u64,
    /// Unrecorded signals of profiling timers that represent no time: the kernel sent too many, or
    /// the thread no longer has the timer.
    pub early_ticks: u64,
    /// Signals that the filter rejected.
    pub filtered: u64,
    /// Signals that interrupted code of an excluded shared object.
    pub excluded: u64,
    /// Elapsed time from the start to the stop, or to the snapshot.
    pub elapsed: Duration,
    /// CPU time of the process in that time.
    pub process_cpu: Duration,
    /// CPU time that no tick represents; with clock `wall`, time of all threads. Includes the time
    /// after the last tick; see [`is_short_of_time`](Self::is_short_of_time).
    pub unaccounted: Duration,
    /// CPU time of the process by the kernel's timer interrupts: each counts one interval for the
    /// interrupted thread. Zero if unknown; see [`is_in_step`](Self::is_in_step).
    pub interrupted: Duration,
    /// Threads that blocked the signal at the stop, without the one that stopped. Only counted if
    /// [`is_short_of_time`](Self::is_short_of_time).
    pub blocking_threads: u32,
    /// Ticks of the process's timer on threads that cannot have a timer: there are too many
    /// threads, or too many pending signals (`RLIMIT_SIGPENDING`). The process's timer samples such
    /// threads. With clock `wall` they are not sampled, their time is
    /// [`unaccounted`](Self::unaccounted), and searches for threads are counted, too.
    pub timers_refused: u64,
    /// How often a thread got a CPU timer although the clock is `perf`: the program closed its
    /// event's descriptor, or uses an eighth of its descriptors (`RLIMIT_NOFILE`).
    pub without_event: u64,
    /// The threads with samples, and the CPU time of the busiest.
    pub threads: SampledThreads,
    /// Lost samples by cause.
    pub losses: Losses,
    /// Where the stacks of recorded ticks end.
    pub walks: Walks,
    /// Frames with an unwind rule in the cache.
    pub rule_hits: u64,
    /// Frames with an unwind rule that was not in the cache; the object was searched.
    pub rule_misses: u64,
    /// Hits with call frame information that fits no rule of the cache and is evaluated each time.
    pub rules_evaluated: u64,
    /// Frames without call frame information, unwound by the frame pointer.
    pub frames_without_rule: u64,
    /// The reason if there are no samples.
    pub no_samples: Option<NoSamples>,
    /// Spilled periods: their records moved from the full table to a file.
    pub spilled: u64,
    /// The error number (errno) if the spill file could not be written.
    pub spill_failure: Option<i32>,
    /// Whether the samples survive a kill.
    pub spool: SpoolUse,
}

impl Summary {
    /// True if the profile lacks a part of the program, usually because a thread blocks the signal:
    /// [`unaccounted`](Self::unaccounted) exceeds a tenth of the time, a quarter of a second, and
    /// three periods.
    pub fn is_short_of_time(&self) -> bool {
        is_short(nanos(self.unaccounted), nanos(self.clock_time()), nanos(self.period))
    }

    /// True if code runs in step with the kernel's timer interrupts, and the clock samples only at
    /// these ([`Clock::Cpu`], [`Clock::Itimer`]): [`interrupted`](Self::interrupted) differs from
    /// [`process_cpu`](Self::process_cpu) by more than a tenth, a quarter of a second, and four
    /// standard deviations of random interrupts. The shares of functions can be wrong by as much.
    /// [`Clock::Perf`] also samples at other times.
    pub fn is_in_step(&self) -> bool {
        is_in_step(self.clock, self.process_cpu, self.interrupted)
    }

    /// Time by the session's clock: [`process_cpu`](Self::process_cpu), or with clock `wall` the
    /// sum of all threads' times: [`sampled`](Self::sampled) plus
    /// [`unaccounted`](Self::unaccounted).
    pub fn clock_time(&self) -> Duration {
        match self.clock {
            Clock::Wall => {
                Duration::from_nanos(nanos(self.sampled()).saturating_add(nanos(self.unaccounted)))
            }
            _ => self.process_cpu,
        }
    }

    pub(super) fn end_figures(&self) -> EndFigures {
        EndFigures {
            elapsed_nanos: nanos(self.elapsed),
            cpu_nanos: nanos(self.process_cpu),
            unaccounted_nanos: nanos(self.unaccounted),
            interrupted_nanos: nanos(self.interrupted),
            blocking_threads: u64::from(self.blocking_threads),
            timers_refused: self.timers_refused,
            walks: self.walks.total(),
            complete_walks: self.walks.complete,
            lost: self.losses.periods(),
            no_samples: self.no_samples.map_or(0, NoSamples::number),
            clock: u64::from(self.clock.number()),
        }
    }

    /// The time that the samples represent: their number times the period.
    pub fn sampled(&self) -> Duration {
        let nanos = u128::from(self.samples) * self.period.as_nanos();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn is_short(unaccounted: u64, used: u64, period: u64) -> bool {
    const LEAST: u64 = 250_000_000;
    unaccounted > LEAST && unaccounted > used / 10 && unaccounted > period.saturating_mul(3)
}

pub(crate) fn is_in_step(clock: Clock, used: Duration, interrupted: Duration) -> bool {
    const LEAST: u64 = 250_000_000;
    /// The interval in ns with CONFIG_HZ=100; others are shorter.
    const LONGEST_INTERVAL: u128 = 10_000_000;
    let is_at_interrupts = matches!(clock, Clock::Cpu | Clock::Itimer);
    let (used, interrupted) = (nanos(used), nanos(interrupted));
    let difference = used.abs_diff(interrupted);
    let variance = u128::from(used) * LONGEST_INTERVAL;
    is_at_interrupts
        && interrupted != 0
        && difference > LEAST
        && difference > used / 10
        && u128::from(difference).pow(2) > 16 * variance
}

/// Lost samples by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Periods of ticks for which no scratch slot was free.
    pub no_slot: u64,
    /// Periods of call stacks for which the table had no memory.
    pub table_full: u64,
    /// Periods of ticks with a program counter outside of the user address space.
    pub no_pc: u64,
    /// Periods in a spill file that was removed.
    pub spill_lost: u64,
    /// Handlers still running at the stop. Their ticks are lost, and the memory is not freed.
    pub stuck_handlers: u64,
    /// Shared objects without room for their paths. After unloading, their frames have no names.
    pub objects_missed: u64,
}

impl Losses {
    /// Number of lost periods.
    pub fn periods(&self) -> u64 {
        self.no_slot + self.table_full + self.no_pc + self.spill_lost
    }
}

/// Number of stacks by where they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Walks {
    /// At the entry point of the process or thread: complete stacks.
    pub complete: u64,
    /// At the depth limit.
    pub depth: u64,
    /// At memory that cannot be read.
    pub unreadable: u64,
    /// At code with neither call frame information nor a frame pointer.
    pub no_rule: u64,
    /// At a frame with a caller that is not nearer to the stack's base.
    pub loops: u64,
    /// At an object that was being unloaded.
    pub unloading: u64,
}

impl Walks {
    /// Number of all stacks.
    pub fn total(&self) -> u64 {
        self.complete + self.depth + self.unreadable + self.no_rule + self.loops + self.unloading
    }

    /// The share of complete stacks, 0 to 1; 1 if there are no stacks.
    pub fn complete_share(&self) -> f64 {
        let total = self.total();
        if total == 0 { 1.0 } else { self.complete as f64 / total as f64 }
    }
}

/// Whether [`recover`](crate::recover) can write a profile if the process is killed or crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolUse {
    /// No spool: the profile stays in memory, or the user disabled spools.
    Off,
    /// All samples survive.
    Complete,
    /// The spool or its file system was full. Later call stacks do not survive.
    Truncated,
    /// No sample survives: the spool was removed for a call of `exec`, which failed.
    Removed,
    /// No sample survives: the spool could not be created.
    Unavailable {
        /// What failed: a verb and its object.
        action: &'static str,
        /// The error number (errno).
        errno: i32,
    },
}

/// Why a session has no samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoSamples {
    /// The process used less CPU time than one period.
    NoTimeUsed,
    /// All ticks were filtered, excluded or lost.
    NoneRecorded,
    /// The program replaced the profiler's handler.
    HandlerReplaced,
    /// No tick, although CPU time was used: all busy threads block the signal, or the program uses
    /// the timer by a direct system call.
    NoTicks,
    /// The program uses the signal or its timer itself, and no other timer is available.
    NoTimer,
}

impl NoSamples {
    /// As in the spool; never 0.
    fn number(self) -> u64 {
        match self {
            Self::NoTimeUsed => 1,
            Self::NoneRecorded => 2,
            Self::HandlerReplaced => 3,
            Self::NoTicks => 4,
            Self::NoTimer => 5,
        }
    }

    pub(crate) fn of_number(number: u64) -> Option<Self> {
        [Self::NoTimeUsed, Self::NoneRecorded, Self::HandlerReplaced, Self::NoTicks, Self::NoTimer]
            .into_iter()
            .find(|reason| reason.number() == number)
    }
}

impl fmt::Display for NoSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTimeUsed => "the program used less time than one period",
            Self::NoneRecorded => "all ticks were filtered, excluded or lost",
            Self::HandlerReplaced => "the program replaced the profiling signal's handler",
            Self::NoTicks => {
                "no tick arrived, although the program used CPU time: it blocks the profiling signal or uses the timer itself"
            }
            Self::NoTimer => {
                "the program uses the profiling signal, or its timer, itself, and no other is available"
            }
        })
    }
}

/// A stopped session.
pub(crate) struct Ended {
    pub(crate) summary: Summary,
    /// Bytes of header, records and trailer; or why there is no file. None for a session in memory.
    pub(crate) file: Option<Result<u64, Failure>>,
    pub(super) output: Option<Output>,
    pub(super) spool: Option<SessionSpool>,
    /// The spool is the profile, for a recorder.
    pub(crate) keeps_spool: bool,
}

impl Ended {
    pub(crate) fn path(&self) -> &[u8] {
        self.output.as_ref().map_or(&[], |output| output.given().as_bytes())
    }

    /// The spool with samples that could not be written.
    pub(crate) fn spool_path(&self) -> Option<&[u8]> {
        self.spool.as_ref().filter(|spool| spool.is_there()).map(SessionSpool::path)
    }
}

pub(super) struct Facts {
    pub(super) clock: Clock,
    pub(super) totals: Totals,
    pub(super) period_micros: u32,
    pub(super) elapsed_nanos: u64,
    pub(super) cpu_nanos: u64,
    pub(super) interrupted_nanos: u64,
    pub(super) unaccounted_nanos: u64,
    pub(super) blocking_threads: u32,
    pub(super) timers_refused: u64,
    pub(super) without_event: u64,
    pub(super) lost_without_slot: u64,
    pub(super) stuck_handlers: u64,
    pub(super) threads: SampledThreads,
    /// Periods of spilled records; equal to `spill_lost` if the file is gone.
    pub(super) spilled: u64,
    pub(super) spill_lost: u64,
    pub(super) spill_failure: Option<i32>,
    pub(super) handler_replaced: bool,
    pub(super) had_no_timer: bool,
    pub(super) spool: SpoolUse,
}

impl Facts {
    pub(super) fn summary(&self) -> Summary {
        let get = |counter| self.totals.get(counter);
        let losses = Losses {
            no_slot: self.lost_without_slot,
            table_full: get(Counter::TableFull),
            no_pc: get(Counter::NoPc),
            spill_lost: self.spill_lost,
            stuck_handlers: self.stuck_handlers,
            objects_missed: get(Counter::ObjectsMissed),
        };
        Summary {
            clock: self.clock,
            samples: get(Counter::Samples).saturating_sub(self.spill_lost),
            period: Duration::from_micros(u64::from(self.period_micros)),
            timer_ticks: get(Counter::TimerTicks),
            foreign_ticks: get(Counter::ForeignTicks),
            early_ticks: get(Counter::Early),
            filtered: get(Counter::Filtered),
            excluded: get(Counter::Excluded),
            elapsed: Duration::from_nanos(self.elapsed_nanos),
            process_cpu: Duration::from_nanos(self.cpu_nanos),
            unaccounted: Duration::from_nanos(self.unaccounted_nanos),
            interrupted: Duration::from_nanos(self.interrupted_nanos),
            blocking_threads: self.blocking_threads,
            timers_refused: self.timers_refused,
            without_event: self.without_event,
            threads: self.threads,
            losses,
            walks: Walks {
                complete: get(Counter::Complete),
                depth: get(Counter::Depth),
                unreadable: get(Counter::Unreadable),
                no_rule: get(Counter::NoRule),
                loops: get(Counter::Loop),
                unloading: get(Counter::Unloading),
            },
            rule_hits: get(Counter::RuleHits),
            rule_misses: get(Counter::RuleMisses),
            rules_evaluated: get(Counter::RulesEvaluated),
            frames_without_rule: get(Counter::FramesWithoutRule),
            no_samples: (get(Counter::Samples) == 0).then(|| self.reason(&losses)),
            spilled: self.spilled,
            spill_failure: self.spill_failure,
            spool: self.spool,
        }
    }

    fn reason(&self, losses: &Losses) -> NoSamples {
        let used = if self.clock == Clock::Wall { self.elapsed_nanos } else { self.cpu_nanos };
        let left_out = self.totals.get(Counter::Filtered) + self.totals.get(Counter::Excluded);
        if left_out + losses.periods() > 0 {
            NoSamples::NoneRecorded
        } else if self.handler_replaced {
            NoSamples::HandlerReplaced
        } else if self.had_no_timer {
            NoSamples::NoTimer
        } else if used < u64::from(self.period_micros) * 1000 {
            NoSamples::NoTimeUsed
        } else {
            NoSamples::NoTicks
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_in_step_if_interrupts_differ_by_more_than_chance() {
        let is_in_step = |used, interrupted| {
            is_in_step(Clock::Cpu, Duration::from_millis(used), Duration::from_millis(interrupted))
        };
        // Four standard deviations of 100 interrupts in 1 s; a tenth; a quarter of a second.
        for (used, most) in [(1_000, 400), (1_000_000, 100_000), (1_000_000_000_000, 100_000_000_000)] {
            for interrupted in [used - most, used + most] {
                assert!(!is_in_step(used, interrupted), "{interrupted} of {used}");
            }
            for interrupted in [used - most - 1, used + most + 1] {
                assert!(is_in_step(used, interrupted), "{interrupted} of {used}");
            }
        }
        assert!(!is_in_step(250, 0) && !is_in_step(1_000, 0), "not known");
    }

    #[test]
    fn is_not_in_step_with_clocks_that_sample_at_other_times() {
        let is_in_step = |clock| is_in_step(clock, Duration::from_secs(10), Duration::from_secs(5));
        assert!(is_in_step(Clock::Cpu) && is_in_step(Clock::Itimer));
        assert!(!is_in_step(Clock::Perf) && !is_in_step(Clock::Wall));
    }
}
