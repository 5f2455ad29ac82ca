//! i386 ("System V Application Binary Interface, Intel386 Architecture Processor Supplement").
//!
//! # Safety
//! Assembly: a system call, a capture of registers, a switch of stacks. Each declares its clobbers.
#![allow(unsafe_code)]

use super::Registers;
use core::arch::{asm, global_asm};

/// DWARF number of `esp` (psABI, table "DWARF Register Number Mapping").
pub(crate) const STACK_POINTER: u16 = 4;
pub(crate) const FRAME_POINTER: u16 = 5;
pub(crate) const RETURN_ADDRESS: u16 = 8;
/// Callee-saved registers except the stack pointer: ebx, ebp, esi, edi.
pub(crate) const CALLEE_SAVED: [u16; 4] = [3, 5, 6, 7];

pub(crate) const PROGRAM_COUNTER: u16 = RETURN_ADDRESS;
pub(crate) const HAS_LINK_REGISTER: bool = false;
/// Limit of register rules in a CFI row; most seen: 9, in the kernel's signal trampolines.
pub(crate) const MAX_RULES: usize = 16;
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::Default;
pub(crate) const LARGEST_PAGE: usize = 4096;
/// `mmap` takes a pointer to its arguments here. `mmap2` counts the offset in pages.
pub(crate) const MAP_MEMORY: libc::c_long = libc::SYS_mmap2;

pub(super) const COUNT: usize = 9;
pub(super) type KnownBits = u16;

impl Registers {
    /// Returns the registers that a signal interrupted. Signal-safe: only reads the kernel's frame.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        // Element n is the index of DWARF register n in `gregs`.
        const MCONTEXT_INDICES: [libc::c_int; COUNT] = [
            libc::REG_EAX,
            libc::REG_ECX,
            libc::REG_EDX,
            libc::REG_EBX,
            libc::REG_ESP,
            libc::REG_EBP,
            libc::REG_ESI,
            libc::REG_EDI,
            libc::REG_EIP,
        ];
        let gregs = &context.uc_mcontext.gregs;
        let mut values = [0; COUNT];
        for (value, place) in values.iter_mut().zip(MCONTEXT_INDICES) {
            *value = gregs.get(place as usize).map_or(0, |&word| word as usize);
        }
        Self::all(values)
    }

    /// Returns None: trampolines of the kernel and glibc all have CFI on this machine.
    pub(crate) fn of_signal_frame(_sp: usize, _read: impl FnMut(usize) -> Option<usize>) -> Option<Self> {
        None
    }

    /// Returns the registers of the function that inlines this call; the PC is after the call.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut words = [0usize; 6];
        // SAFETY: stores six words into `words`, the only input, and uses one word of stack.
        unsafe {
            asm!(
                "mov [{words}], ebx",
                "mov [{words} + 4], ebp",
                "mov [{words} + 8], esp",
                "mov [{words} + 12], esi",
                "mov [{words} + 16], edi",
                "call 2f",
                "2:",
                "pop {pc}",
                "mov [{words} + 20], {pc}",
                words = in(reg) words.as_mut_ptr(),
                pc = out(reg) _,
                options(preserves_flags)
            );
        }
        let [ebx, ebp, esp, esi, edi, pc] = words;
        Self::from_values(&[(3, ebx), (4, esp), (5, ebp), (6, esi), (7, edi), (8, pc)])
    }
}

/// True unless it is in the first page, or in the last two, which a 64-bit kernel reserves. A
/// 32-bit kernel's addresses are not excluded, but cannot be read.
#[inline]
pub(crate) fn is_user_address(address: usize) -> bool {
    (0x1000..0xffff_e000).contains(&address)
}

#[inline(always)]
pub(crate) fn code_address(word: usize) -> usize {
    word
}

/// Returns 0: the end of the kernel's signal frame is unknown on this machine.
///
/// # Safety
/// * The kernel must have passed `context` to a handler that has not returned.
#[inline]
pub(crate) unsafe fn last_written(_context: &libc::ucontext_t) -> usize {
    0
}

