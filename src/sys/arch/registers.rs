//! The registers of one frame.

use super::machine::{COUNT, KnownBits, PROGRAM_COUNTER, STACK_POINTER};

/// The integer registers of one frame, by DWARF number, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    values: [usize; COUNT],
    /// Bit n is set when register n is known.
    known: KnownBits,
}

impl Registers {
    /// Each register known.
    #[inline]
    pub(super) fn all(values: [usize; COUNT]) -> Self {
        Self { values, known: KnownBits::MAX >> (KnownBits::BITS - COUNT as u32) }
    }

    /// Registers with the given values and none other.
    #[inline(always)]
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

    /// Makes a register unknown, but for its being at least what it is now.
    #[inline]
    pub(crate) fn doubt(&mut self, number: u16) {
        self.known &= !(1 << number);
    }

    /// Makes every register unknown.
    #[inline]
    pub(crate) fn forget_all(&mut self) {
        self.known = 0;
    }

    /// The program counter.
    #[inline]
    pub(crate) fn pc(&self) -> usize {
        self.values[PROGRAM_COUNTER as usize]
    }

    /// The stack pointer; the least that it can be, where it is not known.
    #[inline]
    pub(crate) fn sp(&self) -> usize {
        self.values[STACK_POINTER as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_outside_the_tracked_ones_is_unknown() {
        let kept = super::super::CALLEE_SAVED[0];
        let mut registers = Registers::from_values(&[(kept, 7)]);
        registers.set(COUNT as u16, Some(1));
        registers.set(999, Some(1));
        assert_eq!(
            (registers.get(kept), registers.get(COUNT as u16), registers.get(0)),
            (Some(7), None, None)
        );
    }

    #[test]
    fn all_registers_are_known_and_no_others() {
        let registers = Registers::all(core::array::from_fn(|number| 100 + number));
        for number in 0..COUNT {
            assert_eq!(registers.get(number as u16), Some(100 + number));
        }
        assert_eq!(registers.get(COUNT as u16), None);
        assert_eq!(registers.sp(), 100 + usize::from(STACK_POINTER));
        assert_eq!(registers.pc(), 100 + usize::from(PROGRAM_COUNTER));
    }

    /// A handler on this thread finds in its context what the interrupted code left there: the stack pointer above
    /// its own frame, and a PC in the function that sent the signal.
    #[test]
    fn here_is_here() {
        let registers = Registers::here();
        let local = 0u8;
        assert!(registers.sp().abs_diff(&raw const local as usize) < 64 << 10);
        let function = here_is_here as *const () as usize;
        assert!(registers.pc().abs_diff(function) < 1 << 20, "{:#x} in {function:#x}", registers.pc());
    }
}
