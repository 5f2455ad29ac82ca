//! x86-64 ("System V Application Binary Interface, AMD64 Architecture Processor Supplement").
//!
//! # Safety
//! Assembly: a system call, a capture of registers, a switch of stacks. Each declares its clobbers.
#![allow(unsafe_code)]

use super::Registers;
use core::{arch::asm, mem};

/// DWARF number of `rsp` (psABI, figure "DWARF Register Number Mapping").
pub(crate) const STACK_POINTER: u16 = 7;
pub(crate) const FRAME_POINTER: u16 = 6;
pub(crate) const RETURN_ADDRESS: u16 = 16;
/// Callee-saved registers except the stack pointer: rbx, rbp, r12 to r15.
pub(crate) const CALLEE_SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];

pub(crate) const PROGRAM_COUNTER: u16 = RETURN_ADDRESS;
pub(crate) const HAS_LINK_REGISTER: bool = false;
/// Limit of register rules in a CFI row; most seen: 17, in glibc's signal trampoline.
pub(crate) const MAX_RULES: usize = 24;
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::Default;
pub(crate) const LARGEST_PAGE: usize = 4096;
pub(crate) const MAP_MEMORY: libc::c_long = libc::SYS_mmap;

pub(super) const COUNT: usize = 17;
pub(super) type KnownBits = u32;

/// Element n is the index of DWARF register n in `gregs`.
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
    /// Returns the registers that a signal interrupted. Signal-safe: only reads the kernel's frame.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        let gregs = &context.uc_mcontext.gregs;
        let mut values = [0; COUNT];
        for (value, place) in values.iter_mut().zip(MCONTEXT_INDICES) {
            *value = gregs.get(place as usize).map_or(0, |&word| word as usize);
        }
        Self::all(values)
    }

    /// Returns the interrupted registers at a signal trampoline: the kernel's frame is at `sp`.
    pub(crate) fn of_signal_frame(sp: usize, mut read: impl FnMut(usize) -> Option<usize>) -> Option<Self> {
        const FIRST: usize = mem::offset_of!(libc::ucontext_t, uc_mcontext);
        let mut values = [0; COUNT];
        for (value, place) in values.iter_mut().zip(MCONTEXT_INDICES) {
            *value = read(sp.wrapping_add(FIRST + place as usize * size_of::<usize>()))?;
        }
        Some(Self::all(values))
    }

    /// Returns the registers of the function that inlines this call; the PC is after the call.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut words = [0usize; 8];
        // SAFETY: stores eight words into `words`, the only input; changes nothing else.
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

/// Returns the last address that the kernel wrote for a signal: the end of the extended state, just
/// below the interrupted stack pointer (less the red zone) or the alternate stack's end.
///
/// # Safety
/// * The kernel must have passed `context` to a handler that has not returned.
#[inline]
pub(crate) unsafe fn last_written(context: &libc::ucontext_t) -> usize {
    /// Offset of the magic number and length (`struct _fpx_sw_bytes`, `<asm/sigcontext.h>`).
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

/// True in the lower half of 57 bits, the largest address space, except in the first page.
#[inline]
pub(crate) fn is_user_address(address: usize) -> bool {
    (0x1000..1 << 56).contains(&address)
}

#[inline(always)]
pub(crate) fn code_address(word: usize) -> usize {
    word
}

/// Returns the kernel's result, -4095..-1 for an error. Signal-safe: does not use libc or `errno`.
///
/// # Safety
/// * The call must be sound with these arguments: pointers are valid for the kernel's use.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: changes only rax, rcx and r11; the call is sound, by this function's contract.
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

/// Returns the time-stamp counter after all earlier instructions have completed.
#[cfg(sigprof_stamps)]
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { core::arch::x86_64::_mm_lfence() };
    // SAFETY: Linux permits this instruction in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// # Safety
/// * `top` must be the 16-byte-aligned end of a writable, unused region that is large enough.
/// * `function` must accept `argument` and not unwind.
pub(crate) unsafe fn call_on_stack(function: extern "C" fn(*mut u8), argument: *mut u8, top: *mut u8) {
    // SAFETY: callee-saved r12 restores the stack pointer; the caller guarantees the rest.
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
