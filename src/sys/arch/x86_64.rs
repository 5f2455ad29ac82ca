//! x86-64, System V ABI ("System V Application Binary Interface, AMD64 Architecture Processor Supplement").
//!
//! # Safety
//! Inline assembly: one system call, one capture of registers, one switch of stacks. Each names what it changes.
#![allow(unsafe_code)]

use super::Registers;
use core::{arch::asm, mem};

/// DWARF number of the stack pointer, `rsp` (psABI, figure "DWARF Register Number Mapping").
pub(crate) const STACK_POINTER: u16 = 7;
/// DWARF number of the frame pointer, `rbp`.
pub(crate) const FRAME_POINTER: u16 = 6;
/// DWARF number of the return address column.
pub(crate) const RETURN_ADDRESS: u16 = 16;
/// DWARF numbers of the registers that a callee preserves, besides the stack pointer: rbx, rbp, r12 to r15.
pub(crate) const CALLEE_SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];

/// The program counter stands in the return address's column.
pub(crate) const PROGRAM_COUNTER: u16 = RETURN_ADDRESS;
/// A call leaves the return address on the stack.
pub(crate) const HAS_LINK_REGISTER: bool = false;
/// The most registers that a row is seen to name: 17 in glibc's signal trampoline.
pub(crate) const MAX_RULES: usize = 24;
/// TimerOwner extensions of call frame information are in use.
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::Default;
/// The largest page of any kernel for this machine.
pub(crate) const LARGEST_PAGE: usize = 4096;
/// The system call that maps memory. Without a file the offset's unit makes no difference.
pub(crate) const MAP_MEMORY: libc::c_long = libc::SYS_mmap;

pub(super) const COUNT: usize = 17;
pub(super) type KnownBits = u32;

/// Register n of DWARF stands at this place in `gregs`.
const MCONTEXT_INDICES: [libc::c_int; COUNT] = [
    libc::REG_RAX,
    libc::REG_RDX,
    libc::REG_RCX,
    libc::REG_RBX,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_RBP,
    libc::REG_RSP,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
    libc::REG_RIP,
];

impl Registers {
    /// Of the code that a signal interrupted. Signal-safe: reads the kernel's frame and nothing else.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        let gregs = &context.uc_mcontext.gregs;
        let mut values = [0; COUNT];
        for (value, place) in values.iter_mut().zip(MCONTEXT_INDICES) {
            *value = gregs.get(place as usize).map_or(0, |&word| word as usize);
        }
        Self::all(values)
    }

    /// Of the code that a signal interrupted, at the signal trampoline, where the stack pointer is at the kernel's
    /// frame. `read` gives the words of the stack.
    pub(crate) fn of_signal_frame(sp: usize, mut read: impl FnMut(usize) -> Option<usize>) -> Option<Self> {
        const FIRST: usize = mem::offset_of!(libc::ucontext_t, uc_mcontext);
        let mut values = [0; COUNT];
        for (value, place) in values.iter_mut().zip(MCONTEXT_INDICES) {
            *value = read(sp.wrapping_add(FIRST + place as usize * size_of::<usize>()))?;
        }
        Some(Self::all(values))
    }

    /// Of the function that this call is inlined into; its program counter lies behind the call.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut words = [0usize; 8];
        // SAFETY: stores eight words into `words`, whose address is the only input; changes nothing else.
        unsafe {
            asm!(
                "mov [{words}], rbx",
                "mov [{words} + 8], rbp",
                "mov [{words} + 16], rsp",
                "mov [{words} + 24], r12",
                "mov [{words} + 32], r13",
                "mov [{words} + 40], r14",
                "mov [{words} + 48], r15",
                "lea {pc}, [rip]",
                "mov [{words} + 56], {pc}",
                words = in(reg) words.as_mut_ptr(),
                pc = out(reg) _,
                options(preserves_flags)
            );
        }
        let [rbx, rbp, rsp, r12, r13, r14, r15, pc] = words;
        Self::from_values(&[
            (3, rbx),
            (6, rbp),
            (7, rsp),
            (12, r12),
            (13, r13),
            (14, r14),
            (15, r15),
            (16, pc),
        ])
    }
}

/// The last byte that the kernel wrote for a signal: its frame ends with the processor's extended state, right below
/// the interrupted stack pointer (less the red zone) or the end of the alternate stack.
///
/// # Safety
/// * `context` is what the kernel gave to a handler that has not returned.
#[inline]
pub(crate) unsafe fn last_written(context: &libc::ucontext_t) -> usize {
    /// Where the kernel says how long the state is (`struct _fpx_sw_bytes` of `<asm/sigcontext.h>`), and its mark.
    const SOFTWARE_BYTES: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    const LEGACY_BYTES: usize = 512;
    let state = context.uc_mcontext.fpregs.cast::<u8>();
    if state.is_null() {
        return 0;
    }
    // SAFETY: the kernel's state is at least LEGACY_BYTES long.
    let [mark, length] = unsafe { state.wrapping_add(SOFTWARE_BYTES).cast::<[u32; 2]>().read_unaligned() };
    let length = if mark == MAGIC { length as usize } else { LEGACY_BYTES };
    (state as usize).wrapping_add(length).wrapping_sub(1)
}

/// True for an address that user code can own: neither in the first page nor beyond the lower half (both 47 and
/// 57 bits of user address space lie below the kernel's half; the rest is non-canonical and cannot be mapped).
#[inline]
pub(crate) fn is_user_address(address: usize) -> bool {
    (0x1000..1 << 56).contains(&address)
}

/// The address that a stored return address means: nothing is hidden in it here.
#[inline(always)]
pub(crate) fn code_address(word: usize) -> usize {
    word
}

/// A system call by its number, with neither libc nor `errno`: the kernel's own result, -4095..-1 for an error.
///
/// Signal-safe: one instruction.
///
/// # Safety
/// * The call with these arguments must be sound: pointers valid for what the kernel does with them.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11 only; the caller vouches for the call.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// The time-stamp counter, once all that stands before has been done.
#[cfg(sigprof_stamps)]
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { core::arch::x86_64::_mm_lfence() };
    // SAFETY: Linux leaves this instruction to programs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Calls `function(argument)` with the stack pointer at `top`, and comes back to the present stack.
///
/// # Safety
/// * `top` is 16-byte aligned and ends a writable region that is large enough for `function` and that nobody
///   else uses meanwhile.
/// * `function` does not unwind, and `argument` is what it expects.
pub(crate) unsafe fn call_on_stack(function: extern "C" fn(*mut u8), argument: *mut u8, top: *mut u8) {
    // SAFETY: r12 is preserved by the callee and brings the stack pointer back; the rest is the caller's word.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}
