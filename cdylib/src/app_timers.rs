//! `setitimer` and `getitimer`: a host that uses ITIMER_PROF itself has it for itself, and ticks come from another timer.
//!
//! Timers that do not send our signal are passed on, and so is ours before our handler is there. Hosts that make the system
//! call themselves are not seen.
//!
//! # Safety
//! Calls the next definition of each function, with the host's own arguments.
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

/// Looks both up, so that a host that calls one in a signal handler finds it known.
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
    // SAFETY: the caller's word.
    if let Some(result) = unsafe { interface::app_setitimer(which, new, old) } {
        return result;
    }
    let address = SETITIMER.known();
    if address.is_null() {
        // SAFETY: the system call takes what the function takes.
        return unsafe { libc::syscall(libc::SYS_setitimer, which, new, old) } as c_int;
    }
    // SAFETY: libc's `setitimer` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, SetFunction>(address) };
    // SAFETY: the caller's word.
    unsafe { function(which, new, old) }
}

/// # Safety
/// * As for `getitimer(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getitimer(which: c_int, present: *mut libc::itimerval) -> c_int {
    // SAFETY: the caller's word.
    if let Some(result) = unsafe { interface::app_getitimer(which, present) } {
        return result;
    }
    let address = GETITIMER.known();
    if address.is_null() {
        // SAFETY: the system call takes what the function takes.
        return unsafe { libc::syscall(libc::SYS_getitimer, which, present) } as c_int;
    }
    // SAFETY: libc's `getitimer` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, GetFunction>(address) };
    // SAFETY: the caller's word.
    unsafe { function(which, present) }
}
