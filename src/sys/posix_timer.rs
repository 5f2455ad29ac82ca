//! POSIX timers (`timer_create(2)`). Signal-safe: system calls.
//!
//! # Safety
//! Raw system calls with pointers to locals: libc's function may allocate, and may be interposed.
#![allow(unsafe_code)]

use super::{arch::system_call, clock, process, thread::Timespec, timer::IntervalTimer};
use core::{
    ffi::c_long,
    mem::{self, MaybeUninit},
    ptr,
};

/// The kernel's `struct itimerspec`, without "64".
#[repr(C)]
struct Itimerspec {
    interval: Timespec,
    value: Timespec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PosixTimer(pub(crate) i32);

impl PosixTimer {
    /// Arms a new timer on the clock of `like`. fork(2) and execve(2) do not inherit it.
    ///
    /// # Errors
    /// The error number of `timer_create(2)` or `timer_settime(2)`: `EAGAIN` at RLIMIT_SIGPENDING.
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
            // Pending for the main thread, as the interval timer's. If it were pending for the
            // process, the kernel would drop that of `alarm(2)` that expires in the same jiffy.
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = process::id() as i32;
        }
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        let timer = Self::create(clock, &event)?;
        let period = u64::from(period_micros) * 1000;
        timer.set(period, period).map(|()| timer).inspect_err(|_| timer.delete())
    }

    /// Creates an unarmed timer on a thread's CPU time or on elapsed time, as `like`.
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

    /// Arms the timer; times are nanoseconds.
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

    /// True unless the application has deleted it.
    pub(crate) fn exists(self) -> bool {
        let mut setting = MaybeUninit::<Itimerspec>::uninit();
        // SAFETY: the setting is a local.
        let got = unsafe {
            system_call(libc::SYS_timer_gettime, [self.0 as usize, setting.as_mut_ptr() as usize, 0, 0, 0, 0])
        };
        got == 0
    }

    fn create(clock: libc::clockid_t, event: &libc::sigevent) -> Result<Self, i32> {
        let mut id = 0i32;
        let arguments = [clock as usize, ptr::from_ref(event) as usize, &raw mut id as usize, 0, 0, 0];
        // SAFETY: event and ID outlive the call and have the kernel's layout.
        let created = unsafe { system_call(libc::SYS_timer_create, arguments) };
        if created == 0 { Ok(Self(id)) } else { Err(-created as i32) }
    }

    /// Deletes the timer; a pending signal stays pending.
    pub(crate) fn delete(self) {
        // SAFETY: no pointer is passed. It fails only if the timer does not exist.
        unsafe { system_call(libc::SYS_timer_delete, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}
