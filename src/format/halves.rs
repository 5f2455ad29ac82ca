//! How a table's two halves stand, in one word: a handler that changes it, and a reader of the spool of a process that
//! was killed at that very moment, see the state before or the one after.
//!
//! ```text
//! | moved: 36 bits | other: 27 bits | half in use: 1 bit |
//! ```
//!
//! The records of the half that is not in use are moved to a file, one slice after another. Those before the place in
//! `other` are in the file, among its first `moved` words; those from there on are not.

/// The state of a table's halves. All zeros is the state of a table in which nothing was moved yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    /// The half that records are added to: 0 or 1.
    pub(crate) active: usize,
    pub(crate) other: Other,
    /// Words of records in the file.
    pub(crate) moved: u64,
}

/// The half that is not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Its records from this word on, counted from the half's own start, are nowhere else.
    Records(usize),
    /// All of its records are in the file, and their words are being set to zero.
    Clearing,
    /// It is empty, and can be put to use.
    Clean,
}

const OTHER_BITS: u32 = 27;
const MOVED_BITS: u32 = 64 - 1 - OTHER_BITS;
const CLEAN: u64 = (1 << OTHER_BITS) - 1;
const CLEARING: u64 = CLEAN - 1;

/// The longest half, in words.
pub(crate) const MOST_HALF_WORDS: usize = CLEARING as usize - 1;
/// The most words that can be moved: with those of 8 bytes, half a terabyte.
pub(crate) const MOST_MOVED_WORDS: u64 = (1 << MOVED_BITS) - 1;

impl Stand {
    /// Of a table whose second half waits, empty.
    pub(crate) const START: Self = Self { active: 0, other: Other::Clean, moved: 0 };

    pub(crate) fn from_word(word: u64) -> Self {
        Self {
            active: (word & 1) as usize,
            other: match word >> 1 & CLEAN {
                CLEAN => Other::Clean,
                CLEARING => Other::Clearing,
                place => Other::Records(place as usize),
            },
            moved: word >> (1 + OTHER_BITS),
        }
    }

    pub(crate) fn word(self) -> u64 {
        let other = match self.other {
            Other::Clean => CLEAN,
            Other::Clearing => CLEARING,
            Other::Records(place) => (place as u64).min(MOST_HALF_WORDS as u64),
        };
        self.active as u64 & 1 | other << 1 | self.moved.min(MOST_MOVED_WORDS) << (1 + OTHER_BITS)
    }

    /// From which word on `half` holds records that are nowhere else; None where it holds none.
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
    fn a_state_comes_back_from_its_word() {
        let others = [0, 1, 12_345, MOST_HALF_WORDS].map(Other::Records).into_iter();
        for other in others.chain([Other::Clearing, Other::Clean]) {
            for active in [0, 1] {
                for moved in [0, 1, 99_999_999, MOST_MOVED_WORDS] {
                    let stand = Stand { active, other, moved };
                    assert_eq!(Stand::from_word(stand.word()), stand);
                }
            }
        }
    }

    #[test]
    fn zeros_are_a_table_that_has_moved_nothing() {
        let stand = Stand::from_word(0);
        assert_eq!(stand, Stand { active: 0, other: Other::Records(0), moved: 0 });
        assert_eq!((stand.records_from(0), stand.records_from(1)), (Some(0), Some(0)));
    }
}
