//! `pthread_create`: threads that have their timer from the first moment on, in sessions of clock `wall`, and in part in those of
//! perf events (clocks `auto` and `perf`).
//!
//! In all other sessions, and without one, the host's call goes through as it is. A new thread begins in [`begin`], which gives it
//! its timer and goes on to the host's function by a jump, so that no frame of ours stands below the host's. The two words that
//! lead there are in a place of our own: the host's allocator may be who creates the thread.
//!
//! Threads that come by other ways (C11's `thrd_create`, a raw `clone`) are found by the handler, some moments later.
//!
//! # Safety
//! Calls the next definition, with the host's own arguments or with a function and a place of ours, and the host's function in the
//! new thread, as libc would.
#![allow(unsafe_code)]

use crate::interpose::{self, Next};
use core::{
    arch::global_asm,
    ffi::{c_int, c_void},
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};
use sigprof::interface;

/// A thread's function. It may end by `pthread_exit`, which unwinds.
type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int;

static CREATE: Next = Next::new(c"pthread_create");

// A static program has no next definition, but glibc's own name for its function, beside a weak one that ours takes the place
// of; elsewhere the name is null. What brings the function into such a program is C11's, which calls it by that name. Nobody
// refers to that word, so a linker that makes a shared library throws it away.
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

/// What a new thread is to do.
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

    /// A free one, for the caller alone.
    fn take() -> Option<&'static Self> {
        START_SLOTS.iter().find(|place| !place.is_taken.swap(true, Ordering::Acquire))
    }

    /// Release: whoever takes it next comes behind what was read from it.
    fn release(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

/// Threads that are created at a time and have not begun; those beyond are found by the handler.
static START_SLOTS: [StartSlot; 128] = [const { StartSlot::free() }; 128];

/// Looks it up.
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
    // SAFETY: a word that nobody writes to once it is relocated.
    let address = if next.is_null() { unsafe { OWN_CREATE } } else { next };
    if address.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: libc's `pthread_create` has this type.
    let create = unsafe { mem::transmute::<*mut c_void, Create>(address) };
    let place = if interface::claim_new_thread() { StartSlot::take() } else { None };
    let Some(place) = place else {
        // SAFETY: the caller's word.
        return unsafe { create(thread, attributes, start, argument) };
    };
    place.start.store(start as *mut (), Ordering::Relaxed);
    place.argument.store(argument, Ordering::Relaxed);
    // SAFETY: the caller's word; the place is static, and belongs to the new thread until it gives it back.
    let created = unsafe { create(thread, attributes, begin, ptr::from_ref(place).cast_mut().cast()) };
    if created != 0 {
        place.release();
    }
    created
}

/// Where a new thread begins.
extern "C-unwind" fn begin(place: *mut c_void) -> *mut c_void {
    let (start, argument) = registered(place);
    // The last thing that is done, so that it is a jump.
    start(argument)
}

/// Gives the calling thread its timer, and the place back. Not inlined: what lies on the stack of a function that goes on by a jump
/// must not be lent to others.
#[inline(never)]
fn registered(place: *mut c_void) -> (Start, *mut c_void) {
    // SAFETY: `pthread_create` gives one of the static places to the new thread.
    let place = unsafe { &*place.cast::<StartSlot>() };
    let start = place.start.load(Ordering::Relaxed);
    let argument = place.argument.load(Ordering::Relaxed);
    place.release();
    interface::register_thread();
    // SAFETY: it is the function that the host gave to `pthread_create`.
    (unsafe { mem::transmute::<*mut (), Start>(start) }, argument)
}
