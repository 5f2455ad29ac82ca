//! Interposed functions of libc.
//!
//! * Dispositions: [`crate::app_signals`]; timers: [`crate::app_timers`]; waits:
//!   [`crate::signal_waits`]; `prctl`: [`crate::sandboxes`]; `pthread_create`:
//!   [`crate::new_threads`].
//! * `sigaltstack`: the handler avoids alternate stacks that are too small.
//! * `dlclose`: objects are unloaded only while no handler reads their call frame information.
//!
//! # Safety
//! Calls the next definition of each function, with the application's own arguments.
#![allow(unsafe_code)]

use core::{
    ffi::{CStr, c_int, c_void},
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use sigprof::interface::{self, SigactionFunction};

type SigaltstackFunction = unsafe extern "C" fn(*const libc::stack_t, *mut libc::stack_t) -> c_int;
type DlcloseFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

static SIGACTION: Next = Next::new(c"sigaction");
static SIGALTSTACK: Next = Next::new(c"sigaltstack");
static DLCLOSE: Next = Next::new(c"dlclose");

/// [`resolve`] has run. Libraries that are initialised before this one may call earlier.
static RESOLVED: AtomicBool = AtomicBool::new(false);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Looks the address up if it is not known; null in a static program.
    pub(crate) fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let found = interface::next_symbol(self.name);
        self.address.store(found, Ordering::Release);
        found
    }

    /// The address from an earlier [`get`](Self::get), or null. Signal-safe: an atomic load.
    pub(crate) fn known(&self) -> *mut c_void {
        self.address.load(Ordering::Acquire)
    }
}

/// Resolves all functions now: symbol lookup is not signal-safe.
pub(crate) fn resolve() {
    for next in [&SIGACTION, &SIGALTSTACK, &DLCLOSE] {
        next.get();
    }
    crate::app_timers::resolve();
    crate::signal_waits::resolve();
    crate::sandboxes::resolve();
    crate::new_threads::resolve();
    crate::exec::resolve();
    crate::exit::resolve();
    let address = SIGACTION.get();
    let function = if address.is_null() {
        // A static program has no next definition, but glibc's second name of the function.
        __sigaction
    } else {
        // SAFETY: libc's `sigaction` has this type.
        unsafe { mem::transmute::<*mut c_void, SigactionFunction>(address) }
    };
    // SAFETY: `function` is the C library's own.
    unsafe { interface::set_real_sigaction(function) };
    RESOLVED.store(true, Ordering::Release);
}

/// Looks up at most once, even without success: the callers are legal in signal handlers.
fn resolved(next: &Next) -> *mut c_void {
    if !RESOLVED.load(Ordering::Acquire) {
        resolve();
    }
    next.known()
}

unsafe extern "C" {
    fn __sigaction(number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

pub(crate) fn ensure_resolved() {
    if !RESOLVED.load(Ordering::Acquire) {
        resolve();
    }
}

/// Whether the program calls this `dlclose`. It does not if the library was opened by `dlopen`.
pub(crate) fn interposes_dlclose() -> bool {
    // Not by address: in a library that was opened later, the name refers to libc's function.
    interface::is_own_code(interface::first_symbol(c"dlclose"))
}

/// Whether the running program opened the library, so that it does not call these functions.
pub(crate) fn is_opened_late() -> bool {
    let first = interface::first_symbol(c"dlclose");
    // A static program has no symbols.
    !first.is_null() && !interface::is_own_code(first)
}

/// # Safety
/// * As for `sigaltstack(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: `new` is null or valid, guaranteed by the caller. Before a tick can use the stack.
    unsafe { interface::app_alternate_stack(new) };
    let address = resolved(&SIGALTSTACK);
    if address.is_null() {
        // SAFETY: the system call has the function's arguments and preconditions.
        return unsafe { libc::syscall(libc::SYS_sigaltstack, new, old) } as c_int;
    }
    // SAFETY: libc's `sigaltstack` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, SigaltstackFunction>(address) };
    // SAFETY: the pointers are as for `sigaltstack(2)`, guaranteed by the caller.
    unsafe { function(new, old) }
}

/// # Safety
/// * As for `dlclose(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    let address = DLCLOSE.get();
    if address.is_null() {
        return -1;
    }
    // SAFETY: libc's `dlclose` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, DlcloseFunction>(address) };
    // 0 without a call if handlers do not leave in time: the library stays loaded.
    // SAFETY: `handle` is as for `dlclose(3)`, guaranteed by the caller.
    interface::while_unloading(|| unsafe { function(handle) }).unwrap_or(0)
}
