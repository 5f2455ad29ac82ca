//! The calling thread. Signal-safe except `processors`: system calls, and functions that
//! `signal-safety(7)` lists.
//!
//! # Safety
//! System calls without pointers or with a pointer to a local.
#![allow(unsafe_code)]

use super::{arch::system_call, clock, process};
use crate::thread::{NAME_BYTES, ThreadName};
use core::ffi::c_long;

/// `struct timespec` of system calls without "64" in their names, which may differ from libc's.
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) seconds: c_long,
    pub(crate) nanos: c_long,
}

/// Returns a nonzero ID, unique in the process. A fork's child has that of the forking thread.
#[allow(clippy::unnecessary_cast, reason = "a pointer in some C libraries")]
pub(crate) fn pthread_self() -> usize {
    // SAFETY: no precondition.
    unsafe { libc::pthread_self() as usize }
}

pub(crate) fn id() -> u32 {
    // SAFETY: no arguments; it cannot fail.
    unsafe { system_call(libc::SYS_gettid, [0; 6]) as u32 }
}

pub(crate) fn name() -> ThreadName {
    let mut name = [0u8; NAME_BYTES];
    let arguments = [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: it writes at most 16 bytes, NUL included (prctl(2)), into a local array of 16.
    unsafe { system_call(libc::SYS_prctl, arguments) };
    ThreadName::new(name)
}

pub(crate) fn is_gone(id: u32) -> bool {
    let process = process::id_by_system_call() as usize;
    // SAFETY: signal 0 is not delivered; no pointer is passed.
    unsafe { system_call(libc::SYS_tgkill, [process, id as usize, 0, 0, 0, 0]) == -(libc::ESRCH as isize) }
}

/// Sleeps for at least a millisecond, however many signals arrive. Not a cancellation point.
pub(crate) fn pause() {
    // Absolute: each signal prolongs a relative sleep by the timer slack (50 us), without limit.
    let end = clock::monotonic_nanos() + 1_000_000;
    let time = Timespec { seconds: (end / 1_000_000_000) as c_long, nanos: (end % 1_000_000_000) as c_long };
    let arguments =
        [libc::CLOCK_MONOTONIC as usize, libc::TIMER_ABSTIME as usize, &raw const time as usize, 0, 0, 0];
    // SAFETY: the time is a local; an absolute sleep writes nothing.
    while unsafe { system_call(libc::SYS_clock_nanosleep, arguments) } == -(libc::EINTR as isize) {}
}

/// A bounded wait for another thread: two seconds in pauses, each counted as at most 10 ms. On a
/// busy machine neither thread may run for seconds: such time must not count.
pub(crate) struct Backoff {
    rounds: u32,
    /// Nanoseconds.
    left: u64,
}

impl Backoff {
    /// Yields before the first sleep: the other thread may have a lower priority.
    const YIELDS: u32 = 100;
    const TIME: u64 = 2_000_000_000;
    /// Nanoseconds: a pause takes 1 ms, with coarse timers 10 ms.
    const LONGEST: u64 = 10_000_000;

    pub(crate) const fn bounded() -> Self {
        Self { rounds: 0, left: Self::TIME }
    }

    /// Waits for centuries, if the caller has nothing else to do.
    pub(crate) const fn unbounded() -> Self {
        Self { rounds: 0, left: u64::MAX }
    }

    /// Yields or sleeps; returns false when no time remains. Not a cancellation point.
    pub(crate) fn wait(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.rounds < Self::YIELDS {
            self.rounds += 1;
            std::thread::yield_now();
        } else {
            let begin = clock::monotonic_nanos();
            pause();
            self.spend(clock::monotonic_nanos().saturating_sub(begin));
        }
        true
    }

    fn spend(&mut self, pause: u64) {
        self.left = self.left.saturating_sub(pause.min(Self::LONGEST));
    }
}

#[cfg(sigprof_stamps)]
pub(crate) fn minor_faults() -> u64 {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    let arguments = [libc::RUSAGE_THREAD as usize, &raw mut usage as usize, 0, 0, 0, 0];
    // SAFETY: the structure is a local.
    unsafe { system_call(libc::SYS_getrusage, arguments) };
    usage.ru_minflt as u64
}

pub(crate) fn processors() -> usize {
    use nix::{
        sched::{CpuSet, sched_getaffinity},
        unistd::Pid,
    };
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return 1 };
    (0..CpuSet::count()).filter(|&processor| set.is_set(processor) == Ok(true)).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, AtomicU32, Ordering};
    use nix::sys::{
        pthread::{pthread_kill, pthread_self},
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
    };
    use std::time::{Duration, Instant};

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn count(_: i32) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn returns_the_name_of_a_thread() {
        for given in ["a", "fifteen letters"] {
            let named = std::thread::Builder::new().name(given.into()).spawn(name).unwrap();
            assert_eq!(named.join().unwrap().as_bytes(), given.as_bytes());
        }
    }

    #[test]
    fn stops_waiting_after_its_pauses() {
        const PAUSES: u64 = 3;
        let mut backoff = Backoff { left: PAUSES * Backoff::LONGEST, ..Backoff::bounded() };
        let begin = Instant::now();
        let rounds = core::iter::repeat_with(|| backoff.wait()).take_while(|&waited| waited).count() as u64;
        assert!(begin.elapsed() >= Duration::from_nanos(PAUSES * Backoff::LONGEST), "it did not pause");
        assert!(rounds - u64::from(Backoff::YIELDS) >= PAUSES, "{rounds} rounds");
        assert!(!backoff.wait());
    }

    #[test]
    fn counts_little_of_a_long_pause() {
        let mut backoff = Backoff::bounded();
        backoff.spend(3_600_000_000_000);
        assert_eq!(backoff.left, 1_990_000_000);
        backoff.spend(1_060_000);
        assert_eq!(backoff.left, 1_988_940_000);
    }

    #[test]
    fn pauses_in_full_under_signals() {
        let action = SigAction::new(SigHandler::Handler(count), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler uses one atomic; no other test uses this signal.
        unsafe { sigaction(Signal::SIGWINCH, &action) }.unwrap();
        let over = AtomicBool::new(false);
        let pausing = pthread_self();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    pthread_kill(pausing, Signal::SIGWINCH).unwrap();
                }
            });
            while HANDLED.load(Ordering::Relaxed) == 0 {
                pause();
            }
            let start = Instant::now();
            (0..100).for_each(|_| pause());
            let passed = start.elapsed();
            over.store(true, Ordering::Relaxed);
            assert!(passed >= Duration::from_millis(100), "{passed:?}");
        });
    }
}
