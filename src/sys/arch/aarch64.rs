//! aarch64 (Arm's procedure call standard, AAPCS64, and DWARF mapping, AADWARF64).
//!
//! # Safety
//! Assembly: a system call, a capture of registers, a switch of stacks, `xpaclri`. Each declares
//! its clobbers.
#![allow(unsafe_code)]

use super::Registers;
use core::{arch::asm, mem::offset_of};

/// DWARF number of `sp` (AADWARF64, "DWARF register names").
pub(crate) const STACK_POINTER: u16 = 31;
pub(crate) const FRAME_POINTER: u16 = 29;
/// The link register, `x30`.
pub(crate) const RETURN_ADDRESS: u16 = 30;
/// Callee-saved registers except the stack pointer: x19 to x29. A call changes the link register.
pub(crate) const CALLEE_SAVED: [u16; 11] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];

/// A separate register on this machine.
pub(crate) const PROGRAM_COUNTER: u16 = 32;
/// A call stores the return address in a register, and a leaf function may leave it there.
pub(crate) const HAS_LINK_REGISTER: bool = true;
/// Limit of register rules in a CFI row: x19 to x30, v8 to v15, `RA_SIGN_STATE`. Functions of the
/// vector calling convention may have more; they are walked by frame pointers.
pub(crate) const MAX_RULES: usize = 24;
/// Selects `DW_CFA_AARCH64_negate_ra_state`.
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::AArch64;
/// Kernels have pages of 4, 16 or 64 KiB.
pub(crate) const LARGEST_PAGE: usize = 64 << 10;
pub(crate) const MAP_MEMORY: libc::c_long = libc::SYS_mmap;

pub(super) const COUNT: usize = 33;
pub(super) type KnownBits = u64;

// The kernel stores the registers in the order of their DWARF numbers.
const _: () = {
    let regs = offset_of!(libc::mcontext_t, regs);
    assert!(offset_of!(libc::mcontext_t, sp) == regs + 8 * STACK_POINTER as usize);
    assert!(offset_of!(libc::mcontext_t, pc) == regs + 8 * PROGRAM_COUNTER as usize);
};

impl Registers {
    /// Returns the registers that a signal interrupted. Signal-safe: only reads the kernel's frame.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        let context = &context.uc_mcontext;
        let mut values = [0; COUNT];
        let words = context.regs.iter().chain([&context.sp, &context.pc]);
        for (value, &word) in values.iter_mut().zip(words) {
            *value = word as usize;
        }
        Self::all(values)
    }

    /// Returns the interrupted registers at a signal trampoline: `siginfo_t` and `ucontext_t` at
    /// `sp`. The trampoline has had no CFI since Linux 5.8. Before, its CFI gave the interrupted
    /// code's return address as its PC (arch/arm64/kernel/vdso/sigreturn.S).
    pub(crate) fn of_signal_frame(sp: usize, mut read: impl FnMut(usize) -> Option<usize>) -> Option<Self> {
        const FIRST: usize = size_of::<libc::siginfo_t>()
            + offset_of!(libc::ucontext_t, uc_mcontext)
            + offset_of!(libc::mcontext_t, regs);
        let mut values = [0; COUNT];
        for (number, value) in values.iter_mut().enumerate() {
            *value = read(sp.wrapping_add(FIRST + number * size_of::<usize>()))?;
        }
        Some(Self::all(values))
    }

    /// Returns the registers of the function that inlines this call; the PC is after the call.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut words = [0usize; 13];
        // SAFETY: stores 13 words into `words`, the only input; changes nothing else.
        unsafe {
            asm!(
                "stp x19, x20, [{words}]",
                "stp x21, x22, [{words}, #16]",
                "stp x23, x24, [{words}, #32]",
                "stp x25, x26, [{words}, #48]",
                "stp x27, x28, [{words}, #64]",
                "mov {scratch}, sp",
                "stp x29, {scratch}, [{words}, #80]",
                "adr {scratch}, .",
                "str {scratch}, [{words}, #96]",
                words = in(reg) words.as_mut_ptr(),
                scratch = out(reg) _,
                options(nostack, preserves_flags)
            );
        }
        let [x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29, sp, pc] = words;
        Self::from_values(&[
            (19, x19),
            (20, x20),
            (21, x21),
            (22, x22),
            (23, x23),
            (24, x24),
            (25, x25),
            (26, x26),
            (27, x27),
            (28, x28),
            (29, x29),
            (31, sp),
            (32, pc),
        ])
    }
}

