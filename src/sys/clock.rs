//! Clocks, in nanoseconds.

use nix::{
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};

/// CPU time that all threads of the process have used, ended ones included (`CLOCK_PROCESS_CPUTIME_ID`).
///
/// Signal-safe: `clock_gettime` is on the list of `signal-safety(7)`.
pub(crate) fn process_cpu_nanos() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the process as the kernel's timer interrupts count it: each counts one interval for the thread that it
/// interrupts (`CPUCLOCK_PROF` of <linux/posix-timers.h>). 0 if the kernel does not have this clock. Signal-safe, as
/// `process_cpu_nanos`.
pub(crate) fn process_prof_nanos() -> u64 {
    const OF_THIS_PROCESS: libc::clockid_t = !0 << 3;
    read(ClockId::from_raw(OF_THIS_PROCESS))
}

/// CPU time that the calling thread has used (`CLOCK_THREAD_CPUTIME_ID`). Signal-safe, as `process_cpu_nanos`.
pub(crate) fn thread_cpu_nanos() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that a thread of this process has used; None where there is no such thread. Signal-safe, as `process_cpu_nanos`.
pub(crate) fn cpu_nanos_of_thread(thread: u32) -> Option<u64> {
    clock_gettime(ClockId::from_raw(thread_clock_id(thread))).ok().map(nanos)
}

/// The name of a thread's CPU clock, for system calls.
pub(super) fn thread_clock_id(thread: u32) -> libc::clockid_t {
    // As the kernel builds it (`CPUCLOCK_PERTHREAD_MASK` and `CPUCLOCK_SCHED` of <linux/posix-timers.h>), and
    // `pthread_getcpuclockid(3)` after it.
    (!(thread as libc::clockid_t) << 3) | 4 | 2
}

/// Time since an arbitrary moment, never set back (`CLOCK_MONOTONIC`). Signal-safe, as `process_cpu_nanos`.
pub(crate) fn monotonic_nanos() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Seconds since 1970, as `time(2)` gives them.
#[allow(clippy::unnecessary_cast, reason = "32 bits wide on 32-bit machines")]
pub(crate) fn seconds_since_epoch() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |time| time.tv_sec() as i64)
}

/// Nanoseconds since 1970 (`CLOCK_REALTIME`). Signal-safe, as `process_cpu_nanos`.
pub(crate) fn epoch_nanos() -> i64 {
    read(ClockId::CLOCK_REALTIME) as i64
}

/// Nanoseconds since the machine started, sleep included (`CLOCK_BOOTTIME`). Signal-safe, as `process_cpu_nanos`.
pub(crate) fn boottime_nanos() -> i64 {
    read(ClockId::CLOCK_BOOTTIME) as i64
}

/// 0 if the kernel does not have the clock, as some emulators. The other error, a bad pointer, is impossible with nix.
fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, nanos)
}

/// The clocks count from the start of the machine, the process or the thread, so neither field is negative.
fn nanos(time: TimeSpec) -> u64 {
    (time.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec() as u64)
}
