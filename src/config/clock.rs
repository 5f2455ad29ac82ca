//! The clock of a session, and the signal of its ticks.

use super::values::{is_true, shown};
use crate::sys::{signal, timer::IntervalTimer};
use core::fmt;

/// The time that is sampled, and the timers that sample it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// CPU time: [`Perf`](Self::Perf) if the kernel permits perf events that also sample time in
    /// the kernel, otherwise [`Cpu`](Self::Cpu). `Perf` needs `kernel.perf_event_paranoid` of at
    /// most 1 or `CAP_PERFMON`, the signal SIGPROF, and a process without a seccomp filter.
    #[default]
    Auto,
    /// CPU time, by a POSIX timer for each thread; the process's timer finds new threads. Total and
    /// shares of threads are exact. For sandboxes: [`before_sandbox`](crate::before_sandbox).
    Cpu,
    /// CPU time, by `ITIMER_PROF` of the process only, as in gperftools. The total is exact. Shares
    /// of threads can be wrong: a tick represents the time of all threads since the previous tick.
    Itimer,
    /// CPU time, by a perf event for each thread (perf_event_open(2)), independent of the kernel's
    /// tick. Each thread needs a descriptor. Beyond an eighth of `RLIMIT_NOFILE`, or if the program
    /// closes the descriptor, the thread has a timer as with [`Cpu`](Self::Cpu). If perf events are
    /// not permitted, the clock is [`Cpu`](Self::Cpu). If only user-mode events are permitted, time
    /// in system calls is attributed to the code after them.
    Perf,
    /// Elapsed time of each thread, including waiting threads. With more than 32 threads, a tick
    /// has a weight of several periods. Ticks interrupt system calls that the kernel does not
    /// restart (signal(7): `poll`, `nanosleep`, `epoll_wait` and others) with `EINTR`. In a
    /// sandbox, or if the program handles the profiling signal, only the first thread is sampled.
    Wall,
}

impl Clock {
    /// The values of `CPUPROFILE_CLOCK`.
    const NAMES: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("cpu", Self::Cpu),
        ("itimer", Self::Itimer),
        ("perf", Self::Perf),
        ("wall", Self::Wall),
    ];

    /// The clock as a number that is never 0.
    pub(crate) const fn number(self) -> u32 {
        self as u32 + 1
    }

    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::NAMES.iter().map(|(_, clock)| *clock).find(|clock| clock.number() == number)
    }

    pub(crate) fn has_events(self) -> bool {
        matches!(self, Self::Auto | Self::Perf)
    }

    pub(crate) fn timer(self) -> IntervalTimer {
        match self {
            Self::Auto | Self::Cpu | Self::Itimer | Self::Perf => IntervalTimer::Cpu,
            Self::Wall => IntervalTimer::Real,
        }
    }

    /// Chooses the clock by its name, or by gperftools' variables.
    pub(super) fn from_values(
        name: Option<&[u8]>,
        realtime: Option<&[u8]>,
        per_thread: Option<&[u8]>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let default = if realtime.is_some_and(is_true) {
            Self::Wall
        } else if per_thread.is_some_and(is_true) {
            Self::Cpu
        } else {
            Self::default()
        };
        let Some(value) = name.filter(|name| !name.is_empty()) else { return default };
        if let Some((_, clock)) = Self::NAMES.iter().find(|(name, _)| name.as_bytes() == value.trim_ascii()) {
            return *clock;
        }
        let names = Self::NAMES.map(|(name, _)| name);
        warnings.push(format!(
            "CPUPROFILE_CLOCK={} is not a clock ({}); using {default}",
            shown(value),
            names.join(", ")
        ));
        default
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, clock)| clock == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

const TICK_SIGNALS: &str = "SIGRTMIN to SIGRTMAX";

/// Whether `signal` is a real-time signal. Of other signals the kernel drops what the application
/// sends to a thread while a tick is pending there, so ticks cannot use them.
pub(crate) fn can_tick(signal: i32) -> bool {
    signal::real_time().contains(&signal)
}

/// Returns the signal of `CPUPROFILE_TIMER_SIGNAL`; None for the clock's default.
pub(super) fn tick_signal(
    value: Option<&[u8]>,
    clock: Clock,
    toggle: Option<i32>,
    number: impl Fn(&[u8]) -> Option<i32>,
    warnings: &mut Vec<String>,
) -> Option<i32> {
    const NAME: &str = "CPUPROFILE_TIMER_SIGNAL";
    let value = value.filter(|value| !value.is_empty())?;
    let own = clock.timer();
    let signal = number(value);
    if signal == Some(own.signal()) {
        return None;
    }
    let own = own.signal_name();
    let usable = signal.filter(|signal| can_tick(*signal));
    if usable.is_none() {
        warnings.push(format!("{NAME}={} must be {own} or {TICK_SIGNALS}; using {own}", shown(value)));
    } else if usable == toggle {
        warnings.push(format!("{NAME}={} is also the value of CPUPROFILESIGNAL; using {own}", shown(value)));
        return None;
    }
    usable
}
