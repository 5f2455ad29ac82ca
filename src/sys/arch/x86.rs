//! i386, System V ABI ("System V Application Binary Interface, Intel386 Architecture Processor Supplement").
//!
//! # Safety
//! Assembly: one system call, one capture of registers, one switch of stacks. Each names what it changes.
#![allow(unsafe_code)]

use super::Registers;
use core::arch::{asm, global_asm};

/// DWARF number of the stack pointer, `esp` (psABI, table "DWARF Register Number Mapping").
pub(crate) const STACK_POINTER: u16 = 4;
/// DWARF number of the frame pointer, `ebp`.
pub(crate) const FRAME_POINTER: u16 = 5;
/// DWARF number of the return address column.
pub(crate) const RETURN_ADDRESS: u16 = 8;
/// DWARF numbers of the registers that a callee preserves, besides the stack pointer: ebx, ebp, esi, edi.
pub(crate) const CALLEE_SAVED: [u16; 4] = [3, 5, 6, 7];

/// The program counter stands in the return address's column.
pub(crate) const PROGRAM_COUNTER: u16 = RETURN_ADDRESS;
/// A call leaves the return address on the stack.
pub(crate) const HAS_LINK_REGISTER: bool = false;
/// The most registers that a row is seen to name: 9 in the kernel's signal trampolines, and some room.
pub(crate) const MAX_RULES: usize = 16;
/// TimerOwner extensions of call frame information are in use.
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::Default;
/// The largest page of any kernel for this machine.
pub(crate) const LARGEST_PAGE: usize = 4096;
/// The system call that maps memory: `mmap` takes a pointer to its arguments here. Without a file the offset's unit
/// makes no difference.
pub(crate) const MAP_MEMORY: libc::c_long = libc::SYS_mmap2;

pub(super) const COUNT: usize = 9;
pub(super) type KnownBits = u16;

impl Registers {
    /// Of the code that a signal interrupted. Signal-safe: reads the kernel's frame and nothing else.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        // Register n of DWARF stands at this place in `gregs`.
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

    /// Of the code that a signal interrupted, at a trampoline without call frame information. No such is known on this
    /// machine: the kernel's and glibc's own all have it.
    pub(crate) fn of_signal_frame(_sp: usize, _read: impl FnMut(usize) -> Option<usize>) -> Option<Self> {
        None
    }

    /// Of the function that this call is inlined into; its program counter lies behind the call.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let mut words = [0usize; 6];
        // SAFETY: stores six words into `words`, whose address is the only input, and uses one word of stack.
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

/// True for an address that user code can own: not in the first page, and not in the last two, which a 64-bit kernel
/// keeps from 32-bit programs (of a 32-bit kernel's own addresses none can be read).
#[inline]
pub(crate) fn is_user_address(address: usize) -> bool {
    (0x1000..0xffff_e000).contains(&address)
}

/// The address that a stored return address means: nothing is hidden in it here.
#[inline(always)]
pub(crate) fn code_address(word: usize) -> usize {
    word
}

/// The last byte that the kernel wrote for a signal; 0, for where its frame ends is not told on this machine.
///
/// # Safety
/// * `context` is what the kernel gave to a handler that has not returned.
#[inline]
pub(crate) unsafe fn last_written(_context: &libc::ucontext_t) -> usize {
    0
}

// All six arguments of a system call and its number leave no register for anything else, not even for the frame
// pointer. So it is a function of its own, which says at each instruction where the caller's registers are: a signal that
// was blocked comes right behind the call that unblocks it, and its walk begins there. Compilers know nothing of pushes
// within inline assembly, and would lead the walk error.
//
// Weak and hidden: each shared object has its own, and two versions of this crate in one program share one.
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
    /// See the assembly above. What `arguments` points to is six words.
    fn sigprof_system_call_i386(number: libc::c_long, arguments: *const usize) -> isize;
}

/// A system call by its number, with neither libc nor `errno`: the kernel's own result, -4095..-1 for an error.
///
/// Signal-safe: a few moves and one instruction that enters the kernel.
///
/// # Safety
/// * The call with these arguments must be sound: pointers valid for what the kernel does with them.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the array has six words; the caller vouches for the call.
    unsafe { sigprof_system_call_i386(number, arguments.as_ptr()) }
}

/// Calls `function(argument)` with the stack pointer at `top`, and comes back to the present stack.
///
/// # Safety
/// * `top` is 16-byte aligned and ends a writable region that is large enough for `function` and that nobody
///   else uses meanwhile.
/// * `function` does not unwind, and `argument` is what it expects.
pub(crate) unsafe fn call_on_stack(function: extern "C" fn(*mut u8), argument: *mut u8, top: *mut u8) {
    // The argument goes on the stack, with padding that keeps the stack aligned to 16 bytes at the call.
    // SAFETY: edi is preserved by the callee and brings the stack pointer back; the rest is the caller's word.
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

    /// All six arguments arrive, the sixth in ebp: of two pages of a file of two, the second is mapped.
    #[test]
    fn a_system_call_takes_six_arguments() {
        const PAGE: usize = 4096;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[[1u8; PAGE], [2; PAGE]].concat()).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file) as usize;
        let arguments = [0, PAGE, libc::PROT_READ as usize, libc::MAP_PRIVATE as usize, descriptor, 1];
        // SAFETY: a mapping at an address of the kernel's choice.
        let address = unsafe { system_call(MAP_MEMORY, arguments) };
        // SAFETY: the page that was just mapped.
        assert_eq!(unsafe { *(address as *const u8) }, 2);
        // SAFETY: the page is used no more.
        assert_eq!(unsafe { system_call(libc::SYS_munmap, [address as usize, PAGE, 0, 0, 0, 0]) }, 0);
    }
}
