//! Timers that a process can have many of (`timer_create(2)`).
//!
//! # Safety
//! Raw system calls with pointers to locals. Raw, because libc's function allocates for some notifications, and a host may
//! have interposed it.
#![allow(unsafe_code)]

use super::{arch::system_call, clock, process, thread::Timespec, timer::IntervalTimer};
use core::{
    ffi::c_long,
    mem::{self, MaybeUninit},
    ptr,
};

/// `struct itimerspec` as the system call without "64" in its name takes it.
#[repr(C)]
struct Itimerspec {
    interval: Timespec,
    value: Timespec,
}

/// The kernel's name of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PosixTimer(pub(crate) i32);

impl PosixTimer {
    /// Makes a timer that counts what `like` counts and sends `signal`, with `value` in the signal's information, and
    /// arms it for each period. Neither a child of a fork has it nor the next program. Signal-safe: system calls.
    ///
    /// # Errors
    /// The error number of `timer_create(2)` or `timer_settime(2)`: `EAGAIN` where the user has too many signals pending
    /// (`ulimit -i`).
    pub(crate) fn start(
        like: IntervalTimer,
        signal: i32,
        period_micros: u32,
        value: usize,
    ) -> Result<Self, i32> {
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
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        let timer = Self::create(clock, &event)?;
        let period = u64::from(period_micros) * 1000;
        timer.set(period, period).map(|()| timer).inspect_err(|_| timer.delete())
    }

    /// Makes a timer that counts a thread's CPU time, or elapsed time, as `like` says, and interrupts the thread by `signal`,
    /// with `value` in the signal's information; it is not armed. Signal-safe: system calls.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn of_thread(
        like: IntervalTimer,
        thread: u32,
        signal: i32,
        value: usize,
    ) -> Result<Self, i32> {
        let clock = match like {
            IntervalTimer::Cpu => clock::thread_clock_id(thread),
            IntervalTimer::Real => libc::CLOCK_MONOTONIC,
        };
        // SAFETY: all fields are integers or pointers, for which zero is a value.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_notify_thread_id = thread as i32;
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        Self::create(clock, &event)
    }

    /// Lets it send its signal in `first` nanoseconds, and then each period. Signal-safe: one system call.
    ///
    /// # Errors
    /// The error number of `timer_settime(2)`.
    pub(crate) fn set(self, first: u64, period: u64) -> Result<(), i32> {
        let time = |nanos: u64| Timespec {
            seconds: (nanos / 1_000_000_000) as c_long,
            nanos: (nanos % 1_000_000_000) as c_long,
        };
        let setting = Itimerspec { interval: time(period), value: time(first) };
        let arguments = [self.0 as usize, 0, &raw const setting as usize, 0, 0, 0];
        // SAFETY: the setting is a local; a null old one is allowed.
        let armed = unsafe { system_call(libc::SYS_timer_settime, arguments) };
        if armed == 0 { Ok(()) } else { Err(-armed as i32) }
    }

    /// False if the application has deleted it. Signal-safe: one system call.
    pub(crate) fn exists(self) -> bool {
        let mut setting = MaybeUninit::<Itimerspec>::uninit();
        // SAFETY: the setting is a local that outlives the call.
        let got = unsafe {
            system_call(libc::SYS_timer_gettime, [self.0 as usize, setting.as_mut_ptr() as usize, 0, 0, 0, 0])
        };
        got == 0
    }

    fn create(clock: libc::clockid_t, event: &libc::sigevent) -> Result<Self, i32> {
        let mut id = 0i32;
        let arguments = [clock as usize, ptr::from_ref(event) as usize, &raw mut id as usize, 0, 0, 0];
        // SAFETY: event and name outlive the call, and are of the kernel's layout.
        let created = unsafe { system_call(libc::SYS_timer_create, arguments) };
        if created == 0 { Ok(Self(id)) } else { Err(-created as i32) }
    }

    /// Ends the timer. What is already pending may still arrive. Signal-safe: one system call.
    pub(crate) fn delete(self) {
        // SAFETY: no pointer is passed. It fails only for a timer that is not there.
        unsafe { system_call(libc::SYS_timer_delete, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}
