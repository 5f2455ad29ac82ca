//! `prctl`: a host that is about to forbid itself system calls.
//!
//! A filter of seccomp(2) may end the program for a call that it does not know, in a signal handler as well. Ticks of clock
//! `cpu` set timers, and those of any clock ask which thread they have met and what it is called, which few programs do; what
//! else ticks of clock `itimer` do is to read a clock. So from here on it is that, and nobody's name is asked for.
//! Without rights of its own a program must have asked for `PR_SET_NO_NEW_PRIVS` before the kernel takes a filter, whichever
//! call brings it; one that has them, or inherited that, and brings it by `seccomp(2)`, is not seen.
//!
//! # Safety
//! Calls the next definition, with the host's own arguments.
#![allow(unsafe_code)]

use crate::interpose::Next;
use core::{
    ffi::{c_int, c_ulong, c_void},
    mem,
};
use sigprof::interface;

/// The function takes what follows the first argument as an option wants it; it reads four in any case, as libc's does.
type Function = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

static PRCTL: Next = Next::new(c"prctl");

/// Looks it up, so that a host that calls it in a signal handler finds it known.
pub(crate) fn resolve() {
    PRCTL.get();
}

/// # Safety
/// * As for `prctl(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        interface::app_enters_sandbox();
    }
    let address = PRCTL.known();
    if address.is_null() {
        // SAFETY: the system call takes what the function takes.
        return unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) } as c_int;
    }
    // SAFETY: libc's `prctl` takes its arguments as one with this type does: `long`s, by the machine's convention for
    // functions with a variable number of them, which on the machines we are built for is that of all functions.
    let function = unsafe { mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: the caller's word.
    unsafe { function(option, second, third, fourth, fifth) }
}
