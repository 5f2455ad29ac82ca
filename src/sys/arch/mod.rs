//! Machine-dependent code: registers, system calls without libc, stacks. Each machine's file
//! defines the same items; a new machine also needs a layout of rules (`src/sample/unwind/rule/`)
//! and its name in `build.rs` and `ci/cross.sh`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
#[path = "x86_code.rs"]
pub(crate) mod code;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64_code.rs"]
pub(crate) mod code;
mod registers;
#[cfg(target_arch = "x86")]
mod x86;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86")]
use x86 as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

#[cfg(sigprof_stamps)]
pub(crate) use machine::time_stamp;
pub(crate) use machine::{
    CALLEE_SAVED, FRAME_POINTER, HAS_LINK_REGISTER, LARGEST_PAGE, MAP_MEMORY, MAX_RULES, PROGRAM_COUNTER,
    RETURN_ADDRESS, STACK_POINTER, VENDOR, call_on_stack, code_address, is_user_address, last_written,
    system_call,
};
pub(crate) use registers::Registers;

/// The unit in which memory is proven readable: the smallest page of any supported machine.
pub(crate) const PAGE: usize = 4096;

/// The location of the return address in a function before its prologue or after its epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "code there says nothing of it"))]
pub(crate) enum ReturnAddressLocation {
    /// At the stack pointer; the frame pointer is the caller's.
    Top,
    /// Above the caller's frame pointer, which is at the stack pointer.
    BelowFramePointer,
}

#[cfg(test)]
#[allow(unsafe_code, reason = "the call under test")]
mod tests {
    use super::*;

    #[test]
    fn runs_a_call_on_another_stack() {
        extern "C" fn note_stack(argument: *mut u8) {
            let local = 0u8;
            // SAFETY: the test passes a pointer to a usize.
            unsafe { *argument.cast::<usize>() = &raw const local as usize };
        }
        let mut stack = vec![0u128; 4096];
        let range = stack.as_mut_ptr_range();
        let mut seen = 0usize;
        // SAFETY: the vector is 16-byte aligned, 64 KiB long and unused; the argument is a usize.
        unsafe { call_on_stack(note_stack, (&raw mut seen).cast(), range.end.cast()) };
        assert!((range.start as usize..range.end as usize).contains(&seen));
    }
}
