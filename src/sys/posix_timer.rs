//! Timers that a process can have many of (`timer_create(2)`).
//!
//! # Safety
//! Raw system calls with pointers to locals. Raw, because libc's function allocates for some notifications, and a host may
//! have interposed it.
#![allow(unsafe_code)]

use super::{arch::system_call, process, thread::Time, timer::IntervalTimer};
use core::{ffi::c_long, mem};

/// `struct itimerspec` as the system call without "64" in its name takes it.
#[repr(C)]
struct Setting {
    interval: Time,
    value: Time,
}

/// The kernel's name of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PosixTimer(pub(crate) i32);

impl PosixTimer {
    /// Makes a timer that counts what `like` counts and sends its signal, with `value` in the signal's information, and
    /// arms it for each period. Neither a child of a fork has it nor the next program. Signal-safe: system calls.
    ///
    /// # Errors
    /// The error number of `timer_create(2)` or `timer_settime(2)`: `EAGAIN` where the user has too many signals pending
    /// (`ulimit -i`).
    pub(crate) fn start(like: IntervalTimer, period_micros: u32, value: usize) -> Result<Self, i32> {
        let clock = match like {
            IntervalTimer::Cpu => libc::CLOCK_PROCESS_CPUTIME_ID,
            IntervalTimer::Real => libc::CLOCK_MONOTONIC,
        };
        // SAFETY: all fields are integers or pointers, for which zero is a value.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        if like == IntervalTimer::Real {
            // To the first thread, as the interval timer's. Pending for that thread alone: while a signal is pending for
            // the process the kernel drops that of `alarm(2)`, and where timers run out at the same jiffy it always is.
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = process::id() as i32;
        }
        event.sigev_signo = like.signal();
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        let mut id = 0i32;
        let arguments = [clock as usize, &raw const event as usize, &raw mut id as usize, 0, 0, 0];
        // SAFETY: the event and the name are locals, of the kernel's layout.
        let created = unsafe { system_call(libc::SYS_timer_create, arguments) };
        if created != 0 {
            return Err(-created as i32);
        }
        let timer = Self(id);
        timer.arm(period_micros).map(|()| timer).inspect_err(|_| timer.delete())
    }

    fn arm(self, period_micros: u32) -> Result<(), i32> {
        let period = || Time {
            seconds: (period_micros / 1_000_000) as c_long,
            nanos: (period_micros % 1_000_000 * 1000) as c_long,
        };
        let setting = Setting { interval: period(), value: period() };
        let arguments = [self.0 as usize, 0, &raw const setting as usize, 0, 0, 0];
        // SAFETY: the setting is a local; a null old one is allowed.
        let armed = unsafe { system_call(libc::SYS_timer_settime, arguments) };
        if armed == 0 { Ok(()) } else { Err(-armed as i32) }
    }

    /// Ends the timer. What is already pending may still arrive. Signal-safe: one system call.
    pub(crate) fn delete(self) {
        // SAFETY: no pointer is passed. It fails only for a timer that is not there.
        unsafe { system_call(libc::SYS_timer_delete, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}
