//! What takes signals without a handler: `sigwait`, `sigwaitinfo`, `sigtimedwait` and `signalfd`.
//!
//! The kernel gives them a signal that all threads block, and a tick of ours is one. A host that waits for SIGPROF is not told
//! of ticks: who took one waits on. What is read by `signalfd` cannot be sorted so; there ticks end.
//!
//! The three that wait are cancellation points, so a thread may be unwound through them; they hold nothing that would have
//! to be dropped.
//!
//! # Safety
//! Calls the next definition of each function, with the host's own arguments; fills what the caller says may be filled.
#![allow(unsafe_code)]

use crate::interpose::Next;
use core::{
    ffi::{c_int, c_long, c_void},
    mem, ptr,
};
use sigprof::interface;

type WaitFunction =
    unsafe extern "C-unwind" fn(*const libc::sigset_t, *mut libc::siginfo_t, *const libc::timespec) -> c_int;
type SignalfdFunction = unsafe extern "C" fn(c_int, *const libc::sigset_t, c_int) -> c_int;

static SIGTIMEDWAIT: Next = Next::new(c"sigtimedwait");
static SIGNALFD: Next = Next::new(c"signalfd");

unsafe extern "C" {
    /// `pthread_setcanceltype(3)`.
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_ASYNCHRONOUS` of glibc's `<pthread.h>`.
const CANCEL_ASYNCHRONOUS: c_int = 1;
/// Bytes of the kernel's set of signals.
const SET_BYTES: usize = 8;
const NANOS: i64 = 1_000_000_000;

/// Looks both up, so that a host that calls one in a signal handler finds it known.
pub(crate) fn resolve() {
    for next in [&SIGTIMEDWAIT, &SIGNALFD] {
        next.get();
    }
}

/// # Safety
/// * As for `sigwait(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigwait(set: *const libc::sigset_t, number: *mut c_int) -> c_int {
    loop {
        // SAFETY: the caller's word.
        let taken = unsafe { sigtimedwait(set, ptr::null_mut(), ptr::null()) };
        if taken >= 0 {
            // SAFETY: the caller's word: writable.
            unsafe { number.write(taken) };
            return 0;
        }
        let reason = errno();
        if reason != libc::EINTR {
            return reason;
        }
    }
}

/// # Safety
/// * As for `sigwaitinfo(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigwaitinfo(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { sigtimedwait(set, info, ptr::null()) }
}

/// # Safety
/// * As for `sigtimedwait(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigtimedwait(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    patience: *const libc::timespec,
) -> c_int {
    // SAFETY: the caller's word.
    if !unsafe { interface::may_contain_tick_signal(set) } {
        // SAFETY: the caller's word.
        return unsafe { wait(set, info, patience) };
    }
    // SAFETY: the caller's word: null or valid.
    let patience = unsafe { patience.as_ref() };
    let end = patience.map(|patience| now().saturating_add(nanos(patience)));
    // The first time as the host has it, for the kernel to judge.
    let mut left = patience.copied();
    loop {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut taken: libc::siginfo_t = unsafe { mem::zeroed() };
        // SAFETY: the set is the caller's, the rest are locals.
        let number = unsafe { wait(set, &mut taken, left.as_ref().map_or(ptr::null(), ptr::from_ref)) };
        if number <= 0 || !interface::is_tick(&mut taken) {
            if number > 0 && !info.is_null() {
                // SAFETY: the caller's word: writable.
                unsafe { info.write(taken) };
            }
            return number;
        }
        if let (Some(left), Some(end)) = (&mut left, end) {
            let nanos = end.saturating_sub(now()).max(0);
            left.tv_sec = (nanos / NANOS) as libc::time_t;
            left.tv_nsec = (nanos % NANOS) as c_long;
        }
    }
}

/// # Safety
/// * As for `signalfd(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signalfd(
    descriptor: c_int,
    set: *const libc::sigset_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's word. Before the descriptor is there, so that no tick turns up in it.
    unsafe { interface::app_reads_signals(set) };
    let address = SIGNALFD.known();
    if address.is_null() {
        // SAFETY: the system call takes what the function takes, and the size of the set.
        return unsafe { libc::syscall(libc::SYS_signalfd4, descriptor, set, SET_BYTES, flags) } as c_int;
    }
    // SAFETY: libc's `signalfd` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, SignalfdFunction>(address) };
    // SAFETY: the caller's word.
    unsafe { function(descriptor, set, flags) }
}

/// The next `sigtimedwait`.
///
/// # Safety
/// * As for `sigtimedwait(2)`.
unsafe fn wait(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    patience: *const libc::timespec,
) -> c_int {
    let address = SIGTIMEDWAIT.known();
    if address.is_null() {
        // SAFETY: the caller's word.
        return unsafe { wait_by_system_call(set, info, patience) };
    }
    // SAFETY: libc's `sigtimedwait` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, WaitFunction>(address) };
    // SAFETY: the caller's word.
    unsafe { function(set, info, patience) }
}

/// The same in a static program, where the thread can be cancelled as in libc's function.
///
/// # Safety
/// * As for `sigtimedwait(2)`.
unsafe fn wait_by_system_call(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    patience: *const libc::timespec,
) -> c_int {
    let mut kind = 0;
    // SAFETY: the type is a known one, the old one is written into a local. Nothing is half done meanwhile.
    unsafe { pthread_setcanceltype(CANCEL_ASYNCHRONOUS, &mut kind) };
    // SAFETY: the system call takes what the function takes, and the size of the set.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, info, patience, SET_BYTES) };
    let mut unused = 0;
    // SAFETY: the type is the one that was found.
    unsafe { pthread_setcanceltype(kind, &mut unused) };
    result as c_int
}

fn errno() -> c_int {
    // SAFETY: no precondition.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's own.
    unsafe { *place }
}

fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    nanos(&time)
}

#[allow(clippy::useless_conversion, reason = "32 bits wide on 32-bit machines")]
fn nanos(time: &libc::timespec) -> i64 {
    i64::from(time.tv_sec).saturating_mul(NANOS).saturating_add(i64::from(time.tv_nsec))
}
