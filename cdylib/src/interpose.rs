//! Functions of libc that the host shares with us.
//!
//! * what sets a signal's disposition is in [`crate::app_signals`], what sets timers in [`crate::app_timers`], what
//!   waits for signals in [`crate::signal_waits`], `prctl` in [`crate::sandboxes`], `pthread_create` in [`crate::new_threads`];
//! * `sigaltstack`: where a program registers a stack that is too small for our handler, it runs without one.
//! * `dlclose`: objects are unloaded only while no handler reads their call frame information.
//!
//! # Safety
//! Calls the next definition of each function, with the host's own arguments.
#![allow(unsafe_code)]

use core::{
    ffi::{CStr, c_int, c_void},
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use sigprof::interface::{self, SigactionFunction};

type SigaltstackFunction = unsafe extern "C" fn(*const libc::stack_t, *mut libc::stack_t) -> c_int;
type DlcloseFunction = unsafe extern "C" fn(*mut c_void) -> c_int;

/// The next definition of a function, looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

static SIGACTION: Next = Next::new(c"sigaction");
static SIGALTSTACK: Next = Next::new(c"sigaltstack");
static DLCLOSE: Next = Next::new(c"dlclose");

/// Whether [`resolve`] has run: a library initialised before ours may call one of them.
static RESOLVED: AtomicBool = AtomicBool::new(false);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The address; null where there is none, in a static program.
    pub(crate) fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let found = interface::next_symbol(self.name);
        self.address.store(found, Ordering::Release);
        found
    }

    /// The address, if it was looked up before; otherwise null. Signal-safe.
    pub(crate) fn known(&self) -> *mut c_void {
        self.address.load(Ordering::Acquire)
    }
}

/// Looks all of them up, so that a host that calls one in a signal handler finds it known.
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
        // A static program has no next definition; glibc has the same function under a second name.
        __sigaction
    } else {
        // SAFETY: libc's `sigaction` has this type.
        unsafe { mem::transmute::<*mut c_void, SigactionFunction>(address) }
    };
    // SAFETY: it is the C library's own.
    unsafe { interface::set_real_sigaction(function) };
    RESOLVED.store(true, Ordering::Release);
}

/// The address of one of them, where it is legal in signal handlers: a look-up there is none, so it is made but once, even
/// where it finds nothing (in a static program).
fn resolved(next: &Next) -> *mut c_void {
    if !RESOLVED.load(Ordering::Acquire) {
        resolve();
    }
    next.known()
}

unsafe extern "C" {
    /// glibc's own name for `sigaction(2)`.
    fn __sigaction(number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

/// Looks the next `sigaction` up if that has not been done.
pub(crate) fn ensure_resolved() {
    if !RESOLVED.load(Ordering::Acquire) {
        resolve();
    }
}

/// True when the `dlclose` that the program calls is ours: not in a library that was itself opened by `dlopen`.
pub(crate) fn interposes_dlclose() -> bool {
    // Not by the address of ours: in a library that was opened later our own name leads to libc's function.
    interface::is_own_code(interface::first_symbol(c"dlclose"))
}

/// True when the running program has opened the library, and calls none of these functions of ours.
pub(crate) fn is_opened_late() -> bool {
    let first = interface::first_symbol(c"dlclose");
    // A static program has no symbols to look up.
    !first.is_null() && !interface::is_own_code(first)
}

/// # Safety
/// * As for `sigaltstack(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's word. Before the stack is in place, so that no tick meets it.
    unsafe { interface::app_alternate_stack(new) };
    let address = resolved(&SIGALTSTACK);
    if address.is_null() {
        // SAFETY: the system call takes what the function takes.
        return unsafe { libc::syscall(libc::SYS_sigaltstack, new, old) } as c_int;
    }
    // SAFETY: libc's `sigaltstack` has this type.
    let function = unsafe { mem::transmute::<*mut c_void, SigaltstackFunction>(address) };
    // SAFETY: the caller's word.
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
    // SAFETY: the caller's word.
    interface::while_unloading(|| unsafe { function(handle) }).unwrap_or(0)
}
