//! The `exec` functions. The process's timer survives them, the handler does not: ticks would kill.
//!
//! Before the call, the timer is disarmed, pending ticks are discarded and the profile is written;
//! if the call fails, profiling continues. libc's functions call each other directly, so each is
//! interposed; variadic ones are in [`crate::exec_lists`]. The new program inherits the
//! application's mask. A child of `vfork` has no timer; there
//! only ignored signals are set up for the new program.
//!
//! # Safety
//! Calls the next definition of each function, with the application's own arguments.
#![allow(unsafe_code)]

use crate::{exec_bare, interpose::Next};
use core::{
    ffi::{c_char, c_int, c_void},
    mem, ptr,
};
use sigprof::interface;

/// Arguments or environment: a null-terminated array of strings.
pub(crate) type Strings = *const *const c_char;

static EXECVE: Next = Next::new(c"execve");
static EXECV: Next = Next::new(c"execv");
static EXECVP: Next = Next::new(c"execvp");
static EXECVPE: Next = Next::new(c"execvpe");
static FEXECVE: Next = Next::new(c"fexecve");
static EXECVEAT: Next = Next::new(c"execveat");

/// Resolves all now: symbol lookup is not signal-safe. Without an address, [`exec_bare`] is used.
pub(crate) fn resolve() {
    for next in [&EXECVE, &EXECV, &EXECVP, &EXECVPE, &FEXECVE, &EXECVEAT] {
        next.get();
    }
}

/// Calls the next definition of a function, or `$bare`, as type `$type`, with the ticks stopped.
macro_rules! exec {
    ($next:ident or $bare:ident of $path:expr, as $type:ty, $($argument:expr),*) => {{
        let address: *mut c_void = $next.known();
        // SAFETY: `$path` is null or a C string, guaranteed by the caller.
        let pending = unsafe { interface::before_exec($path) };
        let function: $type = if address.is_null() {
            exec_bare::$bare
        } else {
            // SAFETY: libc's function of this name has this type.
            unsafe { mem::transmute::<*mut c_void, $type>(address) }
        };
        // SAFETY: the arguments are as for the function, guaranteed by the caller.
        let result = unsafe { function($($argument),*) };
        // The call returned, so it failed.
        interface::after_failed_exec(pending);
        result
    }};
}

/// # Safety
/// * As for `execve(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    exec!(
        EXECVE or execve of path, as unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int,
        path,
        arguments,
        environment
    )
}

/// # Safety
/// * As for `execv(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    exec!(EXECV or execv of path, as unsafe extern "C" fn(*const c_char, Strings) -> c_int, path, arguments)
}

/// # Safety
/// * As for `execvp(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    exec!(EXECVP or execvp of ptr::null(), as unsafe extern "C" fn(*const c_char, Strings) -> c_int, file, arguments)
}

/// # Safety
/// * As for `execvpe(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    exec!(
        EXECVPE or execvpe of ptr::null(), as unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int,
        file,
        arguments,
        environment
    )
}

/// # Safety
/// * As for `fexecve(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fexecve(
    descriptor: c_int,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    exec!(
        FEXECVE or fexecve of ptr::null(), as unsafe extern "C" fn(c_int, Strings, Strings) -> c_int,
        descriptor,
        arguments,
        environment
    )
}

/// # Safety
/// * As for `execveat(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    exec!(
        EXECVEAT or execveat of ptr::null(), as unsafe extern "C" fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int,
        directory,
        path,
        arguments,
        environment,
        flags
    )
}
