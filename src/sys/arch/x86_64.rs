//! x86-64, System V ABI ("System V Application Binary Interface, AMD64 Architecture Processor Supplement").
//!
//! # Safety
//! Inline assembly: one system call, one capture of registers, one switch of stacks. Each names what it changes.
#![allow(unsafe_code)]

pub(crate) mod code;

use core::{arch::asm, mem};

/// DWARF number of the stack pointer, `rsp` (psABI, figure "DWARF Register Number Mapping").
pub(crate) const STACK_POINTER: u16 = 7;
/// DWARF number of the frame pointer, `rbp`.
pub(crate) const FRAME_POINTER: u16 = 6;
/// DWARF number of the return address column.
pub(crate) const RETURN_ADDRESS: u16 = 16;
/// DWARF numbers of the registers that a callee preserves, besides the stack pointer: rbx, rbp, r12 to r15.
pub(crate) const CALLEE_SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];

const COUNT: usize = 17;

/// Register n of DWARF stands at this place in `gregs`.
const PLACES: [libc::c_int; COUNT] = [
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

/// The integer registers of one frame, by DWARF number, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    values: [usize; COUNT],
    /// Bit n is set when register n is known.
    known: u32,
}

impl Registers {
    /// Of the code that a signal interrupted. Signal-safe: reads the kernel's frame and nothing else.
    pub(crate) fn interrupted(context: &libc::ucontext_t) -> Self {
        let gregs = &context.uc_mcontext.gregs;
        let mut registers = Self { values: [0; COUNT], known: (1 << COUNT) - 1 };
        for (value, place) in registers.values.iter_mut().zip(PLACES) {
            *value = gregs.get(place as usize).map_or(0, |&word| word as usize);
        }
        registers
    }

    /// Of the code that a signal interrupted, at the signal trampoline, where the stack pointer is at the kernel's
    /// frame. `read` gives the words of the stack.
    pub(crate) fn of_signal_frame(sp: usize, mut read: impl FnMut(usize) -> Option<usize>) -> Option<Self> {
        const FIRST: usize = mem::offset_of!(libc::ucontext_t, uc_mcontext);
        let mut registers = Self { values: [0; COUNT], known: (1 << COUNT) - 1 };
        for (value, place) in registers.values.iter_mut().zip(PLACES) {
            *value = read(sp.wrapping_add(FIRST + place as usize * size_of::<usize>()))?;
        }
        Some(registers)
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
        let mut registers = Self { values: [0; COUNT], known: 0 };
        let [rbx, rbp, rsp, r12, r13, r14, r15, pc] = words;
        for (number, value) in
            [(3, rbx), (6, rbp), (7, rsp), (12, r12), (13, r13), (14, r14), (15, r15), (16, pc)]
        {
            registers.set(number, Some(value));
        }
        registers
    }

    /// Registers with the given values and none other, for tests and for callers of the C interface.
    #[cfg(test)]
    pub(crate) fn from_values(values: &[(u16, usize)]) -> Self {
        let mut registers = Self { values: [0; COUNT], known: 0 };
        for &(number, value) in values {
            registers.set(number, Some(value));
        }
        registers
    }

    /// The value of DWARF register `number`, where it is known.
    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<usize> {
        let value = self.values.get(usize::from(number))?;
        (self.known >> number & 1 == 1).then_some(*value)
    }

    /// Sets DWARF register `number`, or makes it unknown; numbers that are not tracked are ignored.
    #[inline]
    pub(crate) fn set(&mut self, number: u16, value: Option<usize>) {
        let Some(place) = self.values.get_mut(usize::from(number)) else { return };
        match value {
            Some(value) => {
                *place = value;
                self.known |= 1 << number;
            }
            None => self.known &= !(1 << number),
        }
    }

    /// Makes every register unknown.
    #[inline]
    pub(crate) fn forget_all(&mut self) {
        self.known = 0;
    }

    /// The program counter.
    #[inline]
    pub(crate) fn pc(&self) -> usize {
        self.values[RETURN_ADDRESS as usize]
    }

    /// The stack pointer.
    #[inline]
    pub(crate) fn sp(&self) -> usize {
        self.values[STACK_POINTER as usize]
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
    const MARK: u32 = 0x4650_5853;
    const LEGACY_BYTES: usize = 512;
    let state = context.uc_mcontext.fpregs.cast::<u8>();
    if state.is_null() {
        return 0;
    }
    // SAFETY: the kernel's state is at least LEGACY_BYTES long.
    let [mark, length] = unsafe { state.wrapping_add(SOFTWARE_BYTES).cast::<[u32; 2]>().read_unaligned() };
    let length = if mark == MARK { length as usize } else { LEGACY_BYTES };
    (state as usize).wrapping_add(length).wrapping_sub(1)
}

/// True for an address that user code can own: neither in the first page nor beyond the lower half (both 47 and
/// 57 bits of user address space lie below the kernel's half; the rest is non-canonical and cannot be mapped).
#[inline]
pub(crate) fn is_user_address(address: usize) -> bool {
    (0x1000..1 << 56).contains(&address)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_on_another_stack_runs_there_and_comes_back() {
        extern "C" fn note_stack(argument: *mut u8) {
            let local = 0u8;
            // SAFETY: the caller passes a pointer to a usize.
            unsafe { *argument.cast::<usize>() = &raw const local as usize };
        }
        let mut stack = vec![0u128; 4096];
        let range = stack.as_mut_ptr_range();
        let mut seen = 0usize;
        // SAFETY: the vector is ours, 16-byte aligned and 64 KiB long; the argument is a usize.
        unsafe { call_on_stack(note_stack, (&raw mut seen).cast(), range.end.cast()) };
        assert!((range.start as usize..range.end as usize).contains(&seen));
    }

    #[test]
    fn a_register_outside_the_tracked_ones_is_unknown() {
        let mut registers = Registers::from_values(&[(3, 7)]);
        registers.set(40, Some(1));
        assert_eq!((registers.get(3), registers.get(40), registers.get(0)), (Some(7), None, None));
    }
}
