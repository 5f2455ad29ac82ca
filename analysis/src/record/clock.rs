//! Clocks of the recorded processes, and the recorder's permission for perf events.

use super::RecordOptions;
use sigprof::{
    Clock,
    interface::{EventObstacle, IdleEvent},
};
use std::{collections::BTreeMap, fs};

const EACCES: i32 = nix::errno::Errno::EACCES as i32;
const EPERM: i32 = nix::errno::Errno::EPERM as i32;

/// Availability of perf events before the command starts.
#[derive(Debug)]
pub(super) struct PerfEvents {
    /// Held until the recording ends, so that the command's events open faster.
    _idle: Option<IdleEvent>,
    obstacle: Option<EventObstacle>,
}

impl PerfEvents {
    /// Tries to open an event, if the clock uses events.
    pub(super) fn try_for(options: &RecordOptions) -> Self {
        let clock = options.clock;
        // Events support only SIGPROF.
        if !matches!(clock, Clock::Auto | Clock::Perf) || options.timer_signal.is_some() {
            return Self { _idle: None, obstacle: None };
        }
        match IdleEvent::open() {
            Ok(event) => Self { _idle: Some(event), obstacle: None },
            Err(obstacle) => Self { _idle: None, obstacle: (clock == Clock::Auto).then_some(obstacle) },
        }
    }

    /// Returns advice if `auto` was requested and perf events are not permitted.
    pub(super) fn hint(&self) -> Option<String> {
        let obstacle = self.obstacle?;
        let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        Some(hint(obstacle, level.trim().parse().ok()))
    }
}

/// Returns the advice if `kernel.perf_event_paranoid` is `level`.
fn hint(obstacle: EventObstacle, level: Option<i32>) -> String {
    let way = match (obstacle, level) {
        (EventObstacle::SeccompFilter, _) => {
            "this process has a seccomp filter, as in a container (--clock perf tries nevertheless)".into()
        }
        (EventObstacle::Refused(EACCES | EPERM), Some(level @ 2..)) => format!(
            "kernel.perf_event_paranoid is {level} (sudo sysctl kernel.perf_event_paranoid=1 permits it)"
        ),
        (EventObstacle::Refused(errno), _) => {
            format!("perf_event_open: {}", nix::errno::Errno::from_raw(errno).desc())
        }
    };
    format!(
        "the clock is cpu, which can miss work in step with the kernel's tick. Clock perf does not: {way}"
    )
}

/// Formats clocks, the most frequent first: `perf`, or `perf; cpu in 2 of 40 programs`.
pub(super) fn described(clocks: &BTreeMap<String, u64>) -> Option<String> {
    let all: u64 = clocks.values().sum();
    let mut sorted: Vec<_> = clocks.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let (first, others) = sorted.split_first()?;
    let others = others.iter().map(|(name, count)| format!("; {name} in {count} of {all} programs"));
    Some(first.0.to_string() + &others.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_the_obstacle_and_the_remedy() {
        let refused = EventObstacle::Refused(EACCES);
        for (obstacle, level, part) in [
            (refused, Some(4), "kernel.perf_event_paranoid is 4 (sudo sysctl"),
            (refused, Some(2), "kernel.perf_event_paranoid is 2 (sudo sysctl"),
            (refused, Some(1), "perf_event_open: Permission denied"),
            (
                EventObstacle::Refused(nix::errno::Errno::ENOSYS as i32),
                Some(2),
                "perf_event_open: Function not",
            ),
            (EventObstacle::SeccompFilter, Some(2), "seccomp filter"),
        ] {
            let text = hint(obstacle, level);
            assert!(text.starts_with("the clock is cpu") && text.contains(part), "{text}");
        }
    }

    #[test]
    fn lists_the_most_frequent_clock_first() {
        let described = |clocks: &[(&str, u64)]| {
            let clocks: BTreeMap<_, _> =
                clocks.iter().map(|(name, count)| ((*name).into(), *count)).collect();
            described(&clocks).unwrap_or_default()
        };
        assert_eq!(described(&[]), "");
        assert_eq!(described(&[("perf", 3)]), "perf");
        assert_eq!(
            described(&[("cpu", 2), ("itimer", 1), ("perf", 37)]),
            "perf; cpu in 2 of 40 programs; itimer in 1 of 40 programs"
        );
    }
}
