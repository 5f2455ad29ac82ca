//! What differs from one processor to the next: the interrupted registers, system calls without libc, stacks.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    CALLEE_SAVED, FRAME_POINTER, RETURN_ADDRESS, Registers, STACK_POINTER, call_on_stack, code,
    is_user_address, last_written, system_call,
};
