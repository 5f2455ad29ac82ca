//! `pthread_create`: new threads have their timers from the start, all of them with clock `wall`,
//! as many as a rate permits with clocks of CPU time.
//!
//! Other calls are passed on. A new thread starts in [`begin`], which adopts it and jumps to the
//! application's function, so that no frame of this library is below it. Its function and argument
//! are in a static slot, because the application's allocator may create the thread. The handler
//! finds threads that are created otherwise (C11's `thrd_create`, raw `clone`).
//!
//! # Safety
//! Calls the next definition with the application's arguments, or with a function and a slot of
//! this module; calls the application's function in the new thread, as libc would.
#![allow(unsafe_code)]

use crate::interpose::{self, Next};
use core::{
    arch::global_asm,
    ffi::{c_int, c_void},
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use sigprof::interface;

/// A thread's function. `pthread_exit` unwinds through it.
type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int;

static CREATE: Next = Next::new(c"pthread_create");

// A static program has no next definition. glibc's own name is used there, which is null elsewhere,
// because this library replaces the weak one. The reference to C11's function links glibc's into
// the program. A linker discards that word in a shared library, because it is not referenced.
global_asm!(
    ".pushsection .data.rel.ro.sigprof_thrd_create, \"aw\"",
    ".balign 8",
    ".dc.a thrd_create",
    ".popsection",
    ".weak __pthread_create_2_1",
    ".pushsection .data.rel.ro.sigprof_own_create, \"aw\"",
    ".balign 8",
    ".hidden sigprof_own_create",
    ".globl sigprof_own_create",
    "sigprof_own_create:",
    ".dc.a __pthread_create_2_1",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "sigprof_own_create"]
    static OWN_CREATE: *mut c_void;
}

/// A new thread's function and argument.
struct StartSlot {
    is_taken: AtomicBool,
    start: AtomicPtr<()>,
    argument: AtomicPtr<c_void>,
}

impl StartSlot {
    const fn free() -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            start: AtomicPtr::new(ptr::null_mut()),
            argument: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Acquire: pairs with `release`.
    fn take() -> Option<&'static Self> {
        START_SLOTS.iter().find(|place| !place.is_taken.swap(true, Ordering::Acquire))
    }

    /// Release: the last user's loads come before the next user's stores.
    fn release(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

/// Threads that are created and have not started. The handler finds further ones.
static START_SLOTS: [StartSlot; 128] = [const { StartSlot::free() }; 128];

pub(crate) fn resolve() {
    CREATE.get();
}

/// # Safety
/// * As for `pthread_create(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    interpose::ensure_resolved();
    let next = CREATE.known();
    // SAFETY: the word is not written after relocation.
    let address = if next.is_null() { unsafe { OWN_CREATE } } else { next };
    if address.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: libc's `pthread_create` has this type.
    let create = unsafe { mem::transmute::<*mut c_void, Create>(address) };
    let place = if interface::claim_new_thread() { StartSlot::take() } else { None };
    let Some(place) = place else {
        // SAFETY: the arguments are as for `pthread_create(3)`, guaranteed by the caller.
        return unsafe { create(thread, attributes, start, argument) };
    };
    place.start.store(start as *mut (), Ordering::Relaxed);
    place.argument.store(argument, Ordering::Relaxed);
    // SAFETY: as above; the slot is static, and the new thread's until it releases it.
    let created = unsafe { create(thread, attributes, begin, ptr::from_ref(place).cast_mut().cast()) };
    if created != 0 {
        place.release();
    }
    created
}

extern "C-unwind" fn begin(place: *mut c_void) -> *mut c_void {
    let (start, argument) = registered(place);
    // Last, so that it is compiled to a jump.
    start(argument)
}

/// Adopts the calling thread and releases the slot. Not inlined, so that `begin` can end in a jump.
#[inline(never)]
fn registered(place: *mut c_void) -> (Start, *mut c_void) {
    // SAFETY: `pthread_create` above passes a static slot.
    let place = unsafe { &*place.cast::<StartSlot>() };
    let start = place.start.load(Ordering::Relaxed);
    let argument = place.argument.load(Ordering::Relaxed);
    place.release();
    interface::register_thread();
    // SAFETY: `start` is the function that the application passed to `pthread_create`.
    (unsafe { mem::transmute::<*mut (), Start>(start) }, argument)
}
