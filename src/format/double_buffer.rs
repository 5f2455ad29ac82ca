//! The state of a table's two halves, in one word. A handler changes it atomically, so a reader of
//! a killed process's spool finds the state before or after the change. The records of the half
//! that is not in use are spilled slice by slice. Those before the word in `other` are in the spill
//! file, among its first `spilled` words; the others are not.
//!
//! ```text
//! | spilled: 36 bits | other: 27 bits | half in use: 1 bit |
//! ```

/// The state of a table's halves. All zeros is a table that has spilled nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferState {
    pub(crate) active: usize,
    pub(crate) other: Other,
    /// Words of records in the spill file.
    pub(crate) spilled: u64,
}

/// The half that is not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Its records from this word of the half on are not in the spill file.
    Records(usize),
    /// All of its records are in the spill file, and its words are being zeroed.
    Clearing,
    Clean,
}

const OTHER_BITS: u32 = 27;
const SPILLED_BITS: u32 = 64 - 1 - OTHER_BITS;
const CLEAN: u64 = (1 << OTHER_BITS) - 1;
const CLEARING: u64 = CLEAN - 1;

pub(crate) const MAX_HALF_WORDS: usize = CLEARING as usize - 1;
/// The most words that can be spilled: half a terabyte, in words of 8 bytes.
pub(crate) const MAX_SPILLED_WORDS: u64 = (1 << SPILLED_BITS) - 1;

impl BufferState {
    pub(crate) const START: Self = Self { active: 0, other: Other::Clean, spilled: 0 };

    pub(crate) fn from_word(word: u64) -> Self {
        Self {
            active: (word & 1) as usize,
            other: match word >> 1 & CLEAN {
                CLEAN => Other::Clean,
                CLEARING => Other::Clearing,
                place => Other::Records(place as usize),
            },
            spilled: word >> (1 + OTHER_BITS),
        }
    }

    pub(crate) fn word(self) -> u64 {
        let other = match self.other {
            Other::Clean => CLEAN,
            Other::Clearing => CLEARING,
            Other::Records(place) => (place as u64).min(MAX_HALF_WORDS as u64),
        };
        self.active as u64 & 1 | other << 1 | self.spilled.min(MAX_SPILLED_WORDS) << (1 + OTHER_BITS)
    }

    /// Returns the first word of `half` with a record that was not spilled; None if there is none.
    pub(crate) fn records_from(self, half: usize) -> Option<usize> {
        match self.other {
            _ if half == self.active => Some(0),
            Other::Records(place) => Some(place),
            Other::Clearing | Other::Clean => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_a_state_from_its_word() {
        let others = [0, 1, 12_345, MAX_HALF_WORDS].map(Other::Records).into_iter();
        for other in others.chain([Other::Clearing, Other::Clean]) {
            for active in [0, 1] {
                for spilled in [0, 1, 99_999_999, MAX_SPILLED_WORDS] {
                    let state = BufferState { active, other, spilled };
                    assert_eq!(BufferState::from_word(state.word()), state);
                }
            }
        }
    }

    #[test]
    fn decodes_zeros_as_a_table_that_has_spilled_nothing() {
        let state = BufferState::from_word(0);
        assert_eq!(state, BufferState { active: 0, other: Other::Records(0), spilled: 0 });
        assert_eq!((state.records_from(0), state.records_from(1)), (Some(0), Some(0)));
    }
}
