//! Rules on x86-64 and i386. The return address is right below the CFA; each callee-saved register
//! is unchanged or in one of the 31 words below.
//!
//! ```text
//! bit   0..4   kind
//!       4..9   register  DWARF number of the CFA's base
//!       9..31  offset    added to the base, signed
//!      31..61  saved     5 bits per callee-saved register: 0 unchanged, n: n + 1 words below CFA
//! ```

use super::{Row, Rule, WORD};
use crate::sys::arch::{CALLEE_SAVED, STACK_POINTER};

const OFFSET_BITS: u32 = 22;
const SAVED_BITS: u32 = 5;

impl Rule {
    /// The rule at a function's first instruction: only the return address is on the stack.
    pub(crate) const ENTRY: Self = Self(1 | (STACK_POINTER as u64) << 4 | (WORD as u64) << 9);

    pub(crate) fn compact(row: &Row) -> Option<Self> {
        let limit = 1i64 << (OFFSET_BITS - 1);
        if row.register >= 32 || !(-limit..limit).contains(&row.offset) || row.return_address != Some(-WORD) {
            return None;
        }
        let offset = row.offset as u64 & ((1 << OFFSET_BITS) - 1);
        let mut bits = row.cfa.kind_bits() | u64::from(row.register) << 4 | offset << 9;
        for (place, offset) in row.saved.into_iter().enumerate() {
            let Some(offset) = offset else { continue };
            let slot = offset.checked_neg()? / WORD - 1;
            if offset % WORD != 0 || !(1..1 << SAVED_BITS).contains(&slot) {
                return None;
            }
            bits |= (slot as u64) << (31 + SAVED_BITS * place as u32);
        }
        Some(Self(bits))
    }

    /// Whether the CFA is the stack pointer plus a constant.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & 0x1ff == 1 | (STACK_POINTER as u64) << 4
    }

    #[inline]
    pub(crate) fn register(self) -> u16 {
        (self.0 >> 4 & 31) as u16
    }

    #[inline]
    pub(crate) fn offset(self) -> isize {
        ((self.0 << (64 - 9 - OFFSET_BITS)) as i64 >> (64 - OFFSET_BITS)) as isize
    }

    /// Bytes below the CFA.
    #[inline(always)]
    pub(crate) fn return_address(self) -> Option<usize> {
        Some(size_of::<usize>())
    }

    /// None: this is for machines on which the stack pointer may be unknown.
    #[inline(always)]
    pub(crate) fn frame_record(self) -> Option<usize> {
        None
    }

    /// Calls `f` with each stored register and its distance below the CFA.
    #[inline(always)]
    pub(crate) fn for_each_saved(self, mut f: impl FnMut(u16, usize)) {
        let mut bits = self.0 >> 31;
        for register in CALLEE_SAVED {
            // Compilers store the first registers first: most rules are done early.
            if bits == 0 {
                return;
            }
            let slot = (bits & ((1 << SAVED_BITS) - 1)) as usize;
            if slot != 0 {
                f(register, (slot + 1) * size_of::<usize>());
            }
            bits >>= SAVED_BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cfa, RuleKind};
    use super::*;

    fn every_other() -> [Option<i64>; CALLEE_SAVED.len()] {
        core::array::from_fn(|i| {
            (i % 2 == 0).then_some(if i == 2 { -32 * WORD } else { -(i as i64 + 2) * WORD })
        })
    }

    #[test]
    fn encodes_and_decodes_a_row() {
        let saved = every_other();
        for (cfa, register, offset) in
            [(Cfa::Sum, 7, 8), (Cfa::Stored, 6, -8), (Cfa::Sum, 10, 2_097_151), (Cfa::Sum, 7, -2_097_152)]
        {
            let row = Row { cfa, register, offset, saved, ..Row::at_entry(0) };
            let rule = Rule::compact(&row).unwrap();
            let rule = Rule::from_bits(rule.bits()).unwrap();
            assert_eq!(rule.kind(), RuleKind::Compact(cfa));
            assert_eq!((rule.register(), rule.offset() as i64), (register, offset));
            assert_eq!(rule.return_address(), Some(size_of::<usize>()));
            let expected = CALLEE_SAVED.into_iter().zip(saved);
            let expected = expected.filter_map(|(register, offset)| Some((register, -offset? as usize)));
            let mut stored = Vec::new();
            rule.for_each_saved(|register, below| stored.push((register, below)));
            assert_eq!(stored, expected.collect::<Vec<_>>());
            assert!(stored.contains(&(CALLEE_SAVED[2], 32 * WORD as usize)));
            assert_eq!(rule.is_plain(), cfa == Cfa::Sum && register == STACK_POINTER);
        }
    }

    #[test]
    fn refuses_rows_that_do_not_fit() {
        let refused = |row: Row| Rule::compact(&row).is_none();
        let fits = Row::at_entry(8);
        assert!(!refused(fits));
        assert!(refused(Row { register: 32, ..fits }));
        assert!(refused(Row { offset: 1 << 21, ..fits }));
        assert!(refused(Row { return_address: Some(-2 * WORD), ..fits }));
        assert!(refused(Row { return_address: None, ..fits }));
        for offset in [-WORD, -WORD - 1, -33 * WORD, 0, 2 * WORD, i64::MIN] {
            let mut saved = fits.saved;
            saved[0] = Some(offset);
            assert!(refused(Row { saved, ..fits }), "{offset}");
        }
    }
}
