//! The process's interval timers (`setitimer(2)`).
//!
//! # Safety
//! Raw `setitimer` calls with pointers to locals. Raw, because the shared library may interpose the function.
#![allow(unsafe_code)]

use super::arch::system_call;
use core::{ffi::c_long, ptr};

/// A time as this system call takes it: in the kernel's `long`s on every machine, whatever libc's `timeval` is.
#[repr(C)]
#[derive(Clone, Copy)]
struct Time {
    seconds: c_long,
    micros: c_long,
}

/// `struct itimerval`, likewise.
#[repr(C)]
struct Setting {
    interval: Time,
    value: Time,
}

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
        self.set(period_micros)
    }

    /// Stops the timer. Ticks that are already pending still arrive.
    pub(crate) fn disarm(self) -> Result<(), i32> {
        self.set(0)
    }

    fn set(self, period_micros: u32) -> Result<(), i32> {
        // Both fit: the quotient is below 4295.
        let period = Time {
            seconds: (period_micros / 1_000_000) as c_long,
            micros: (period_micros % 1_000_000) as c_long,
        };
        let value = Setting { interval: period, value: period };
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
