//! `setitimer` and `getitimer`: the application can use ITIMER_PROF, while ticks come from another
//! timer. Other timers, and calls before the profiler's handler is installed, are passed on.
//!
//! # Safety
//! Calls the next definition of each function, with the application's own arguments.
#![allow(unsafe_code)]

use crate::interpose::Next;
use core::{
    ffi::{c_int, c_void},
    mem,
};
use sigprof::interface;

type SetFunction = unsafe extern "C" fn(c_int, *const libc::itimerval, *mut libc::itimerval) -> c_int;
type GetFunction = unsafe extern "C" fn(c_int, *mut libc::itimerval) -> c_int;

static SETITIMER: Next = Next::new(c"setitimer");
static GETITIMER: Next = Next::new(c"getitimer");

/// Resolves both now: symbol lookup is not signal-safe.
pub(crate) fn resolve() {
    for next in [&SETITIMER, &GETITIMER] {
        next.get();
    }
}

/// # Safety
/// * As for `setitimer(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setitimer(
    which: c_int,
    new: *const libc::itimerval,
    old: *mut libc::itimerval,
) -> c_int {
    // SAFETY: the pointers are as for `setitimer(2)`, guaranteed by the caller.
    if let Some(result) = unsafe { interface::app_setitimer(which, new, old) } {
        return result;
    }
    let address = SETITIMER.known();
    if address.is_null() {
        // SAFETY: the system call has the function's arguments and preconditions.
        return unsafe { libc::syscall(libc::SYS_setitimer, which, new, old) } as c_int;
    }
    // SAFETY: libc's `setitimer` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, SetFunction>(address) };
    // SAFETY: the pointers are as for `setitimer(2)`, guaranteed by the caller.
    unsafe { function(which, new, old) }
}

/// # Safety
/// * As for `getitimer(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getitimer(which: c_int, present: *mut libc::itimerval) -> c_int {
    // SAFETY: `present` is as for `getitimer(2)`, guaranteed by the caller.
    if let Some(result) = unsafe { interface::app_getitimer(which, present) } {
        return result;
    }
    let address = GETITIMER.known();
    if address.is_null() {
        // SAFETY: the system call has the function's arguments and preconditions.
        return unsafe { libc::syscall(libc::SYS_getitimer, which, present) } as c_int;
    }
    // SAFETY: libc's `getitimer` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, GetFunction>(address) };
    // SAFETY: `present` is as for `getitimer(2)`, guaranteed by the caller.
    unsafe { function(which, present) }
}
