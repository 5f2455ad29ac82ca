//! The calling thread.
//!
//! # Safety
//! System calls with a pointer to a local, and a question without arguments.
#![allow(unsafe_code)]

use super::{arch::system_call, clock, process};
use crate::thread::{NAME_BYTES, ThreadName};
use core::ffi::c_long;

/// A time as system calls without a "64" in their names take it, whatever libc's `timespec` is.
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) seconds: c_long,
    pub(crate) nanos: c_long,
}

/// Tells the calling thread from all others of its process, and is never 0. The thread that a forked child begins with
/// goes by the same as the one that forked.
///
/// Signal-safe: `pthread_self` is on the list of `signal-safety(7)`.
#[allow(clippy::unnecessary_cast, reason = "a pointer in some C libraries")]
pub(crate) fn pthread_self() -> usize {
    // SAFETY: no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// The calling thread's id, as the kernel has it. Signal-safe: one system call.
pub(crate) fn id() -> u32 {
    // SAFETY: it takes no argument and cannot fail.
    unsafe { system_call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// What the calling thread is called. Signal-safe: one system call.
pub(crate) fn name() -> ThreadName {
    let mut name = [0u8; NAME_BYTES];
    let arguments = [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: it writes 16 bytes at most, of which the last is a NUL (prctl(2)), into a local array of as many.
    unsafe { system_call(libc::SYS_prctl, arguments) };
    ThreadName::new(name)
}

/// True when this process has no thread with the id. Signal-safe: system calls.
pub(crate) fn is_gone(id: u32) -> bool {
    let process = process::id_by_system_call() as usize;
    // SAFETY: signal 0 is sent to nobody.
    unsafe { system_call(libc::SYS_tgkill, [process, id as usize, 0, 0, 0, 0]) == -(libc::ESRCH as isize) }
}

/// Lets other threads run for a millisecond at least, while ordinary context waits for them, however many signals come
/// meanwhile. No cancellation point.
pub(crate) fn pause() {
    // Until a point in time: what is left of a sleep grows by the timer's slack (50 us) at each signal, and would never
    // come to an end under many.
    let end = clock::monotonic_nanos() + 1_000_000;
    let time = Timespec { seconds: (end / 1_000_000_000) as c_long, nanos: (end % 1_000_000_000) as c_long };
    let arguments =
        [libc::CLOCK_MONOTONIC as usize, libc::TIMER_ABSTIME as usize, &raw const time as usize, 0, 0, 0];
    // SAFETY: the time is a local; nothing is written for an absolute one.
    while unsafe { system_call(libc::SYS_clock_nanosleep, arguments) } == -(libc::EINTR as isize) {}
}

/// How long ordinary context, or the end of a program, waits for another thread: two seconds, in pauses, of each of which ten
/// milliseconds count at most. On a machine that other guests or many threads keep busy the other thread gets no processor for
/// seconds, and neither does who waits: that is no time in which it could have come back.
pub(crate) struct Backoff {
    rounds: u32,
    /// Nanoseconds that are left.
    left: u64,
}

impl Backoff {
    /// Rounds that only let others run. Behind them it sleeps: the other thread may have lower priority.
    const YIELDS: u32 = 100;
    /// Nanoseconds.
    const TIME: u64 = 2_000_000_000;
    /// Nanoseconds that a pause counts for at most: it takes a millisecond, and with coarse timers ten.
    const LONGEST: u64 = 10_000_000;

    pub(crate) const fn bounded() -> Self {
        Self { rounds: 0, left: Self::TIME }
    }

    /// That of who has nothing else to do: centuries.
    pub(crate) const fn unbounded() -> Self {
        Self { rounds: 0, left: u64::MAX }
    }

    /// Lets others run; false, at once, when the time is over. No cancellation point. Legal where the caller has signals blocked,
    /// in handlers, too: `sched_yield`, `clock_gettime`, and `clock_nanosleep` by system call.
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

    /// Takes the time of a pause away, in nanoseconds.
    fn spend(&mut self, pause: u64) {
        self.left = self.left.saturating_sub(pause.min(Self::LONGEST));
    }
}

/// Pages that the calling thread has touched for the first time. Signal-safe: one system call.
#[cfg(sigprof_stamps)]
pub(crate) fn minor_faults() -> u64 {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    let arguments = [libc::RUSAGE_THREAD as usize, &raw mut usage as usize, 0, 0, 0, 0];
    // SAFETY: the structure is a local.
    unsafe { system_call(libc::SYS_getrusage, arguments) };
    usage.ru_minflt as u64
}

/// How many processors the calling thread may run on, at least 1.
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
    fn a_thread_has_the_name_that_it_was_given() {
        for given in ["a", "fifteen letters"] {
            let named = std::thread::Builder::new().name(given.into()).spawn(name).unwrap();
            assert_eq!(named.join().unwrap().as_bytes(), given.as_bytes());
        }
    }

    #[test]
    fn patience_is_over_when_its_pauses_are_and_stays_so() {
        const PAUSES: u64 = 3;
        let mut backoff = Backoff { left: PAUSES * Backoff::LONGEST, ..Backoff::bounded() };
        let begin = Instant::now();
        let rounds = core::iter::repeat_with(|| backoff.wait()).take_while(|&waited| waited).count() as u64;
        assert!(begin.elapsed() >= Duration::from_nanos(PAUSES * Backoff::LONGEST), "it did not pause");
        assert!(rounds - u64::from(Backoff::YIELDS) >= PAUSES, "{rounds} rounds");
        assert!(!backoff.wait());
    }

    #[test]
    fn a_machine_that_stands_still_takes_little_patience() {
        let mut backoff = Backoff::bounded();
        backoff.spend(3_600_000_000_000);
        assert_eq!(backoff.left, 1_990_000_000);
        backoff.spend(1_060_000);
        assert_eq!(backoff.left, 1_988_940_000);
    }

    #[test]
    fn signals_do_not_shorten_a_pause() {
        let action = SigAction::new(SigHandler::Handler(count), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler uses one atomic; no other test has this signal.
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
