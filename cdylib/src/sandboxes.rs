//! `prctl`: the start of a sandbox.
//!
//! A filter of seccomp(2) may kill the program for an unexpected system call, even in a handler.
//! Ticks set timers and read the thread's ID and name. From now on only the process's timer is
//! used (clock `itimer`; with `wall` the first thread's), without IDs and names. An unprivileged
//! program must set `PR_SET_NO_NEW_PRIVS` first. One that is privileged or inherited the flag may
//! call `seccomp(2)` unnoticed.
//!
//! # Safety
//! Calls the next definition, with the application's own arguments.
#![allow(unsafe_code)]

use crate::interpose::Next;
use core::{
    ffi::{c_int, c_ulong, c_void},
    mem,
};
use sigprof::interface;

/// The function reads four variable arguments in any case, as libc's does.
type Function = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

static PRCTL: Next = Next::new(c"prctl");

/// Resolves it now: symbol lookup is not signal-safe.
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
        // SAFETY: the system call has the function's arguments and preconditions.
        return unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) } as c_int;
    }
    // SAFETY: libc's variadic `prctl` reads `long`s, which our machines pass as other arguments.
    let function = unsafe { mem::transmute::<*mut c_void, Function>(address) };
    // SAFETY: the arguments are as for `prctl(2)`, guaranteed by the caller.
    unsafe { function(option, second, third, fourth, fifth) }
}
