//! A word that encodes the step from a frame to its caller.
//!
//! Nearly all rows of compilers fit: the CFA is a register plus a constant, and each callee-saved
//! register is unchanged or stored below the CFA. `x86.rs` and `aarch64.rs` encode them.
//!
//! ```text
//! bit   0..4   kind      0 is not a rule, so a zeroed cache is empty
//!       4..64  specific to the machine
//! ```

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod x86;

use crate::sys::arch::CALLEE_SAVED;
#[cfg(test)]
use crate::sys::arch::{HAS_LINK_REGISTER, STACK_POINTER};

const WORD: i64 = size_of::<usize>() as i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// The base register plus the offset.
    Sum,
    /// The word stored there: a realigned stack.
    Stored,
}

impl Cfa {
    fn kind_bits(self) -> u64 {
        match self {
            Self::Sum => 1,
            Self::Stored => 2,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// The common case, in the other fields.
    Compact(Cfa),
    Outermost,
    /// The row does not fit: evaluate its call frame information each time.
    Evaluate,
    /// The PC has no call frame information.
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
    pub(crate) offset: i64,
    /// The return address's offset from the CFA; None if it is in its register.
    pub(crate) return_address: Option<i64>,
    /// The same for [`CALLEE_SAVED`], in that order; None if unchanged.
    pub(crate) saved: [Option<i64>; CALLEE_SAVED.len()],
}

impl Rule {
    pub(crate) const OUTERMOST: Self = Self(3);
    pub(crate) const EVALUATE: Self = Self(4);
    pub(crate) const UNKNOWN: Self = Self(5);
    pub(crate) const SIGNAL_RETURN: Self = Self(6);

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
    fn distinguishes_the_other_kinds() {
        assert_eq!(Rule::OUTERMOST.kind(), RuleKind::Outermost);
        assert_eq!(Rule::EVALUATE.kind(), RuleKind::Evaluate);
        assert!(Rule::compact(&Row::at_entry(if HAS_LINK_REGISTER { 0 } else { WORD })) == Some(Rule::ENTRY));
        assert_eq!(Rule::UNKNOWN.kind(), RuleKind::Unknown);
        assert_eq!(Rule::SIGNAL_RETURN.kind(), RuleKind::SignalReturn);
        assert!(Rule::from_bits(0).is_none());
    }
}