/// True if it is within 52 bits, the largest address space, but not in the first page. Tagged
/// addresses are excluded: stack pointers and code addresses have no tags.
#[inline]
pub(crate) fn is_user_address(address: usize) -> bool {
    (0x1000..1 << 52).contains(&address)
}

/// Strips the signature (`-mbranch-protection`) from a return address. Signal-safe: `xpaclri`, a
/// no-op on processors without pointer authentication.
#[inline(always)]
pub(crate) fn code_address(word: usize) -> usize {
    let address;
    // SAFETY: changes only x30, a declared operand.
    unsafe {
        asm!("hint #7", inlateout("x30") word => address, options(pure, nomem, nostack, preserves_flags));
    }
    address
}

/// Returns 0: the end of the kernel's signal frame is unknown on this machine.
///
/// # Safety
/// * The kernel must have passed `context` to a handler that has not returned.
#[inline]
pub(crate) unsafe fn last_written(_context: &libc::ucontext_t) -> usize {
    0
}

/// Returns the kernel's result, -4095..-1 for an error. Signal-safe: does not use libc or `errno`.
///
/// # Safety
/// * The call must be sound with these arguments: pointers are valid for the kernel's use.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let result: usize;
    // SAFETY: the kernel changes only x0; the call is sound, by this function's contract.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack)
        );
    }
    result as isize
}

/// # Safety
/// * `top` must be the 16-byte-aligned end of a writable, unused region that is large enough.
/// * `function` must accept `argument` and not unwind.
pub(crate) unsafe fn call_on_stack(function: extern "C" fn(*mut u8), argument: *mut u8, top: *mut u8) {
    // SAFETY: callee-saved x20 restores the stack pointer; the caller guarantees the rest.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {function}",
            "mov sp, x20",
            top = in(reg) top,
            function = in(reg) function,
            in("x0") argument,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_interrupted_registers_from_the_context() {
        // SAFETY: integers and pointers, for which zero is a value.
        let mut context: libc::ucontext_t = unsafe { core::mem::zeroed() };
        for (number, place) in context.uc_mcontext.regs.iter_mut().enumerate() {
            *place = 1000 + number as u64;
        }
        context.uc_mcontext.sp = 77;
        context.uc_mcontext.pc = 88;
        let registers = Registers::interrupted(&context);
        assert_eq!(
            (registers.get(0), registers.get(19), registers.get(30)),
            (Some(1000), Some(1019), Some(1030))
        );
        assert_eq!((registers.get(FRAME_POINTER), registers.sp(), registers.pc()), (Some(1029), 77, 88));
    }

    #[test]
    fn a_signature_is_taken_off() {
        let address = a_signature_is_taken_off as *const () as usize;
        let signed: usize;
        // SAFETY: `pacia1716` changes only x17, if the processor can sign.
        unsafe {
            asm!("hint #8", inlateout("x17") address => signed, in("x16") 0x1234_5678_usize, options(nomem, nostack));
        }
        let can_sign = std::arch::is_aarch64_feature_detected!("paca");
        assert_eq!(signed != address, can_sign);
        assert_eq!((code_address(signed), code_address(address)), (address, address));
    }

    #[test]
    fn excludes_tagged_addresses() {
        assert!(is_user_address(0x0000_ffff_8000_0000) && is_user_address(0x000f_ffff_ffff_f000));
        for address in [0, 0xfff, 1 << 52, 0x0200_ffff_8000_0000, 0xffff_8000_0000_0000] {
            assert!(!is_user_address(address), "{address:#x}");
        }
    }
}
