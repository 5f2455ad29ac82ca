//! What came of a session.

use super::{output::Output, spool::Spool};
use crate::{
    config::Clock,
    error::Failure,
    format::spool::EndFigures,
    sample::counters::{Counter, Totals},
    thread::SampledThreads,
};
use core::{fmt, time::Duration};

/// What a session gathered, and what it could not.
///
/// Every tick is in `samples`, in [`Losses`], was left out on request (`filtered`, `excluded`), or stands for no
/// time (`early_ticks`; and ticks of the process's timer that meet a thread with its own are not counted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Which time was sampled: what was asked for, or what took its place. [`Clock::Itimer`] takes that of [`Clock::Cpu`] in a
    /// program that forbids itself system calls and says so ([`before_sandbox`](crate::before_sandbox), or `prctl(2)` under the
    /// shared library), or handles SIGPROF itself.
    pub clock: Clock,
    /// Sum of the profile's counts, in periods.
    pub samples: u64,
    /// Time between two ticks, and what one count stands for.
    pub period: Duration,
    /// Signals of the profiling timer that were recorded; at high rates one may weigh several periods.
    pub timer_ticks: u64,
    /// Profiling signals from elsewhere (`kill`, `raise`) that were recorded, with a weight of 1 each.
    pub foreign_ticks: u64,
    /// Signals of the profiling timer that stand for no time, since the kernel sent too many; they are left out.
    pub early_ticks: u64,
    /// Signals that the filter refused.
    pub filtered: u64,
    /// Signals that came while an excluded object was running.
    pub excluded: u64,
    /// Time from start to stop (or to now, for a snapshot).
    pub elapsed: Duration,
    /// CPU time that the process used meanwhile.
    pub process_cpu: Duration,
    /// CPU time (in clock `wall`: time of all threads) that no tick stands for: none came for it. Some of it is always left, since the last
    /// tick; see [`is_short_of_time`](Self::is_short_of_time).
    pub unaccounted: Duration,
    /// Threads that blocked the signal when the session stopped, if it was short of time; the one that stopped it is not
    /// among them.
    pub blocking_threads: u32,
    /// How often the process's timer met a thread that could not have one of its own: there are too many, or the user has
    /// too many signals pending (`RLIMIT_SIGPENDING`). Such threads are sampled by the process's timer alone; in clock `wall`,
    /// where this counts looks for threads as well, they are not sampled, and their time is [`unaccounted`](Self::unaccounted).
    pub timers_refused: u64,
    /// The threads that have samples, and how much CPU time the busiest of them have used.
    pub threads: SampledThreads,
    /// What could not be recorded, by cause.
    pub losses: Losses,
    /// How the walks of recorded ticks ended.
    pub walks: Walks,
    /// Frames whose unwind rule was in the cache.
    pub rule_hits: u64,
    /// Frames whose unwind rule was not in the cache and had to be looked up in the object.
    pub rule_misses: u64,
    /// Of the hits: frames whose call frame information is evaluated each time, since no rule of the cache can hold it.
    pub rules_evaluated: u64,
    /// Frames stepped through by the frame pointer, for want of call frame information.
    pub frames_without_rule: u64,
    /// Why there are no samples, when there are none.
    pub no_samples: Option<NoSamples>,
    /// Periods whose records were moved from the table to a file, since it was full.
    pub moved: u64,
    /// Why no more could be moved, as an error number of the system.
    pub not_moved: Option<i32>,
    /// Whether the samples would outlive a kill.
    pub spool: SpoolUse,
}

impl Summary {
    /// True where so much time is [`unaccounted`](Self::unaccounted) that the profile lacks a part of what the program did:
    /// more than a tenth of it, a quarter of a second, and three periods. Threads that block the signal are the usual
    /// reason.
    pub fn is_short_of_time(&self) -> bool {
        is_short(nanos(self.unaccounted), nanos(self.clock_time()), nanos(self.period))
    }

