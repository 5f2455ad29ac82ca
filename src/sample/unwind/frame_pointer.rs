//! The step through a frame that has no call frame information: code that a JIT compiler made, mostly.
//!
//! By the ABI's convention (psABI section 3.2.2) such code keeps a chain of frame pointers: the word at the frame
//! pointer is the caller's, the word above it the return address. Section 3.4.1 asks that the outermost frame has
//! a frame pointer of zero. Nothing obliges code to do so, therefore each step is doubted.

use super::memory::StackReader;
use crate::sys::arch::{FRAME_POINTER, RETURN_ADDRESS, Registers, STACK_POINTER, is_user_address};

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

/// Steps to the caller by the frame pointer. Signal-safe.
pub(crate) fn step(registers: &mut Registers, stack: &mut StackReader) -> FramePointerStep {
    let Some(frame) = registers.get(FRAME_POINTER) else { return FramePointerStep::Lost };
    if frame == 0 {
        return FramePointerStep::Outermost;
    }
    let sp = registers.sp();
    if frame < sp || frame - sp > LARGEST_FRAME {
        return FramePointerStep::Lost;
    }
    let (caller, pc) =
        (stack.read_on_stack(frame), stack.read_on_stack(frame.wrapping_add(size_of::<usize>())));
    let (Some(caller), Some(pc)) = (caller, pc) else { return FramePointerStep::Lost };
    // The caller may use the register for anything; a step from there is doubted in its turn.
    if !is_user_address(pc) {
        return FramePointerStep::Lost;
    }
    // Such code may use every other register as it likes.
    registers.forget_all();
    registers.set(FRAME_POINTER, Some(caller));
    registers.set(STACK_POINTER, Some(frame + 2 * size_of::<usize>()));
    registers.set(RETURN_ADDRESS, Some(pc));
    FramePointerStep::Caller
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(sp: usize, fp: usize) -> Registers {
        Registers::from_values(&[(STACK_POINTER, sp), (FRAME_POINTER, fp), (RETURN_ADDRESS, 0x40_0000)])
    }

    #[test]
    fn a_chain_of_frames_is_followed_to_its_zero() {
        let mut words = [0usize; 6];
        let base = words.as_ptr() as usize;
        words[1] = base + 8 * 4; // the caller's frame pointer
        words[2] = 0x40_1000;
        words[4] = 0;
        words[5] = 0x40_2000;
        let (mut registers, mut stack) = (registers(base, base + 8), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack), FramePointerStep::Caller);
        assert_eq!((registers.pc(), registers.sp()), (0x40_1000, base + 24));
        assert_eq!(step(&mut registers, &mut stack), FramePointerStep::Caller);
        assert_eq!(registers.pc(), 0x40_2000);
        assert_eq!(step(&mut registers, &mut stack), FramePointerStep::Outermost);
        assert!(words[0] == 0);
    }

    #[test]
    fn what_is_no_frame_pointer_is_refused() {
        let words = [0usize, 8, 16, 24];
        let base = words.as_ptr() as usize;
        for fp in [base + 4, base - 8, base + LARGEST_FRAME + 16, 1 << 62] {
            let (mut registers, mut stack) = (registers(base, fp), StackReader::new(base, 0));
            assert_eq!(step(&mut registers, &mut stack), FramePointerStep::Lost, "{fp:#x}");
        }
        // The stored pointer goes down, and the return address is in the first page.
        let (mut registers, mut stack) = (registers(base, base + 8), StackReader::new(base, 0));
        assert_eq!(step(&mut registers, &mut stack), FramePointerStep::Lost);
    }
}
