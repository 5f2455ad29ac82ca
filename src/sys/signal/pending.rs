//! Origins of signals, and pending signals.
//!
//! # Safety
//! System calls on locals, and fields of the kernel's `siginfo_t`.
#![allow(unsafe_code)]

use super::SignalInfo;
use crate::sys::{arch::system_call, process, thread::Timespec};
use core::{mem, ptr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `setitimer(2)`: `si_code` is `SI_KERNEL`, which no process can send.
    IntervalTimer,
    /// A timer of `timer_create(2)`, with its `sigev_value`.
    PosixTimer {
        value: usize,
    },
    /// A file's signal on input (`F_SETSIG` of `fcntl(2)`), by its descriptor.
    File(i32),
    Elsewhere,
}

impl Origin {
    /// # Safety
    /// * `info` must be the kernel's, or one read by `rt_sigtimedwait(2)`.
    pub(crate) unsafe fn of(info: *const SignalInfo) -> Self {
        // SAFETY: `info` is valid, by this function's contract.
        let info = unsafe { &*info };
        match info.si_code {
            libc::SI_KERNEL => Self::IntervalTimer,
            // SAFETY: a signal with `SI_TIMER` has a value.
            libc::SI_TIMER => Self::PosixTimer { value: unsafe { info.si_value() }.sival_ptr as usize },
            POLL_IN => {
                // SAFETY: `FileInfo` is smaller than `siginfo_t`, and `POLL_IN` has its fields.
                let file = unsafe { ptr::from_ref(info).cast::<FileInfo>().read() };
                Self::File(file.fields.descriptor)
            }
            _ => Self::Elsewhere,
        }
    }
}

/// `POLL_IN` of `sigaction(2)`.
const POLL_IN: libc::c_int = 1;

/// `siginfo_t` with the fields of `_sigpoll`, for which libc has no accessors.
#[repr(C)]
struct FileInfo {
    head: [libc::c_int; 3],
    fields: FileFields,
}

#[repr(C)]
struct FileFields {
    band: libc::c_long,
    descriptor: libc::c_int,
}

pub(crate) fn interval_timer_info(signal: i32) -> SignalInfo {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: SignalInfo = unsafe { mem::zeroed() };
    info.si_signo = signal;
    info.si_code = libc::SI_KERNEL;
    info
}

/// Whether `signal` is pending for the thread or the process. Signal-safe: one system call.
pub(crate) fn is_pending(signal: i32) -> bool {
    let mut pending = 0u64;
    // SAFETY: the kernel writes eight bytes into a local.
    unsafe {
        system_call(libc::SYS_rt_sigpending, [&raw mut pending as usize, size_of::<u64>(), 0, 0, 0, 0])
    };
    pending >> (signal - 1) & 1 == 1
}

/// Discards pending instances of `signal` that `is_ours` accepts; the others stay pending. The
/// calling thread must block the signal. If it is not the main thread, the sender of those that
/// stay becomes this process. Signal-safe: system calls.
pub(crate) fn discard_own_pending(signal: i32, is_ours: impl Fn(Origin) -> bool) {
    // One of the thread and one of the process may be pending, besides those of timers.
    const KEPT: usize = 8;
    let mut kept = [const { None::<SignalInfo> }; KEPT];
    for place in &mut kept {
        let Some(info) = take_pending(signal) else { break };
        // SAFETY: the kernel filled `info`.
        if !is_ours(unsafe { Origin::of(&info) }) {
            *place = Some(info);
        }
    }
    for info in kept.iter().flatten() {
        let arguments =
            [process::id() as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0, 0];
        // SAFETY: the information is a local; the kernel accepts any from the main thread.
        if unsafe { system_call(libc::SYS_rt_sigqueueinfo, arguments) } != 0 {
            // EPERM: only the main thread may name another sender.
            // SAFETY: no pointer is passed; the signal is blocked, and was pending for the process.
            unsafe { system_call(libc::SYS_kill, [process::id() as usize, signal as usize, 0, 0, 0, 0]) };
        }
    }
}

pub(crate) fn is_real_time(signal: i32) -> bool {
    const FIRST: i32 = 32;
    signal >= FIRST
}

/// Discards one pending instance of `signal`, which the calling thread must block.
pub(crate) fn discard_pending(signal: i32) {
    let _ = take_pending(signal);
}

/// Discards all pending instances of `signal`. Not inlined: the caller may have little stack.
#[inline(never)]
pub(crate) fn discard_all_pending(signal: i32) {
    while take_pending(signal).is_some() {}
}

/// By system call: the shared library interposes `sigtimedwait` to hide the profiler's signals.
fn take_pending(signal: i32) -> Option<SignalInfo> {
    let set = 1u64 << (signal - 1);
    let now = Timespec { seconds: 0, nanos: 0 };
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: SignalInfo = unsafe { mem::zeroed() };
    let arguments =
        [&raw const set as usize, &raw mut info as usize, &raw const now as usize, size_of::<u64>(), 0, 0];
    // SAFETY: set, information and time are locals.
    let taken = unsafe { system_call(libc::SYS_rt_sigtimedwait, arguments) };
    (taken == signal as isize).then_some(info)
}
