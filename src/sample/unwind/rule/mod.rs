//! One word that says how to step from a frame to its caller.
//!
//! Nearly all rows of call frame information that compilers emit fit: the canonical frame address (CFA, the stack
//! pointer before the call) is a register plus a constant, and each callee-saved register is unchanged or stands
//! somewhere below the CFA. How that is packed differs from one machine to the next (`x86.rs`, `aarch64.rs`).
//!
//! ```text
//! bit   0..4   kind      0 is no rule at all, so that a zeroed cache is empty
//!       4..64  the machine's own
//! ```

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod x86;

use crate::sys::arch::CALLEE_SAVED;
#[cfg(test)]
use crate::sys::arch::{HAS_LINK_REGISTER, STACK_POINTER};

const WORD: i64 = size_of::<usize>() as i64;

/// How the CFA comes from its base register plus the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// It is the sum itself.
    Sum,
    /// It is the word stored at the sum: a realigned stack.
    Stored,
}

impl Cfa {
    /// The rule's kind.
    fn kind_bits(self) -> u64 {
        match self {
            Self::Sum => 1,
            Self::Stored => 2,
        }
    }
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
    /// The code returns from a signal handler.
    SignalReturn,
}

/// A row that may fit a word.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) cfa: Cfa,
    /// DWARF number of the CFA's base.
    pub(crate) register: u16,
    /// What is added to the base.
    pub(crate) offset: i64,
    /// Offset from the CFA where the return address stands; None where it is still in its register.
    pub(crate) return_address: Option<i64>,
    /// The same for each callee-saved register, in the order of [`CALLEE_SAVED`]; None for one that is unchanged.
    pub(crate) saved: [Option<i64>; CALLEE_SAVED.len()],
}

impl Rule {
    pub(crate) const OUTERMOST: Self = Self(3);
    pub(crate) const EVALUATE: Self = Self(4);
    pub(crate) const UNKNOWN: Self = Self(5);
    pub(crate) const SIGNAL_RETURN: Self = Self(6);

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
}

#[cfg(test)]
impl Row {
    /// The row that holds at a function's first instruction, but for the offset.
    pub(crate) fn at_entry(offset: i64) -> Self {
        Self {
            cfa: Cfa::Sum,
            register: STACK_POINTER,
            offset,
            return_address: if HAS_LINK_REGISTER { None } else { Some(-WORD) },
            saved: [None; CALLEE_SAVED.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_kinds_are_told_apart() {
        assert_eq!(Rule::OUTERMOST.kind(), RuleKind::Outermost);
        assert_eq!(Rule::EVALUATE.kind(), RuleKind::Evaluate);
        assert!(Rule::compact(&Row::at_entry(if HAS_LINK_REGISTER { 0 } else { WORD })) == Some(Rule::ENTRY));
        assert_eq!(Rule::UNKNOWN.kind(), RuleKind::Unknown);
        assert_eq!(Rule::SIGNAL_RETURN.kind(), RuleKind::SignalReturn);
        assert!(Rule::from_bits(0).is_none());
    }
}
