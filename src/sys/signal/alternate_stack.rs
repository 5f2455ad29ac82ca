//! Alternate signal stacks, and whether they are large enough for a tick.
//!
//! # Safety
//! A system call that writes into a local.
#![allow(unsafe_code)]

use super::AlternateStack;
use crate::sys::arch::system_call;
use core::ptr;

/// Bytes of stack that the profiler's handler may need below the kernel's frame.
const HANDLER_BYTES: usize = 2048;

/// Whether the kernel's frame and the profiler's handler fit on `stack`. Programs still register
/// the small stacks of processors without wide registers (`sigaltstack(2)`, `AT_MINSIGSTKSZ`).
pub(crate) fn is_large_enough(stack: &AlternateStack) -> bool {
    // SAFETY: no precondition.
    let kernel_frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    stack.ss_flags & libc::SS_DISABLE != 0
        || stack.ss_size >= kernel_frame.max(libc::MINSIGSTKSZ) + HANDLER_BYTES
}

/// Returns the calling thread's, by system call: `sigaltstack` is interposed. Signal-safe.
pub(crate) fn alternate_stack() -> AlternateStack {
    let mut present = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    let arguments = [0, &raw mut present as usize, 0, 0, 0, 0];
    // SAFETY: a null new stack changes nothing; the present one is written into a local.
    unsafe { system_call(libc::SYS_sigaltstack, arguments) };
    present
}
