//! Where a signal comes from, and signals that are pending.
//!
//! # Safety
//! System calls on locals, and fields of what the kernel tells of a signal.
#![allow(unsafe_code)]

use super::SignalInfo;
use crate::sys::{arch::system_call, process, thread::Timespec};
use core::{mem, ptr};

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `setitimer(2)`: the kernel marks it with `SI_KERNEL`, which no other process can send.
    IntervalTimer,
    /// A timer of `timer_create(2)`, with the value that it was made with.
    PosixTimer {
        value: usize,
    },
    /// A file that sends its signal when it has something to read (`F_SETSIG` of `fcntl(2)`), by its descriptor.
    File(i32),
    Elsewhere,
}

impl Origin {
    /// The origin of the signal that `info` tells of.
    ///
    /// # Safety
    /// * `info` is what the kernel tells of a signal.
    pub(crate) unsafe fn of(info: *const SignalInfo) -> Self {
        // SAFETY: the caller's word.
        let info = unsafe { &*info };
        match info.si_code {
            libc::SI_KERNEL => Self::IntervalTimer,
            // SAFETY: such a signal has a value.
            libc::SI_TIMER => Self::PosixTimer { value: unsafe { info.si_value() }.sival_ptr as usize },
            POLL_IN => {
                // SAFETY: such a signal's structure has these fields, and is larger.
                let file = unsafe { ptr::from_ref(info).cast::<FileInfo>().read() };
                Self::File(file.fields.descriptor)
            }
            _ => Self::Elsewhere,
        }
    }
}

/// `POLL_IN` of `sigaction(2)`.
const POLL_IN: libc::c_int = 1;

/// What the kernel tells of a file's signal: `siginfo_t` with the fields of `_sigpoll`, of which libc has no accessors.
#[repr(C)]
struct FileInfo {
    /// Signal, error and code.
    head: [libc::c_int; 3],
    fields: FileFields,
}

#[repr(C)]
struct FileFields {
    band: libc::c_long,
    descriptor: libc::c_int,
}

/// What the kernel tells of a signal of `setitimer(2)`.
pub(crate) fn interval_timer_info(signal: i32) -> SignalInfo {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: SignalInfo = unsafe { mem::zeroed() };
    info.si_signo = signal;
    info.si_code = libc::SI_KERNEL;
    info
}

/// True while `signal` is pending for the calling thread or for the process. Signal-safe: one system call.
pub(crate) fn is_pending(signal: i32) -> bool {
    let mut pending = 0u64;
    // SAFETY: the kernel writes eight bytes, of a local.
    unsafe {
        system_call(libc::SYS_rt_sigpending, [&raw mut pending as usize, size_of::<u64>(), 0, 0, 0, 0])
    };
    pending >> (signal - 1) & 1 == 1
}

/// Takes `signal` back as often as it is pending for the calling thread, which has it blocked, and `is_ours` says so of
/// its origin. What is not ours stays pending; if the calling thread is not the first one, with this process as its
/// sender. Signal-safe: system calls.
pub(crate) fn discard_own_pending(signal: i32, is_ours: impl Fn(Origin) -> bool) {
    // The kernel keeps one signal that was sent to the thread and one that was sent to the process, beside timers' own.
    const KEPT: usize = 8;
    let mut kept = [const { None::<SignalInfo> }; KEPT];
    for place in &mut kept {
        let Some(info) = take_pending(signal) else { break };
        // SAFETY: the kernel has filled it.
        if !is_ours(unsafe { Origin::of(&info) }) {
            *place = Some(info);
        }
    }
    for info in kept.iter().flatten() {
        let arguments =
            [process::id() as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0, 0];
        // SAFETY: the information is a local; a process's first thread may tell it whatever it likes.
        if unsafe { system_call(libc::SYS_rt_sigqueueinfo, arguments) } != 0 {
            // Any other may not tell of another sender (EPERM): better that than no signal.
            // SAFETY: no pointer is passed; the signal is blocked here, and was pending for the process before.
            unsafe { system_call(libc::SYS_kill, [process::id() as usize, signal as usize, 0, 0, 0, 0]) };
        }
    }
}

/// True for signals that the kernel queues.
pub(crate) fn is_real_time(signal: i32) -> bool {
    const FIRST: i32 = 32;
    signal >= FIRST
}

/// Takes back a signal that is pending for the calling thread, which has it blocked.
pub(crate) fn discard_pending(signal: i32) {
    let _ = take_pending(signal);
}

/// Takes a signal back as often as it is pending, whosever it is. Not inlined, so that who has little stack has it for one
/// thing after another.
#[inline(never)]
pub(crate) fn discard_all_pending(signal: i32) {
    while take_pending(signal).is_some() {}
}

/// By system call: the shared library interposes the function, to hide just what is looked for here.
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