    /// Time that the session's clock counted: [`process_cpu`](Self::process_cpu), or in clock `wall`, where it passes for each
    /// thread, [`sampled`](Self::sampled) and [`unaccounted`](Self::unaccounted) together.
    pub fn clock_time(&self) -> Duration {
        match self.clock {
            Clock::Wall => {
                Duration::from_nanos(nanos(self.sampled()).saturating_add(nanos(self.unaccounted)))
            }
            _ => self.process_cpu,
        }
    }

    /// What a spool keeps of it.
    pub(super) fn end_figures(&self) -> EndFigures {
        EndFigures {
            elapsed_nanos: nanos(self.elapsed),
            cpu_nanos: nanos(self.process_cpu),
            unaccounted_nanos: nanos(self.unaccounted),
            blocking_threads: u64::from(self.blocking_threads),
            timers_refused: self.timers_refused,
            walks: self.walks.total(),
            whole_walks: self.walks.whole,
            lost: self.losses.periods(),
            no_samples: self.no_samples.map_or(0, NoSamples::number),
        }
    }

    /// The time that the samples stand for: their number times the period.
    pub fn sampled(&self) -> Duration {
        let nanos = u128::from(self.samples) * self.period.as_nanos();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// At most what a `u64` holds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a session that used so many nanoseconds by its clock lacks a part of them.
fn is_short(uncharged: u64, used: u64, period: u64) -> bool {
    const LEAST: u64 = 250_000_000;
    uncharged > LEAST && uncharged > used / 10 && uncharged > period.saturating_mul(3)
}

/// What could not be recorded, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Periods whose tick found every scratch slot taken.
    pub no_slot: u64,
    /// Periods whose chain found no place in the full table.
    pub table_full: u64,
    /// Ticks that interrupted something other than code.
    pub no_pc: u64,
    /// Periods that were moved to a file which is gone.
    pub moved: u64,
    /// Handlers that had not come back when the session stopped; their tick, and the session's memory, are lost.
    pub stuck_handlers: u64,
    /// Libraries loaded and met while profiling whose names could not be kept; should they be gone by the end,
    /// their PCs have no name.
    pub objects_missed: u64,
}

impl Losses {
    /// The periods that are missing in the profile.
    pub fn periods(&self) -> u64 {
        self.no_slot + self.table_full + self.no_pc + self.moved
    }
}

/// How the walks of ticks ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Walks {
    /// At the entry point of the process or thread.
    pub whole: u64,
    /// At the depth limit.
    pub depth: u64,
    /// At memory that cannot be read.
    pub unreadable: u64,
    /// At code with neither call frame information nor a frame pointer.
    pub no_rule: u64,
    /// At a frame that did not lead on towards the stack's base.
    pub loops: u64,
    /// At an object that was being unloaded.
    pub unloading: u64,
}

impl Walks {
    /// All walks.
    pub fn total(&self) -> u64 {
        self.whole + self.depth + self.unreadable + self.no_rule + self.loops + self.unloading
    }

    /// The share of walks that are whole, 0 to 1; 1 where there were none.
    pub fn whole_share(&self) -> f64 {
        let total = self.total();
        if total == 0 { 1.0 } else { self.whole as f64 / total as f64 }
    }
}

/// Whether a session's samples outlive the process where it is killed or crashes, in a file from which
/// [`recover`](crate::recover) makes the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolUse {
    /// None was asked for: the session keeps its profile in memory, or the user has turned spools off.
    Off,
    /// All samples do.
    Whole,
    /// The spool has taken its share of its file system, or that is full: chains that came later do not.
    Cut,
    /// None do since a call of `exec` has failed, for which the spool was removed.
    Removed,
    /// None do, since no spool was to be had.
    Unavailable {
        /// What was tried.
        action: &'static str,
        /// Why it failed, as an error number of the system.
        errno: i32,
    },
}

