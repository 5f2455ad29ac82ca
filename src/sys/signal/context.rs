//! What a handler is told of the moment that it interrupted.
//!
//! # Safety
//! Reads the context that the kernel made.
#![allow(unsafe_code)]

use super::Context;
use crate::sys::arch::{self, Registers};

/// The registers that a signal interrupted.
///
/// # Safety
/// * `context` is what the kernel gave to our handler, or a valid `ucontext_t`.
pub(crate) unsafe fn interrupted_registers(context: *const Context) -> Registers {
    // SAFETY: the caller's word.
    Registers::interrupted(unsafe { &*context.cast::<libc::ucontext_t>() })
}

/// The last byte that the kernel wrote to make `context`: it proves a page of the stack that the handler runs on.
///
/// # Safety
/// * `context` is what the kernel gave to our handler, which has not returned.
pub(crate) unsafe fn last_written(context: *const Context) -> usize {
    // SAFETY: the caller's word: the structure is valid.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    // SAFETY: the caller's word: the kernel made it.
    unsafe { arch::last_written(context) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, AtomicUsize, Ordering};
    use crate::sys::signal::{AllBlocked, HandlerStack, SignalInfo, install, set::mask_set};
    use core::ptr;

    /// What the walk takes for proof: on the interrupted stack the kernel's frame ends right below the stack pointer.
    #[test]
    fn the_kernel_writes_up_to_the_interrupted_stack_pointer() {
        static BELOW: AtomicUsize = AtomicUsize::new(usize::MAX);
        static SAME: AtomicBool = AtomicBool::new(false);
        extern "C" fn note(_: libc::c_int, _: *mut SignalInfo, context: *mut Context) {
            // SAFETY: the kernel's context.
            let registers = unsafe { interrupted_registers(context) };
            // SAFETY: as above, and we have not returned.
            let last = unsafe { last_written(context) };
            BELOW.store(registers.sp().wrapping_sub(last), Ordering::Relaxed);
            // At the trampoline the stack pointer is at the context, or at what the kernel puts below it.
            let below = if cfg!(target_arch = "aarch64") { size_of::<SignalInfo>() } else { 0 };
            // SAFETY: all words asked for are the context's.
            let read = |place: usize| Some(unsafe { (place as *const usize).read() });
            let again = Registers::of_signal_frame(context as usize - below, read);
            SAME.store(again.is_some_and(|again| again == registers), Ordering::Relaxed);
        }
        let _one_at_a_time = AllBlocked::new();
        install(libc::SIGURG, note, HandlerStack::Interrupted).unwrap();
        let unblocked = mask_set(1 << (libc::SIGURG - 1));
        // SAFETY: the set is a local; a null old set is allowed. `AllBlocked` puts the mask back.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &unblocked, ptr::null_mut()) };
        // SAFETY: no precondition.
        unsafe { libc::raise(libc::SIGURG) };
        // What other machines do not tell is not used there.
        let below = BELOW.load(Ordering::Relaxed);
        let is_told = cfg!(target_arch = "x86_64");
        assert!(!is_told || (1..=256).contains(&below), "{below} bytes below the stack pointer");
        let has_bare_trampolines = !cfg!(target_arch = "x86");
        let same = SAME.load(Ordering::Relaxed);
        assert_eq!(same, has_bare_trampolines, "the trampoline's stack pointer leads to the same registers");
    }
}
