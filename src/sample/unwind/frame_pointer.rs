//! The step through a frame without call frame information, mostly of JIT-compiled code. By
//! convention (psABI section 3.2.2) the frame pointer points to the caller's, below the return
//! address; the outermost frame's is zero (section 3.4.1). Each step is checked.

use super::{Trust, memory::StackReader, objects};
use crate::sys::arch::{
    FRAME_POINTER, HAS_LINK_REGISTER, PROGRAM_COUNTER, Registers, ReturnAddressLocation, STACK_POINTER, code,
    code_address, is_user_address,
};

/// A larger distance suggests that the register holds something else.
const LARGEST_FRAME: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramePointerStep {
    Caller,
    Outermost,
    Lost,
}

/// Steps to the caller. Signal-safe. `is_exact`: interrupted, so the frame may be incomplete.
pub(crate) fn step(registers: &mut Registers, stack: &mut StackReader, is_exact: bool) -> FramePointerStep {
    const WORD: usize = size_of::<usize>();
    let sp = registers.sp();
    let place = if is_exact { return_address_location(registers.pc(), stack) } else { None };
    let (caller, word, sp) = match place {
        Some(ReturnAddressLocation::Top) => {
            (registers.get(FRAME_POINTER), stack.read(sp), sp.wrapping_add(WORD))
        }
        Some(ReturnAddressLocation::BelowFramePointer) => {
            (stack.read(sp), stack.read(sp.wrapping_add(WORD)), sp.wrapping_add(2 * WORD))
        }
        None => {
            let Some(frame) = registers.get(FRAME_POINTER) else { return FramePointerStep::Lost };
            if frame == 0 {
                return FramePointerStep::Outermost;
            }
            if frame < sp || frame - sp > LARGEST_FRAME {
                return FramePointerStep::Lost;
            }
            let word = stack.read_on_stack(frame.wrapping_add(WORD));
            (stack.read_on_stack(frame), word, frame.wrapping_add(2 * WORD))
        }
    };
    let (Some(caller), Some(word)) = (caller, word) else { return FramePointerStep::Lost };
    let pc = code_address(word);
    // The caller may use the register for anything; the next step checks it again.
    if !is_user_address(pc) || !may_be_returned_to(pc, stack) {
        return FramePointerStep::Lost;
    }
    registers.forget_all();
    registers.set(FRAME_POINTER, Some(caller));
    registers.set(STACK_POINTER, Some(sp));
    if HAS_LINK_REGISTER {
        // No call pushed these words: the caller's stack pointer is somewhere above them.
        registers.doubt(STACK_POINTER);
    }
    registers.set(PROGRAM_COUNTER, Some(pc));
    FramePointerStep::Caller
}

fn return_address_location(pc: usize, stack: &mut StackReader) -> Option<ReturnAddressLocation> {
    code::return_address_location(&stack.read_bytes(pc)?)
}

/// False if `pc` is in a DSO and no call precedes it. Other code, maybe JIT-compiled, is not read:
/// after a wrong guess its page could be unmapped at any time.
fn may_be_returned_to(pc: usize, stack: &mut StackReader) -> bool {
    let call = pc.wrapping_sub(code::CALL_BYTES);
    let Some(guard) = objects::pin(call, Trust::Guessed) else { return true };
    let Some(_object) = guard.find(call) else { return true };
    stack.read_bytes(call).is_some_and(|bytes| code::is_after_call(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::choose_probe;

    fn registers(sp: usize, fp: usize) -> Registers {
        Registers::from_values(&[(STACK_POINTER, sp), (FRAME_POINTER, fp), (PROGRAM_COUNTER, 0x40_0000)])
    }

    #[test]
    fn follows_frame_pointers_to_zero() {
        crate::sys::memory::choose_probe().unwrap();
        let mut words = [0usize; 6];
        let base = words.as_ptr() as usize;
        words[1] = base + 4 * size_of::<usize>(); // the caller's frame pointer
        words[2] = 0x40_1000;
        words[4] = 0;
        words[5] = 0x40_2000;
        let (mut registers, mut stack) =
            (registers(base, base + size_of::<usize>()), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Caller);
        assert_eq!((registers.pc(), registers.sp()), (0x40_1000, base + 3 * size_of::<usize>()));
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Caller);
        assert_eq!(registers.pc(), 0x40_2000);
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Outermost);
        assert!(words[0] == 0);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn finds_the_caller_in_prologues_and_epilogues() {
        choose_probe().unwrap();
        let words = [0x11_1111usize, 0x40_1000, 0x22_2222, 0x40_2000, 0, 0];
        let base = words.as_ptr() as usize;
        let outer = base + 16;
        let step_at = |code: &[u8], sp: usize, fp: usize, is_exact: bool| {
            let code: Vec<u8> = code.iter().copied().chain([0x90; 16]).collect();
            let pc = (PROGRAM_COUNTER, code.as_ptr() as usize);
            let mut registers = Registers::from_values(&[(STACK_POINTER, sp), (FRAME_POINTER, fp), pc]);
            assert_eq!(
                step(&mut registers, &mut StackReader::new(sp, 0), is_exact),
                FramePointerStep::Caller
            );
            (registers.pc(), registers.sp() - base, registers.get(FRAME_POINTER).unwrap())
        };
        // Before `push rbp` and at `ret` the return address is topmost.
        assert_eq!(step_at(&[0x55, 0x48, 0x89, 0xe5], base + 8, outer, true), (0x40_1000, 16, outer));
        assert_eq!(step_at(&[0xc3], base + 8, outer, true), (0x40_1000, 16, outer));
        // After `push rbp` and before `pop rbp; ret` it is above the saved rbp.
        assert_eq!(step_at(&[0x48, 0x89, 0xe5], base, outer, true), (0x40_1000, 16, 0x11_1111));
        assert_eq!(step_at(&[0x5d, 0xc3], base, outer, true), (0x40_1000, 16, 0x11_1111));
        // Elsewhere, and after a call, the frame is complete.
        assert_eq!(step_at(&[0x90], base, base, true), (0x40_1000, 16, 0x11_1111));
        assert_eq!(step_at(&[0xc3], base + 8, outer, false), (0x40_2000, 32, 0x22_2222));
        assert!(words[0] != 0);
    }

    #[test]
    fn refuses_a_return_address_without_a_call_before_it() {
        choose_probe().unwrap();
        objects::prepare();
        // In this program's DSO; before a function there may be a call.
        static NO_CALL: [u8; 16] = [0; 16];
        let address = NO_CALL.as_ptr_range().end as usize;
        let words = [0usize, address];
        let base = words.as_ptr() as usize;
        let (mut registers, mut stack) = (registers(base, base), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Lost);
    }

    #[test]
    fn refuses_invalid_frame_pointers() {
        let words = [0usize, 8, 16, 24];
        let base = words.as_ptr() as usize;
        for fp in [base + 2, base - 8, base + LARGEST_FRAME + 16, 1 << (usize::BITS - 2)] {
            let (mut registers, mut stack) = (registers(base, fp), StackReader::new(base, 0));
            assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Lost, "{fp:#x}");
        }
        // The stored pointer is lower, and the return address is in the first page.
        let (mut registers, mut stack) =
            (registers(base, base + size_of::<usize>()), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Lost);
    }
}