/// Why a session has no samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoSamples {
    /// The process used less CPU time than one period.
    NoTimeUsed,
    /// Ticks came, and all were filtered, excluded or lost.
    NoneRecorded,
    /// The program replaced our handler.
    HandlerReplaced,
    /// Time was used, and no tick came: all threads that used it block the signal, or the program has taken the
    /// timer by a system call of its own.
    NoTicks,
    /// The program takes the signal itself, or uses its timer, and no tick could be sent beside that.
    NoTimer,
}

impl NoSamples {
    /// The reason as a spool has it: never 0.
    fn number(self) -> u64 {
        match self {
            Self::NoTimeUsed => 1,
            Self::NoneRecorded => 2,
            Self::HandlerReplaced => 3,
            Self::NoTicks => 4,
            Self::NoTimer => 5,
        }
    }

    /// The reason that a spool has.
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

/// A session that is over.
pub(crate) struct Ended {
    pub(crate) summary: Summary,
    /// Bytes of header, records and trailer; or why there is no file. None for a session without a file.
    pub(crate) file: Option<Result<u64, Failure>>,
    /// Holds the path, for messages.
    pub(super) output: Option<Output>,
    /// The spool, where it holds what could not be written.
    pub(super) spool: Option<Spool>,
    /// Its spool was to be the profile, for a recorder.
    pub(crate) keeps_spool: bool,
}

impl Ended {
    /// The path as the user gave it; empty for a session in memory.
    pub(crate) fn path(&self) -> &[u8] {
        self.output.as_ref().map_or(&[], |output| output.given().as_bytes())
    }

    /// The path of the spool that holds what could not be written.
    pub(crate) fn spool_path(&self) -> Option<&[u8]> {
        self.spool.as_ref().filter(|spool| spool.is_there()).map(Spool::path)
    }
}

/// What a summary is made of.
pub(super) struct Facts {
    pub(super) clock: Clock,
    pub(super) totals: Totals,
    pub(super) period_micros: u32,
    pub(super) elapsed_nanos: u64,
    pub(super) cpu_nanos: u64,
    pub(super) uncharged_nanos: u64,
    pub(super) blocking_threads: u32,
    pub(super) timers_refused: u64,
    pub(super) lost_without_slot: u64,
    pub(super) stuck_handlers: u64,
    pub(super) threads: SampledThreads,
    /// Periods whose records are in a file, and as many if that is gone.
    pub(super) moved: u64,
    pub(super) moved_lost: u64,
    pub(super) not_moved: Option<i32>,
    pub(super) handler_replaced: bool,
    pub(super) timer_refused: bool,
    pub(super) spool: SpoolUse,
}

impl Facts {
    pub(super) fn summary(&self) -> Summary {
        let get = |counter| self.totals.get(counter);
        let losses = Losses {
            no_slot: self.lost_without_slot,
            table_full: get(Counter::TableFull),
            no_pc: get(Counter::NoPc),
            moved: self.moved_lost,
            stuck_handlers: self.stuck_handlers,
            objects_missed: get(Counter::ObjectsMissed),
        };
        Summary {
            clock: self.clock,
            samples: get(Counter::Samples).saturating_sub(self.moved_lost),
            period: Duration::from_micros(u64::from(self.period_micros)),
            timer_ticks: get(Counter::TimerTicks),
            foreign_ticks: get(Counter::ForeignTicks),
            early_ticks: get(Counter::Early),
            filtered: get(Counter::Filtered),
            excluded: get(Counter::Excluded),
            elapsed: Duration::from_nanos(self.elapsed_nanos),
            process_cpu: Duration::from_nanos(self.cpu_nanos),
            unaccounted: Duration::from_nanos(self.uncharged_nanos),
            blocking_threads: self.blocking_threads,
            timers_refused: self.timers_refused,
            threads: self.threads,
            losses,
            walks: Walks {
                whole: get(Counter::Whole),
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
            moved: self.moved,
            not_moved: self.not_moved,
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
        } else if self.timer_refused {
            NoSamples::NoTimer
        } else if used < u64::from(self.period_micros) * 1000 {
            NoSamples::NoTimeUsed
        } else {
            NoSamples::NoTicks
        }
    }
}
