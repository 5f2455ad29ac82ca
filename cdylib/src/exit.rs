//! Exits that run no destructor, `_exit`, `_Exit` and `quick_exit`: they write the profile first.
//!
//! `_exit` is legal in signal handlers: it makes system calls on a separate stack, or calls listed
//! in `docs/signal-safety.md`. A process that is not the session's (a child of `vfork`, `_Fork` or
//! raw `clone`) only exits. libc's `exit`, `quick_exit` and `posix_spawn` call its own `_exit`.
//! `exit` runs [`crate::preload`]'s function, `quick_exit` the one registered here.
//!
//! # Safety
//! Calls the next definition of each function, with the application's own status.
#![allow(unsafe_code)]

use crate::{interpose::Next, message};
use core::{
    ffi::{c_int, c_void},
    mem, ptr,
};
use sigprof::interface;

static EXIT: Next = Next::new(c"_exit");
static EXIT_OF_ISO_C: Next = Next::new(c"_Exit");

unsafe extern "C" {
    /// `at_quick_exit(3)` calls it, and is not a symbol of the shared libc.
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
    /// `atexit(3)` calls it.
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
}

/// Resolves both now: symbol lookup is not legal when they are called.
pub(crate) fn resolve() {
    for next in [&EXIT, &EXIT_OF_ISO_C] {
        next.get();
    }
}

/// Registers a function for `quick_exit` before the application's, so that it runs after them.
pub(crate) fn watch_quick_exit() {
    extern "C" fn at_quick_exit(_: *mut c_void) {
        complete();
    }
    // SAFETY: the function stays mapped: the library is never unloaded. A failure loses this hook.
    unsafe { __cxa_at_quick_exit(at_quick_exit, ptr::null_mut()) };
}

/// Writes the profile at an `exit` in another library's constructor; at a later `exit`,
/// [`crate::preload`]'s function runs first. Only for a library that is loaded with the program.
pub(crate) fn watch_early_exit() {
    extern "C" fn at_early_exit(_: *mut c_void) {
        crate::abi::stop();
    }
    // SAFETY: the function stays mapped, as above.
    unsafe { __cxa_atexit(at_early_exit, ptr::null_mut(), ptr::null_mut()) };
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn _exit(status: c_int) -> ! {
    end(&EXIT, status)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn _Exit(status: c_int) -> ! {
    end(&EXIT_OF_ISO_C, status)
}

fn complete() {
    interface::finish_before_exit(|stopped| message::end_of_profile(&stopped));
}

fn end(next: &Next, status: c_int) -> ! {
    complete();
    let address = next.known();
    if !address.is_null() {
        // SAFETY: libc's functions of both names have this type. A return is handled below.
        let function = unsafe { mem::transmute::<*mut c_void, extern "C" fn(c_int)>(address) };
        function(status);
    }
    // A static program, or the library is not initialised yet.
    loop {
        // SAFETY: the system call has no precondition.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
