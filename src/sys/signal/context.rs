//! The context that a signal interrupted.
//!
//! # Safety
//! Reads the context that the kernel made.
#![allow(unsafe_code)]

use super::Context;
use crate::sys::arch::{self, Registers};

/// # Safety
/// * `context` must be a valid `ucontext_t`, such as the one that the kernel passed to a handler.
pub(crate) unsafe fn interrupted_registers(context: *const Context) -> Registers {
    // SAFETY: `context` is valid, by this function's contract.
    Registers::interrupted(unsafe { &*context.cast::<libc::ucontext_t>() })
}

/// Returns the last address that the kernel wrote for `context`: that page of the stack is mapped.
///
/// # Safety
/// * The kernel must have passed `context` to a handler that has not returned.
pub(crate) unsafe fn last_written(context: *const Context) -> usize {
    // SAFETY: `context` is valid, by this function's contract.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    // SAFETY: the kernel made `context` for a running handler, by this function's contract.
    unsafe { arch::last_written(context) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, AtomicUsize, Ordering};
    use crate::sys::signal::{AllBlocked, HandlerStack, SignalInfo, install, set::mask_set};
    use core::ptr;

    /// The walk relies on it: the kernel's frame ends just below the interrupted stack pointer.
    #[test]
    fn finds_the_end_of_the_kernels_frame_below_the_stack_pointer() {
        static BELOW: AtomicUsize = AtomicUsize::new(usize::MAX);
        static SAME: AtomicBool = AtomicBool::new(false);
        extern "C" fn note(_: libc::c_int, _: *mut SignalInfo, context: *mut Context) {
            // SAFETY: the kernel passed this context.
            let registers = unsafe { interrupted_registers(context) };
            // SAFETY: the kernel passed this context, and the handler has not returned.
            let last = unsafe { last_written(context) };
            BELOW.store(registers.sp().wrapping_sub(last), Ordering::Relaxed);
            // `sp` at the trampoline is the context, or the `siginfo_t` below it.
            let below = if cfg!(target_arch = "aarch64") { size_of::<SignalInfo>() } else { 0 };
            // SAFETY: `of_signal_frame` reads only words of the context.
            let read = |place: usize| Some(unsafe { (place as *const usize).read() });
            let again = Registers::of_signal_frame(context as usize - below, read);
            SAME.store(again.is_some_and(|again| again == registers), Ordering::Relaxed);
        }
        let _one_at_a_time = AllBlocked::new();
        install(libc::SIGURG, note, HandlerStack::Interrupted).unwrap();
        let unblocked = mask_set(1 << (libc::SIGURG - 1));
        // SAFETY: the set is a local; a null old set is allowed. `AllBlocked` restores the mask.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &unblocked, ptr::null_mut()) };
        // SAFETY: no precondition.
        unsafe { libc::raise(libc::SIGURG) };
        // Other machines return 0, and nothing there uses it.
        let below = BELOW.load(Ordering::Relaxed);
        let is_known = cfg!(target_arch = "x86_64");
        assert!(!is_known || (1..=256).contains(&below), "{below} bytes below the stack pointer");
        let has_bare_trampolines = !cfg!(target_arch = "x86");
        let same = SAME.load(Ordering::Relaxed);
        assert_eq!(same, has_bare_trampolines, "the trampoline's stack pointer leads to the same registers");
    }
}
