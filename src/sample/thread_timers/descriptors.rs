//! Descriptor numbers that perf events have had, to recognise a tick that arrives after its event
//! is closed. These numbers are high; events of another profiler use the lowest.

use crate::sync::{AtomicU64, Ordering};

/// Numbers below [`LIMIT`](Self::LIMIT). None is removed.
pub(super) struct DescriptorSet([AtomicU64; Self::LIMIT / 64]);

impl DescriptorSet {
    pub(super) const LIMIT: usize = 8192;

    pub(super) const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; Self::LIMIT / 64])
    }

    pub(super) fn add(&self, descriptor: i32) -> bool {
        let Some((word, bit)) = self.place(descriptor) else { return false };
        word.fetch_or(bit, Ordering::Relaxed);
        true
    }

    pub(super) fn contains(&self, descriptor: i32) -> bool {
        self.place(descriptor).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn place(&self, descriptor: i32) -> Option<(&AtomicU64, u64)> {
        let number = usize::try_from(descriptor).ok()?;
        Some((self.0.get(number / 64)?, 1 << (number % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_the_numbers_that_were_added() {
        let set = DescriptorSet::empty();
        let last = DescriptorSet::LIMIT as i32 - 1;
        assert!([0, 3, 64, 1000, last].iter().all(|number| set.add(*number)));
        assert!([0, 3, 64, 1000, last].iter().all(|number| set.contains(*number)));
        assert!(![1, 63, 65, 1001, last + 1, i32::MAX, -1].iter().any(|number| set.contains(*number)));
        assert!(![last + 1, i32::MAX, -1].iter().any(|number| set.add(*number)));
    }
}
