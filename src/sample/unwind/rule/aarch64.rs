//! Rules on aarch64.
//!
//! Compilers store callee-saved registers in consecutive words, in one of three orders upwards: gcc
//! x29, x30, x19 to x28; gcc without frame pointers x19 to x28, x29, x30; LLVM x29, x30, x28 to
//! x19. An odd number leaves one word free. A leaf function's return address is in x30.
//!
//! ```text
//! bit   0..4   kind
//!       4      register  the CFA's base: 0 the stack pointer, 1 the frame pointer
//!       5..25  offset    words that are added to the base
//!      25..27  order     0, 1, 2 as above
//!      27..39  saved     a bit for each register, in that order: it is stored
//!      39..55  lowest    words from the first stored register up to the CFA
//!      55..59  gap       number of registers below the free word; 0 without one
//! ```

use super::{Cfa, Row, Rule, WORD};
use crate::sys::arch::{CALLEE_SAVED, FRAME_POINTER, RETURN_ADDRESS, STACK_POINTER};

const REGISTERS: usize = CALLEE_SAVED.len() + 1;
const OFFSET_BITS: u32 = 20;
const LOWEST_BITS: u32 = 16;
const ORDERS: [[u16; REGISTERS]; 3] = [
    [29, 30, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28],
    [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
    [29, 30, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19],
];

impl Rule {
    /// The rule at a function's first instruction: nothing on the stack.
    pub(crate) const ENTRY: Self = Self(1);

    /// Whether it is: CFA = stack pointer + constant, and a stored return address.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        const SUM_OF_STACK_POINTER: u64 = 1;
        self.0 & 0x1f == SUM_OF_STACK_POINTER && self.return_address().is_some()
    }

    pub(crate) fn compact(row: &Row) -> Option<Self> {
        let base = match row.register {
            STACK_POINTER => 0,
            FRAME_POINTER => 1,
            _ => return None,
        };
        let words = words(row.offset, OFFSET_BITS)?;
        if row.cfa != Cfa::Sum {
            return None;
        }
        let layout = (0..).zip(&ORDERS).find_map(|(i, order)| Some(layout(order, row)? | i << 25))?;
        Some(Self(row.cfa.kind_bits() | base << 4 | words << 5 | layout))
    }

    #[inline]
    pub(crate) fn register(self) -> u16 {
        if self.0 >> 4 & 1 == 0 { STACK_POINTER } else { FRAME_POINTER }
    }

    #[inline]
    pub(crate) fn offset(self) -> isize {
        ((self.0 >> 5 & ((1 << OFFSET_BITS) - 1)) * WORD as u64) as isize
    }

    /// Bytes below the CFA; None if it is in its register.
    #[inline]
    pub(crate) fn return_address(self) -> Option<usize> {
        self.stored().find_map(|(register, below)| (register == RETURN_ADDRESS).then_some(below))
    }

    /// Bytes below the CFA of the caller's frame pointer, to which this frame's points.
    #[inline]
    pub(crate) fn frame_record(self) -> Option<usize> {
        self.stored().find_map(|(register, below)| (register == FRAME_POINTER).then_some(below))
    }

    /// Calls `f` with each stored callee-saved register and its distance below the CFA.
    #[inline]
    pub(crate) fn for_each_saved(self, mut f: impl FnMut(u16, usize)) {
        let saved = self.stored().filter(|&(register, _)| register != RETURN_ADDRESS);
        saved.for_each(|(register, below)| f(register, below));
    }

    #[inline]
    fn stored(self) -> impl Iterator<Item = (u16, usize)> {
        let [frame_first, frame_last, falling] = &ORDERS;
        let order = match self.0 >> 25 & 3 {
            0 => frame_first,
            1 => frame_last,
            _ => falling,
        };
        let mut left = self.0 >> 27 & ((1 << REGISTERS) - 1);
        let mut below = (self.0 >> 39 & ((1 << LOWEST_BITS) - 1)) as usize;
        let mut until_gap = self.0 >> 55 & 15;
        core::iter::from_fn(move || {
            let register = *order.get(left.trailing_zeros() as usize)?;
            let place = below;
            left &= left - 1;
            until_gap = until_gap.wrapping_sub(1);
            below = below.wrapping_sub(if until_gap == 0 { 2 } else { 1 });
            Some((register, place * size_of::<usize>()))
        })
    }
}

/// Returns the fields saved, lowest and gap, if the row has this order.
fn layout(order: &[u16; REGISTERS], row: &Row) -> Option<u64> {
    let (mut mask, mut lowest, mut gap) = (0, 0, 0);
    let (mut stored, mut last) = (0, 0);
    for (i, &number) in order.iter().enumerate() {
        let offset = match CALLEE_SAVED.iter().position(|&saved| saved == number) {
            Some(place) => row.saved.get(place).copied().flatten(),
            None => row.return_address,
        };
        let Some(offset) = offset else { continue };
        let below = words(offset.checked_neg()?, LOWEST_BITS).filter(|&below| below > 0)?;
        if stored == 0 {
            lowest = below;
        } else if last == below + 2 && gap == 0 {
            gap = stored;
        } else if last != below + 1 {
            return None;
        }
        last = below;
        stored += 1;
        mask |= 1u64 << i;
    }
    Some(mask << 27 | lowest << 39 | gap << 55)
}

