use super::machine::{COUNT, KnownBits, PROGRAM_COUNTER, STACK_POINTER};

/// The known integer registers of one frame, by DWARF number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    values: [usize; COUNT],
    /// Bit n is set if register n is known.
    known: KnownBits,
}

impl Registers {
    #[inline]
    pub(super) fn all(values: [usize; COUNT]) -> Self {
        Self { values, known: KnownBits::MAX >> (KnownBits::BITS - COUNT as u32) }
    }

    #[inline(always)]
    pub(crate) fn from_values(values: &[(u16, usize)]) -> Self {
        let mut registers = Self { values: [0; COUNT], known: 0 };
        for &(number, value) in values {
            registers.set(number, Some(value));
        }
        registers
    }

    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<usize> {
        let value = self.values.get(usize::from(number))?;
        (self.known >> number & 1 == 1).then_some(*value)
    }

    /// Sets DWARF register `number`, or makes it unknown; ignores numbers that are not tracked.
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

    /// Makes a register unknown; its value remains as a lower bound.
    #[inline]
    pub(crate) fn doubt(&mut self, number: u16) {
        self.known &= !(1 << number);
    }

    #[inline]
    pub(crate) fn forget_all(&mut self) {
        self.known = 0;
    }

    #[inline]
    pub(crate) fn pc(&self) -> usize {
        self.values[PROGRAM_COUNTER as usize]
    }

    /// Returns the stack pointer, or its lower bound if it is not known.
    #[inline]
    pub(crate) fn sp(&self) -> usize {
        self.values[STACK_POINTER as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_untracked_registers() {
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
    fn knows_exactly_the_tracked_registers() {
        let registers = Registers::all(core::array::from_fn(|number| 100 + number));
        for number in 0..COUNT {
            assert_eq!(registers.get(number as u16), Some(100 + number));
        }
        assert_eq!(registers.get(COUNT as u16), None);
        assert_eq!(registers.sp(), 100 + usize::from(STACK_POINTER));
        assert_eq!(registers.pc(), 100 + usize::from(PROGRAM_COUNTER));
    }

    #[test]
    fn here_is_here() {
        let registers = Registers::here();
        let local = 0u8;
        assert!(registers.sp().abs_diff(&raw const local as usize) < 64 << 10);
        let function = here_is_here as *const () as usize;
        assert!(registers.pc().abs_diff(function) < 1 << 20, "{:#x} in {function:#x}", registers.pc());
    }
}
