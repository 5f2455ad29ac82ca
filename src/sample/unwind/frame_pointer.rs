//! The step through a frame that has no call frame information: code that a JIT compiler made, mostly.
//!
//! By the ABI's convention (psABI section 3.2.2) such code keeps a chain of frame pointers: the word at the frame
//! pointer is the caller's, the word above it the return address. Section 3.4.1 asks that the outermost frame has
//! a frame pointer of zero. Nothing obliges code to do so, therefore each step is doubted.

use super::{Trust, memory::StackReader, objects};
use crate::sys::arch::{
    FRAME_POINTER, HAS_LINK_REGISTER, PROGRAM_COUNTER, Registers, ReturnAddressLocation, STACK_POINTER, code,
    code_address, is_user_address,
};

/// A frame is seldom larger; what is, is more likely a register that holds something else.
const LARGEST_FRAME: usize = 1 << 20;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramePointerStep {
    /// The registers are now those of the caller.
    Caller,
    /// The frame pointer is zero: the outermost frame.
    Outermost,
    /// The frame pointer does not point to a frame.
    Lost,
}

/// Steps to the caller by the frame pointer. Signal-safe. `is_exact` says that the PC was interrupted, and not
/// returned to: then the frame may not be made yet.
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
    // The caller may use the register for anything; a step from there is doubted in its turn.
    if !is_user_address(pc) || !may_be_returned_to(pc, stack) {
        return FramePointerStep::Lost;
    }
    // Such code may use every other register as it likes.
    registers.forget_all();
    registers.set(FRAME_POINTER, Some(caller));
    registers.set(STACK_POINTER, Some(sp));
    if HAS_LINK_REGISTER {
        // No call has pushed these two words: they stand anywhere in the frame, and the caller's stack pointer
        // somewhere above them.
        registers.doubt(STACK_POINTER);
    }
    registers.set(PROGRAM_COUNTER, Some(pc));
    FramePointerStep::Caller
}

fn return_address_location(pc: usize, stack: &mut StackReader) -> Option<ReturnAddressLocation> {
    code::return_address_location(&stack.read_bytes(pc)?)
}

/// False where `pc` lies in an object, and no call stands before it. Code outside all objects may come from a JIT
/// compiler, and is not looked at: were the word no return address at all, its page could go at any moment.
fn may_be_returned_to(pc: usize, stack: &mut StackReader) -> bool {
    let call = pc.wrapping_sub(code::CALL_BYTES);
    let Some(keeper) = objects::pin(call, Trust::Guessed) else { return true };
    let Some(_object) = keeper.find(call) else { return true };
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
    fn a_chain_of_frames_is_followed_to_its_zero() {
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

    /// Where a function with a frame pointer can be interrupted, the next frame is its caller's and no other.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_frame_that_is_not_made_yet_or_taken_down_is_not_skipped() {
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
        // Before `push rbp` and at `ret` the return address is at the top, and the register is the caller's.
        assert_eq!(step_at(&[0x55, 0x48, 0x89, 0xe5], base + 8, outer, true), (0x40_1000, 16, outer));
        assert_eq!(step_at(&[0xc3], base + 8, outer, true), (0x40_1000, 16, outer));
        // Between `push rbp` and `mov rbp, rsp`, and before `pop rbp; ret`, it is above the caller's frame pointer.
        assert_eq!(step_at(&[0x48, 0x89, 0xe5], base, outer, true), (0x40_1000, 16, 0x11_1111));
        assert_eq!(step_at(&[0x5d, 0xc3], base, outer, true), (0x40_1000, 16, 0x11_1111));
        // Everywhere else, and behind a call, the frame is there.
        assert_eq!(step_at(&[0x90], base, base, true), (0x40_1000, 16, 0x11_1111));
        assert_eq!(step_at(&[0xc3], base + 8, outer, false), (0x40_2000, 32, 0x22_2222));
        assert!(words[0] != 0);
    }

    #[test]
    fn code_that_no_call_precedes_is_not_returned_to() {
        choose_probe().unwrap();
        objects::prepare();
        // Zeros in this program's object. The bytes before a function may be a call, depending on the layout.
        static NO_CALL: [u8; 16] = [0; 16];
        let address = NO_CALL.as_ptr_range().end as usize;
        let words = [0usize, address];
        let base = words.as_ptr() as usize;
        let (mut registers, mut stack) = (registers(base, base), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Lost);
    }

    #[test]
    fn what_is_no_frame_pointer_is_refused() {
        let words = [0usize, 8, 16, 24];
        let base = words.as_ptr() as usize;
        for fp in [base + 2, base - 8, base + LARGEST_FRAME + 16, 1 << (usize::BITS - 2)] {
            let (mut registers, mut stack) = (registers(base, fp), StackReader::new(base, 0));
            assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Lost, "{fp:#x}");
        }
        // The stored pointer goes down, and the return address is in the first page.
        let (mut registers, mut stack) =
            (registers(base, base + size_of::<usize>()), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack, false), FramePointerStep::Lost);
    }
}