fn words(bytes: i64, bits: u32) -> Option<u64> {
    let words = u64::try_from(bytes).ok().filter(|bytes| bytes % WORD as u64 == 0)? / WORD as u64;
    (words < 1 << bits).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::super::RuleKind;
    use super::*;

    /// `stored`: registers and offsets from the CFA.
    fn row(register: u16, offset: i64, stored: &[(u16, i64)]) -> Row {
        let find = |number| stored.iter().find(|(stored, _)| *stored == number).map(|&(_, offset)| offset);
        Row {
            cfa: Cfa::Sum,
            register,
            offset,
            return_address: find(RETURN_ADDRESS),
            saved: CALLEE_SAVED.map(find),
        }
    }

    #[track_caller]
    fn survives(register: u16, offset: i64, stored: &[(u16, i64)]) {
        let rule = Rule::compact(&row(register, offset, stored)).unwrap();
        let rule = Rule::from_bits(rule.bits()).unwrap();
        assert_eq!(rule.kind(), RuleKind::Compact(Cfa::Sum));
        assert_eq!((rule.register(), rule.offset() as i64), (register, offset));
        let place =
            |number| stored.iter().find(|(stored, _)| *stored == number).map(|&(_, offset)| -offset as usize);
        assert_eq!(rule.return_address(), place(30));
        assert_eq!(rule.frame_record(), place(29));
        let mut saved = Vec::new();
        rule.for_each_saved(|number, below| saved.push((number, -(below as i64))));
        let mut expected: Vec<_> = stored.iter().copied().filter(|(number, _)| *number != 30).collect();
        saved.sort_unstable();
        expected.sort_unstable();
        assert_eq!(saved, expected);
    }

    #[test]
    fn encodes_frames_of_gcc() {
        survives(31, 0, &[]);
        survives(31, 4096, &[]);
        survives(31, 16, &[(29, -16), (30, -8)]);
        survives(29, 16, &[(29, -16), (30, -8)]);
        survives(31, 48, &[(29, -48), (30, -40), (19, -32), (20, -24), (21, -16)]);
        survives(31, 1 << 18, &[(29, -1 << 18), (30, 8 - (1 << 18)), (19, 16 - (1 << 18))]);
        // Without frame pointers.
        survives(31, 16, &[(30, -16)]);
        survives(31, 32, &[(19, -32), (20, -24), (30, -16)]);
        let all: Vec<_> = (19..=30).map(|number| (number, -96 + 8 * (i64::from(number) - 19))).collect();
        survives(31, 96, &all);
    }

    #[test]
    fn encodes_frames_of_llvm() {
        survives(31, 32, &[(29, -32), (30, -24), (19, -16)]);
        survives(29, 48, &[(29, -48), (30, -40), (22, -32), (21, -24), (20, -16), (19, -8)]);
        // With an odd number, the free word follows the last one stored alone.
        survives(31, 48, &[(29, -48), (30, -40), (21, -32), (20, -16), (19, -8)]);
        survives(31, 16, &[(30, -16), (19, -8)]);
        let all: Vec<_> = (19..=28).map(|number| (number, -8 * (i64::from(number) - 18))).collect();
        survives(31, 96, &[&all[..], &[(30, -88), (29, -96)]].concat());
    }

    #[test]
    fn refuses_rows_that_do_not_fit() {
        let refused =
            |register, offset, stored: &[(u16, i64)]| Rule::compact(&row(register, offset, stored)).is_none();
        assert!(!refused(31, 16, &[]));
        assert!(refused(19, 16, &[]), "another base");
        assert!(refused(31, 12, &[]), "not whole words");
        assert!(refused(31, -16, &[]), "below the base");
        assert!(refused(31, 8 << 20, &[]), "too large");
        assert!(refused(31, 64, &[(29, -64), (30, -56), (19, -32)]), "two words free");
        assert!(refused(31, 96, &[(29, -96), (30, -88), (19, -72), (20, -56)]), "two gaps");
        assert!(refused(31, 96, &[(20, -96), (19, -88), (21, -80)]), "no order of any compiler");
        assert!(
            refused(31, 96, &[(19, 0)]) && refused(31, 96, &[(19, 8)]) && refused(31, 96, &[(19, i64::MIN)])
        );
        assert!(refused(31, 1 << 20, &[(19, -8 << 16)]), "too far below");
        let mut stored = row(31, 16, &[]);
        stored.cfa = Cfa::Stored;
        assert!(Rule::compact(&stored).is_none());
    }
}
