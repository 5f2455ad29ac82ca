//! Sums of a line, instruction or function.

/// Sums of the values of samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub(super) flat: i64,
    /// Value with callees.
    pub(super) cum: i64,
    /// Number of the last sample added to `cum`, from 1.
    seen: usize,
}

impl Taken {
    /// Adds a sample, also to `flat` if `is_innermost`. `number` counts samples from 1.
    pub(super) fn add(&mut self, value: i64, number: usize, is_innermost: bool) {
        if self.seen != number {
            self.seen = number;
            self.cum = self.cum.saturating_add(value);
        }
        if is_innermost {
            self.flat = self.flat.saturating_add(value);
        }
    }

    /// True if a sample was added, whatever its value.
    pub(super) fn has_samples(&self) -> bool {
        self.seen != 0
    }
}
