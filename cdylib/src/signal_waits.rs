//! Receivers of signals without a handler: `sigwait`, `sigwaitinfo`, `sigtimedwait` and `signalfd`.
//!
//! They receive signals that all threads block, including ticks. The waits hide ticks from the
//! application and continue. `signalfd` cannot, so it stops the ticks. The waits are cancellation
//! points: a forced unwind may pass through them, so they hold nothing that must be dropped.
//!
//! # Safety
//! Calls the next definition of each function, with the application's own arguments.
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
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_ASYNCHRONOUS` of glibc's `<pthread.h>`.
const CANCEL_ASYNCHRONOUS: c_int = 1;
/// Bytes of the kernel's signal set.
const SET_BYTES: usize = 8;
const NANOS: i64 = 1_000_000_000;

/// Resolves both now: symbol lookup is not signal-safe.
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
        // SAFETY: `set` is valid, guaranteed by the caller.
        let taken = unsafe { sigtimedwait(set, ptr::null_mut(), ptr::null()) };
        if taken >= 0 {
            // SAFETY: `number` is writable, guaranteed by the caller.
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
    // SAFETY: the pointers are as for `sigwaitinfo(2)`, guaranteed by the caller.
    unsafe { sigtimedwait(set, info, ptr::null()) }
}

/// # Safety
/// * As for `sigtimedwait(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigtimedwait(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    timeout: *const libc::timespec,
) -> c_int {
    // SAFETY: `set` is valid, guaranteed by the caller.
    if !unsafe { interface::may_contain_tick_signal(set) } {
        // SAFETY: the pointers are as for `sigtimedwait(2)`, guaranteed by the caller.
        return unsafe { wait(set, info, timeout) };
    }
    // SAFETY: the timeout is null or valid, guaranteed by the caller.
    let timeout = unsafe { timeout.as_ref() };
    let end = timeout.map(|timeout| now().saturating_add(nanos(timeout)));
    // Unchanged at first, so that the kernel validates it.
    let mut left = timeout.copied();
    loop {
        // SAFETY: zeros are valid: integers.
        let mut taken: libc::siginfo_t = unsafe { mem::zeroed() };
        // SAFETY: `set` is valid, guaranteed by the caller; the rest are locals.
        let number = unsafe { wait(set, &mut taken, left.as_ref().map_or(ptr::null(), ptr::from_ref)) };
        if number <= 0 || !interface::is_tick(&mut taken) {
            if number > 0 && !info.is_null() {
                // SAFETY: `info` is writable, guaranteed by the caller.
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
    // SAFETY: `set` is valid, guaranteed by the caller. First: the descriptor must return no tick.
    unsafe { interface::app_reads_signals(set) };
    let address = SIGNALFD.known();
    if address.is_null() {
        // SAFETY: the system call has the function's arguments, and the set's size.
        return unsafe { libc::syscall(libc::SYS_signalfd4, descriptor, set, SET_BYTES, flags) } as c_int;
    }
    // SAFETY: libc's `signalfd` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, SignalfdFunction>(address) };
    // SAFETY: the arguments are as for `signalfd(2)`, guaranteed by the caller.
    unsafe { function(descriptor, set, flags) }
}

/// The next `sigtimedwait`.
///
/// # Safety
/// * As for `sigtimedwait(2)`.
unsafe fn wait(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    timeout: *const libc::timespec,
) -> c_int {
    let address = SIGTIMEDWAIT.known();
    if address.is_null() {
        // SAFETY: the pointers are as for `sigtimedwait(2)`, guaranteed by the caller.
        return unsafe { wait_by_system_call(set, info, timeout) };
    }
    // SAFETY: libc's `sigtimedwait` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, WaitFunction>(address) };
    // SAFETY: the pointers are as for `sigtimedwait(2)`, guaranteed by the caller.
    unsafe { function(set, info, timeout) }
}

/// [`wait`] in a static program, as a cancellation point.
///
/// # Safety
/// * As for `sigtimedwait(2)`.
unsafe fn wait_by_system_call(
    set: *const libc::sigset_t,
    info: *mut libc::siginfo_t,
    timeout: *const libc::timespec,
) -> c_int {
    let mut kind = 0;
    // SAFETY: the type is valid, `kind` is a local, and cancellation finds nothing half done.
    unsafe { pthread_setcanceltype(CANCEL_ASYNCHRONOUS, &mut kind) };
    // SAFETY: the system call has the function's arguments, and the set's size.
    let result = unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, info, timeout, SET_BYTES) };
    let mut unused = 0;
    // SAFETY: `kind` is the type before, `unused` a local.
    unsafe { pthread_setcanceltype(kind, &mut unused) };
    result as c_int
}

fn errno() -> c_int {
    // SAFETY: the function has no precondition.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: `errno` is a variable of this thread.
    unsafe { *place }
}

fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    nanos(&time)
}

#[allow(clippy::useless_conversion, reason = "32 bits wide on 32-bit machines")]
fn nanos(time: &libc::timespec) -> i64 {
    i64::from(time.tv_sec).saturating_mul(NANOS).saturating_add(i64::from(time.tv_nsec))
}
