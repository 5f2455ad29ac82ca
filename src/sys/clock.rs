//! Clocks, in nanoseconds. Signal-safe: `clock_gettime` is listed in `signal-safety(7)`.

use nix::{
    sys::time::TimeSpec,
    time::{ClockId, clock_gettime},
};

/// Returns the CPU time of all threads, exited ones included.
pub(crate) fn process_cpu_nanos() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns CPU time as the kernel's timer interrupts count it: one interval for the thread that
/// each interrupts (`CPUCLOCK_PROF` of <linux/posix-timers.h>). 0 without this clock.
pub(crate) fn process_prof_nanos() -> u64 {
    const OF_THIS_PROCESS: libc::clockid_t = !0 << 3;
    read(ClockId::from_raw(OF_THIS_PROCESS))
}

pub(crate) fn thread_cpu_nanos() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns a thread's CPU time; None if this process has no such thread.
pub(crate) fn cpu_nanos_of_thread(thread: u32) -> Option<u64> {
    clock_gettime(ClockId::from_raw(thread_clock_id(thread))).ok().map(nanos)
}

/// Returns a thread's CPU clock, as `pthread_getcpuclockid(3)`.
pub(super) fn thread_clock_id(thread: u32) -> libc::clockid_t {
    // `CPUCLOCK_PERTHREAD_MASK` and `CPUCLOCK_SCHED` of <linux/posix-timers.h>.
    (!(thread as libc::clockid_t) << 3) | 4 | 2
}

pub(crate) fn monotonic_nanos() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

#[allow(clippy::unnecessary_cast, reason = "32 bits wide on 32-bit machines")]
pub(crate) fn seconds_since_epoch() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |time| time.tv_sec() as i64)
}

pub(crate) fn epoch_nanos() -> i64 {
    read(ClockId::CLOCK_REALTIME) as i64
}

/// Returns the nanoseconds since boot, suspend included.
pub(crate) fn boottime_nanos() -> i64 {
    read(ClockId::CLOCK_BOOTTIME) as i64
}

/// Returns 0 if the kernel (some emulators) does not have the clock; other errors are impossible.
fn read(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, nanos)
}

/// Neither field is negative: the clocks count from 1970, from boot, or from a start.
fn nanos(time: TimeSpec) -> u64 {
    (time.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec() as u64)
}