// A system call with six arguments needs every register, including the frame pointer. So this is a
// function with CFI at each instruction: a blocked signal is delivered right after the call that
// unblocks it, and its walk starts here. Compilers emit no CFI for pushes in inline assembly.
// Weak and hidden: each shared object has a copy, which two versions of this crate in it share.
global_asm!(
    r#".pushsection .text.sigprof_system_call_i386, "ax", @progbits"#,
    ".weak sigprof_system_call_i386",
    ".hidden sigprof_system_call_i386",
    ".type sigprof_system_call_i386, @function",
    "sigprof_system_call_i386:",
    ".cfi_startproc",
    "push ebp",
    ".cfi_adjust_cfa_offset 4",
    ".cfi_rel_offset ebp, 0",
    "push ebx",
    ".cfi_adjust_cfa_offset 4",
    ".cfi_rel_offset ebx, 0",
    "push esi",
    ".cfi_adjust_cfa_offset 4",
    ".cfi_rel_offset esi, 0",
    "push edi",
    ".cfi_adjust_cfa_offset 4",
    ".cfi_rel_offset edi, 0",
    "mov eax, [esp + 20]",
    "mov edi, [esp + 24]",
    "mov ebx, [edi]",
    "mov ecx, [edi + 4]",
    "mov edx, [edi + 8]",
    "mov esi, [edi + 12]",
    "mov ebp, [edi + 20]",
    "mov edi, [edi + 16]",
    "int 0x80",
    "pop edi",
    ".cfi_adjust_cfa_offset -4",
    ".cfi_restore edi",
    "pop esi",
    ".cfi_adjust_cfa_offset -4",
    ".cfi_restore esi",
    "pop ebx",
    ".cfi_adjust_cfa_offset -4",
    ".cfi_restore ebx",
    "pop ebp",
    ".cfi_adjust_cfa_offset -4",
    ".cfi_restore ebp",
    "ret",
    ".cfi_endproc",
    ".size sigprof_system_call_i386, . - sigprof_system_call_i386",
    ".popsection",
);

unsafe extern "C" {
    /// See the assembly above; `arguments` points to six words.
    fn sigprof_system_call_i386(number: libc::c_long, arguments: *const usize) -> isize;
}

/// Returns the kernel's result, -4095..-1 for an error. Signal-safe: does not use libc or `errno`.
///
/// # Safety
/// * The call must be sound with these arguments: pointers are valid for the kernel's use.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the array has six words; the call is sound, by this function's contract.
    unsafe { sigprof_system_call_i386(number, arguments.as_ptr()) }
}

/// # Safety
/// * `top` must be the 16-byte-aligned end of a writable, unused region that is large enough.
/// * `function` must accept `argument` and not unwind.
pub(crate) unsafe fn call_on_stack(function: extern "C" fn(*mut u8), argument: *mut u8, top: *mut u8) {
    // The argument is on the stack, padded so that the call is 16-byte aligned.
    // SAFETY: callee-saved edi restores the stack pointer; the caller guarantees the rest.
    unsafe {
        asm!(
            "xchg edi, esp",
            "sub esp, 12",
            "push ecx",
            "call eax",
            "mov esp, edi",
            inout("edi") top => _,
            in("ecx") argument,
            in("eax") function,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sixth argument arrives in ebp: the second page of a file is mapped.
    #[test]
    fn passes_six_arguments_to_a_system_call() {
        const PAGE: usize = 4096;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[[1u8; PAGE], [2; PAGE]].concat()).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file) as usize;
        let arguments = [0, PAGE, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, descriptor, 1];
        // SAFETY: a mapping at an address of the kernel's choice.
        let address = unsafe { system_call(MAP_MEMORY, arguments) };
        // SAFETY: the page was just mapped.
        assert_eq!(unsafe { *(address as *const u8) }, 2);
        // SAFETY: the page is not used afterwards.
        assert_eq!(unsafe { system_call(libc::SYS_munmap, [address as usize, PAGE, 0, 0, 0, 0]) }, 0);
    }
}
