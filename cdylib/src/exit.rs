//! Ends of the process that run no function of ours by themselves: `_exit` and its other name `_Exit`, and `quick_exit`.
//!
//! The profile is completed before them. In a process that is not the session's (a child of `vfork`, `_Fork` or a raw
//! `clone`, which shares or copies our memory) `_exit` passes straight through. It is legal in signal handlers:
//! everything it does is system calls on a stack of its own, or listed in `docs/signal-safety.md`.
//!
//! libc calls `_exit` itself at the end of `exit` and `quick_exit`, and in the children of `posix_spawn`, without coming
//! here. `exit` runs [`crate::preload`]'s function, `quick_exit` the one that is registered here.
//!
//! # Safety
//! Calls the next definition of each function, with the host's own status.
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
    /// What `at_quick_exit(3)` is made of, which itself is no symbol of the shared libc.
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
    /// What `atexit(3)` is made of.
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
}

/// Looks the functions up: no look-up is legal when they are called.
pub(crate) fn resolve() {
    for next in [&EXIT, &EXIT_OF_ISO_C] {
        next.get();
    }
}

/// Lets `quick_exit` complete the profile: registered before the program's own functions are, so called behind them.
pub(crate) fn watch_quick_exit() {
    extern "C" fn at_quick_exit(_: *mut c_void) {
        complete();
    }
    // SAFETY: the function stays mapped, as the library is never unloaded. Without memory for it `quick_exit` loses the
    // profile, and nothing else.
    unsafe { __cxa_at_quick_exit(at_quick_exit, ptr::null_mut()) };
}

/// Lets an `exit` in the constructor of another library complete the profile. libc asks the loader for the libraries' ends
/// only from the program's beginning on, and then before it calls what was registered earlier: there is nothing left to do.
/// For a library that was loaded with the program, before that beginning.
pub(crate) fn watch_early_exit() {
    extern "C" fn at_early_exit(_: *mut c_void) {
        crate::abi::stop();
    }
    // SAFETY: as above.
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
        // SAFETY: libc's functions of both names have this type. That they do not come back is not relied on.
        let function = unsafe { mem::transmute::<*mut c_void, extern "C" fn(c_int)>(address) };
        function(status);
    }
    // In a static program, or before the library is initialised.
    loop {
        // SAFETY: no precondition.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
