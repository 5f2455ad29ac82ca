//! Clocks, in nanoseconds.

use core::time::Duration;
use nix::time::{ClockId, clock_gettime};

/// CPU time that all threads of the process have used, ended ones included (`CLOCK_PROCESS_CPUTIME_ID`).
///
/// Signal-safe: `clock_gettime` is on the list of `signal-safety(7)`.
pub(crate) fn process_cpu() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Time since an arbitrary moment, never set back (`CLOCK_MONOTONIC`). Signal-safe, as `process_cpu`.
pub(crate) fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Seconds since 1970, as `time(2)` gives them.
pub(crate) fn seconds_since_epoch() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |time| time.tv_sec())
}

/// Both clocks above exist on every Linux, so the only error left is a bad pointer, which nix rules out.
fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
}
