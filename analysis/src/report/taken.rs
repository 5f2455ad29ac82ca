//! What a line, an instruction or a function takes: the sums of reports that go through the samples once.

/// Sums of the values of samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// What it takes itself.
    pub(super) flat: i64,
    /// What it takes with all that it calls.
    pub(super) cum: i64,
    /// The last sample that added to `cum`, from 1.
    seen: usize,
}

impl Taken {
    /// A sample goes through it, and ends in it where `is_innermost`; `number` counts the samples from 1. One that goes through it
    /// twice, in a recursion, counts once.
    pub(super) fn add(&mut self, value: i64, number: usize, is_innermost: bool) {
        if self.seen != number {
            self.seen = number;
            self.cum = self.cum.saturating_add(value);
        }
        if is_innermost {
            self.flat = self.flat.saturating_add(value);
        }
    }

    /// True where a sample went through it, whatever its value.
    pub(super) fn is_met(&self) -> bool {
        self.seen != 0
    }
}
