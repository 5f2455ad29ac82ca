//! Which time is sampled, and the signal of its ticks.

use super::values::{is_true, shown};
use crate::sys::{signal, timer::IntervalTimer};
use core::fmt;

/// Which time is sampled, and whose timers do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// CPU time: the process's timer finds threads, and each that it finds has a timer of its own. Totals and each thread's
    /// share are exact. In a program that forbids itself system calls see [`before_sandbox`](crate::before_sandbox).
    #[default]
    Cpu,
    /// CPU time, by the process's timer alone, as in gperftools. The total is exact; threads' shares can be off, since a tick
    /// stands for what all threads have used since the one before.
    Itimer,
    /// CPU time as by [`Cpu`](Self::Cpu), with the kernel's high-resolution timers (`perf_event_open(2)`) for threads: as many
    /// ticks at high rates as are asked for. Each thread takes a file descriptor. Where the system has no such timers, or does
    /// not let us have them, it is [`Cpu`](Self::Cpu).
    Perf,
    /// Elapsed time, of each thread: threads that wait are sampled as those that run. Where many threads have timers, a tick
    /// stands for several periods, so that 32 threads' ticks come in one. System calls that a handler interrupts, and that
    /// the kernel does not start again (`signal(7)`: `poll`, `nanosleep`, `epoll_wait` and their like), end with EINTR.
    /// In a program that forbids itself system calls, or handles the signal of the ticks, it is that of the first thread.
    Wall,
}

impl Clock {
    /// The names that `CPUPROFILE_CLOCK` knows.
    const NAMES: [(&'static str, Self); 4] =
        [("cpu", Self::Cpu), ("itimer", Self::Itimer), ("perf", Self::Perf), ("wall", Self::Wall)];

    /// The process's timer.
    pub(crate) fn timer(self) -> IntervalTimer {
        match self {
            Self::Cpu | Self::Itimer | Self::Perf => IntervalTimer::Cpu,
            Self::Wall => IntervalTimer::Real,
        }
    }

    /// The clock that the environment asks for: by its name, or by one of gperftools' own variables.
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

/// What [`can_tick`] accepts, beside the clock's own signal.
const TICK_SIGNALS: &str = "SIGRTMIN to SIGRTMAX";

/// True for a signal that ticks can have in the place of their clock's own: a real-time one. Of any other the kernel drops what the
/// program sends to a thread while a tick is pending there.
pub(crate) fn can_tick(signal: i32) -> bool {
    signal::real_time().contains(&signal)
}

/// The signal that `CPUPROFILE_TIMER_SIGNAL` asks for; None for the clock's own. `toggle` is what switches profiling.
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
