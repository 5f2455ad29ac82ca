//! The process's interval timers (`setitimer(2)`). Signal-safe: system calls.
//!
//! # Safety
//! Raw system calls with pointers to locals: the shared library interposes libc's functions.
#![allow(unsafe_code)]

use super::arch::system_call;
use core::ffi::c_long;

/// C's `struct itimerval`.
pub type CItimerval = libc::itimerval;

/// The kernel's `struct timeval` of `long`s, which may differ from libc's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timeval {
    seconds: c_long,
    micros: c_long,
}

impl Timeval {
    const NONE: Self = Self { seconds: 0, micros: 0 };

    fn from_micros(micros: u32) -> Self {
        // Both fit: the quotient is below 4295.
        Self { seconds: (micros / 1_000_000) as c_long, micros: (micros % 1_000_000) as c_long }
    }

    fn is_valid(self) -> bool {
        self.seconds >= 0 && (0..1_000_000).contains(&self.micros)
    }

    #[allow(clippy::unnecessary_cast, reason = "32 bits wide on 32-bit machines")]
    fn nanos(self) -> u64 {
        (self.seconds as u64).saturating_mul(1_000_000_000).saturating_add(self.micros as u64 * 1000)
    }
}

/// The kernel's `struct itimerval`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Itimerval {
    interval: Timeval,
    value: Timeval,
}

impl Itimerval {
    pub(crate) const NONE: Self = Self { interval: Timeval::NONE, value: Timeval::NONE };

    pub(crate) fn every(period_micros: u32) -> Self {
        let period = Timeval::from_micros(period_micros);
        Self { interval: period, value: period }
    }

    /// True unless the kernel would return `EINVAL`.
    pub(crate) fn is_valid(&self) -> bool {
        self.interval.is_valid() && self.value.is_valid()
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.value != Timeval::NONE
    }

    /// Expires after `nanos`, at least a microsecond, then at the same interval.
    pub(crate) fn next_in(self, nanos: u64) -> Self {
        let micros = (nanos / 1000).clamp(1, u32::MAX.into()) as u32;
        Self { value: Timeval::from_micros(micros), ..self }
    }

    /// Whether the intervals are about equal: kernels before 4.11 round them to jiffies.
    pub(crate) fn has_interval_of(&self, other: &Self) -> bool {
        const ROUNDING: u64 = 20_000_000;
        self.interval != Timeval::NONE && self.interval().abs_diff(other.interval()) < ROUNDING
    }

    /// Nanoseconds to the next expiry.
    pub(crate) fn value(&self) -> u64 {
        self.value.nanos()
    }

    /// Nanoseconds between expiries, or 0.
    pub(crate) fn interval(&self) -> u64 {
        self.interval.nanos()
    }

    #[allow(clippy::unnecessary_cast, reason = "as wide as the field on some machines")]
    pub(crate) fn from_c(setting: &CItimerval) -> Self {
        let time =
            |time: &libc::timeval| Timeval { seconds: time.tv_sec as c_long, micros: time.tv_usec as c_long };
        Self { interval: time(&setting.it_interval), value: time(&setting.it_value) }
    }

    #[allow(clippy::unnecessary_cast, reason = "as wide as the field on some machines")]
    pub(crate) fn to_c(self) -> CItimerval {
        let time = |time: Timeval| libc::timeval { tv_sec: time.seconds as _, tv_usec: time.micros as _ };
        CItimerval { it_interval: time(self.interval), it_value: time(self.value) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntervalTimer {
    /// Counts the CPU time of all threads, user and system, and sends SIGPROF.
    Cpu,
    /// Counts elapsed time and sends SIGALRM.
    Real,
}

impl IntervalTimer {
    pub(crate) const fn signal(self) -> i32 {
        match self {
            Self::Cpu => libc::SIGPROF,
            Self::Real => libc::SIGALRM,
        }
    }

    pub(crate) const fn signal_name(self) -> &'static str {
        match self {
            Self::Cpu => "SIGPROF",
            Self::Real => "SIGALRM",
        }
    }

    pub(crate) fn which(self) -> i32 {
        match self {
            Self::Cpu => libc::ITIMER_PROF,
            Self::Real => libc::ITIMER_REAL,
        }
    }

    /// Returns the old setting. A pending signal stays pending.
    ///
    /// # Errors
    /// The error number of `setitimer(2)`.
    pub(crate) fn set(self, new: Itimerval) -> Result<Itimerval, i32> {
        let mut old = Itimerval::NONE;
        let arguments = [self.which() as usize, &raw const new as usize, &raw mut old as usize, 0, 0, 0];
        // SAFETY: both settings are locals.
        let result = unsafe { system_call(libc::SYS_setitimer, arguments) };
        if result == 0 { Ok(old) } else { Err(-result as i32) }
    }

    /// # Errors
    /// The error number of `getitimer(2)`.
    pub(crate) fn get(self) -> Result<Itimerval, i32> {
        let mut present = Itimerval::NONE;
        let arguments = [self.which() as usize, &raw mut present as usize, 0, 0, 0, 0];
        // SAFETY: the setting is a local.
        let result = unsafe { system_call(libc::SYS_getitimer, arguments) };
        if result == 0 { Ok(present) } else { Err(-result as i32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_to_c_and_back() {
        let setting = Itimerval {
            interval: Timeval { seconds: 3, micros: 999_999 },
            value: Timeval { seconds: 0, micros: 1 },
        };
        assert_eq!(Itimerval::from_c(&setting.to_c()), setting);
        assert_eq!((setting.value(), setting.interval()), (1000, 3_999_999_000));
    }

    #[test]
    fn refuses_what_the_kernel_refuses() {
        let good = Itimerval::every(10_000);
        assert!(
            good.is_valid() && good.is_armed() && Itimerval::NONE.is_valid() && !Itimerval::NONE.is_armed()
        );
        for time in [
            Timeval { seconds: 0, micros: 1_000_000 },
            Timeval { seconds: 0, micros: -1 },
            Timeval { seconds: -1, micros: 0 },
        ] {
            for setting in [Itimerval { value: time, ..good }, Itimerval { interval: time, ..good }] {
                assert!(!setting.is_valid(), "{setting:?}");
                assert_eq!(IntervalTimer::Real.set(setting), Err(libc::EINVAL), "{setting:?}");
            }
        }
    }
}
