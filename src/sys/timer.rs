//! The process's interval timers (`setitimer(2)`).
//!
//! # Safety
//! Raw `setitimer` calls with pointers to locals. Raw, because the shared library may interpose the function.
#![allow(unsafe_code)]

use super::arch::system_call;
use core::ptr;

/// Which interval timer ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntervalTimer {
    /// Counts the CPU time of all threads, user and system, and sends SIGPROF.
    Cpu,
    /// Counts elapsed time and sends SIGALRM.
    Real,
}

impl IntervalTimer {
    /// The signal that the timer sends.
    pub(crate) fn signal(self) -> i32 {
        match self {
            Self::Cpu => libc::SIGPROF,
            Self::Real => libc::SIGALRM,
        }
    }

    fn which(self) -> i32 {
        match self {
            Self::Cpu => libc::ITIMER_PROF,
            Self::Real => libc::ITIMER_REAL,
        }
    }

    /// Starts the timer, with its first tick after one period.
    ///
    /// # Errors
    /// The error number of `setitimer(2)`.
    pub(crate) fn arm(self, period_micros: u32) -> Result<(), i32> {
        self.set(i64::from(period_micros))
    }

    /// Stops the timer. Ticks that are already pending still arrive.
    pub(crate) fn disarm(self) -> Result<(), i32> {
        self.set(0)
    }

    fn set(self, period_micros: i64) -> Result<(), i32> {
        let interval =
            libc::timeval { tv_sec: period_micros / 1_000_000, tv_usec: period_micros % 1_000_000 };
        let value = libc::itimerval { it_interval: interval, it_value: interval };
        // SAFETY: `value` outlives the call, and a null old value is allowed.
        let result = unsafe {
            system_call(
                libc::SYS_setitimer,
                [self.which() as usize, &raw const value as usize, ptr::null::<u8>() as usize, 0, 0, 0],
            )
        };
        if result == 0 { Ok(()) } else { Err(-result as i32) }
    }
}
