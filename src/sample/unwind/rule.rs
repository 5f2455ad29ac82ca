//! One word that says how to step from a frame to its caller.
//!
//! Nearly all rows of call frame information that compilers emit for x86-64 fit: the canonical frame address (CFA,
//! the stack pointer before the call) is a register plus a constant, or what is stored there; the return address
//! stands right below the CFA; each callee-saved register is unchanged or stands in one of the 31 words below.
//!
//! ```text
//! bit   0..4   kind      0 is no rule at all, so that a zeroed cache is empty
//!       4..9   register  DWARF number of the CFA's base
//!       9..31  offset    added to the base, signed
//!      31..61  saved     five bits for each callee-saved register: 0 unchanged, n stored at CFA - 8 (n + 1)
//! ```

use crate::sys::arch::{CALLEE_SAVED, STACK_POINTER};

const WORD: i64 = size_of::<usize>() as i64;
const OFFSET_BITS: u32 = 22;
const SAVED_BITS: u32 = 5;

/// How the CFA comes from its base register plus the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// It is the sum itself.
    Sum,
    /// It is the word stored at the sum: a realigned stack.
    Stored,
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule(u64);

/// What a rule says, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// The common case, in the word's other fields.
    Compact(Cfa),
    /// The outermost frame: the return address is undefined.
    Outermost,
    /// A row that does not fit: the call frame information has to be evaluated each time.
    Evaluate,
    /// There is no call frame information for this PC.
    Unknown,
    /// There is none, and the code returns from a signal handler.
    SignalReturn,
}

impl Rule {
    /// As it is at a function's first instruction: nothing on the stack but the return address.
    pub(crate) const ENTRY: Self = Self(1 | (STACK_POINTER as u64) << 4 | (WORD as u64) << 9);
    pub(crate) const OUTERMOST: Self = Self(3);
    pub(crate) const EVALUATE: Self = Self(4);
    pub(crate) const UNKNOWN: Self = Self(5);
    pub(crate) const SIGNAL_RETURN: Self = Self(6);

    /// A compact rule, or None where a field does not fit. `saved` holds, in the order of [`CALLEE_SAVED`], the
    /// offset from the CFA where each register is stored, or None for a register that is unchanged.
    pub(crate) fn compact(
        cfa: Cfa,
        register: u16,
        offset: i64,
        saved: [Option<i64>; CALLEE_SAVED.len()],
    ) -> Option<Self> {
        let limit = 1i64 << (OFFSET_BITS - 1);
        if register >= 32 || !(-limit..limit).contains(&offset) {
            return None;
        }
        let kind = match cfa {
            Cfa::Sum => 1,
            Cfa::Stored => 2,
        };
        let offset = offset as u64 & ((1 << OFFSET_BITS) - 1);
        let mut bits = kind | u64::from(register) << 4 | offset << 9;
        for (place, offset) in saved.into_iter().enumerate() {
            let Some(offset) = offset else { continue };
            let slot = offset.checked_neg()? / WORD - 1;
            if offset % WORD != 0 || !(1..1 << SAVED_BITS).contains(&slot) {
                return None;
            }
            bits |= (slot as u64) << (31 + SAVED_BITS * place as u32);
        }
        Some(Self(bits))
    }

    /// None for the zero word, which is no rule.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits != 0).then_some(Self(bits))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn kind(self) -> RuleKind {
        match self.0 & 15 {
            1 => RuleKind::Compact(Cfa::Sum),
            2 => RuleKind::Compact(Cfa::Stored),
            3 => RuleKind::Outermost,
            4 => RuleKind::Evaluate,
            6 => RuleKind::SignalReturn,
            _ => RuleKind::Unknown,
        }
    }

    /// True for the commonest rule: the CFA is the stack pointer plus a constant.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & 0x1ff == 1 | (STACK_POINTER as u64) << 4
    }

    /// DWARF number of the CFA's base.
    #[inline]
    pub(crate) fn register(self) -> u16 {
        (self.0 >> 4 & 31) as u16
    }

    #[inline]
    pub(crate) fn offset(self) -> isize {
        ((self.0 << (64 - 9 - OFFSET_BITS)) as i64 >> (64 - OFFSET_BITS)) as isize
    }

    /// Calls `f` with each register that is stored, and how far below the CFA.
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
    use super::*;

    #[test]
    fn a_compact_rule_says_what_it_was_made_of() {
        let saved = [Some(-16), None, Some(-256), Some(-24), None, Some(-32)];
        for (cfa, register, offset) in
            [(Cfa::Sum, 7, 8), (Cfa::Stored, 6, -8), (Cfa::Sum, 10, 2_097_151), (Cfa::Sum, 7, -2_097_152)]
        {
            let rule = Rule::compact(cfa, register, offset, saved).unwrap();
            let rule = Rule::from_bits(rule.bits()).unwrap();
            assert_eq!(rule.kind(), RuleKind::Compact(cfa));
            assert_eq!((rule.register(), rule.offset() as i64), (register, offset));
            assert_eq!(rule.is_plain(), cfa == Cfa::Sum && register == STACK_POINTER);
            let mut stored = Vec::new();
            rule.for_each_saved(|register, below| stored.push((register, below)));
            assert_eq!(stored, [(3, 16), (12, 256), (13, 24), (15, 32)]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let none = [None; 6];
        assert!(Rule::compact(Cfa::Sum, 32, 8, none).is_none());
        assert!(Rule::compact(Cfa::Sum, 7, 1 << 21, none).is_none());
        for offset in [-8, -12, -264, 0, 16, i64::MIN] {
            assert!(
                Rule::compact(Cfa::Sum, 7, 8, [Some(offset), None, None, None, None, None]).is_none(),
                "{offset}"
            );
        }
    }

    #[test]
    fn the_other_kinds_are_told_apart() {
        assert!(Rule::compact(Cfa::Sum, STACK_POINTER, WORD, [None; 6]) == Some(Rule::ENTRY));
        assert_eq!(Rule::OUTERMOST.kind(), RuleKind::Outermost);
        assert_eq!(Rule::EVALUATE.kind(), RuleKind::Evaluate);
        assert_eq!(Rule::UNKNOWN.kind(), RuleKind::Unknown);
        assert_eq!(Rule::SIGNAL_RETURN.kind(), RuleKind::SignalReturn);
        assert!(Rule::from_bits(0).is_none());
    }
}
