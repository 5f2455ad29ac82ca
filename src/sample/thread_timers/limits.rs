//! Limits of the number of per-thread timers, and of the rate of new ones.

use crate::{
    sync::{AtomicU32, AtomicU64, Ordering},
    sys::errno,
};

/// A share of something limited for the process or the user.
pub(super) struct Quota {
    most: AtomicU32,
    used: AtomicU32,
}

impl Quota {
    pub(super) const fn none() -> Self {
        Self { most: AtomicU32::new(0), used: AtomicU32::new(0) }
    }

    /// Allows `limit / parts`. None means unlimited.
    pub(super) fn allow(&self, limit: Option<usize>, parts: usize) {
        let most = limit.and_then(|limit| u32::try_from(limit / parts).ok()).unwrap_or(u32::MAX / 2);
        self.most.store(most, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> Result<(), i32> {
        if self.used.fetch_add(1, Ordering::Relaxed) < self.most.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.restore();
        Err(errno::EAGAIN)
    }

    pub(super) fn restore(&self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn reset(&self) {
        self.used.store(0, Ordering::Relaxed);
    }
}

/// A rate of one in each [`PAUSE`](Self::PAUSE), and [`BURST`](Self::BURST) more after a rest.
pub(super) struct Rate {
    /// Monotonic clock when the next is due, if they come evenly.
    next: AtomicU64,
}

impl Rate {
    /// Nanoseconds.
    const PAUSE: u64 = 10_000_000;
    const BURST: u64 = 100;

    pub(super) const fn rested() -> Self {
        Self { next: AtomicU64::new(0) }
    }

    pub(super) fn allows(&self, now: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed).max(now.saturating_sub(Self::BURST * Self::PAUSE));
        if next > now {
            return false;
        }
        // Relaxed, without exchange: two concurrent calls may count as one.
        self.next.store(next + Self::PAUSE, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_a_part_of_the_limit_and_can_be_restored() {
        let quota = Quota::none();
        assert_eq!(quota.take(), Err(errno::EAGAIN));
        quota.allow(Some(17), 8);
        assert_eq!([quota.take(), quota.take(), quota.take()], [Ok(()), Ok(()), Err(errno::EAGAIN)]);
        quota.restore();
        assert_eq!([quota.take(), quota.take()], [Ok(()), Err(errno::EAGAIN)]);
        quota.reset();
        quota.allow(None, 8);
        assert!((0..10_000).all(|_| quota.take().is_ok()));
    }

    #[test]
    fn rate_allows_a_burst_and_then_one_in_each_pause() {
        let rate = Rate::rested();
        let start = 1_000_000_000_000;
        assert_eq!((0..1000).filter(|_| rate.allows(start)).count(), Rate::BURST as usize + 1);
        let steps = (1..=1000).filter(|step| rate.allows(start + step * Rate::PAUSE / 10));
        assert_eq!(steps.count(), 100);
        let rested = start + 1000 * Rate::PAUSE;
        assert_eq!((0..1000).filter(|_| rate.allows(rested)).count(), Rate::BURST as usize + 1);
    }
}
