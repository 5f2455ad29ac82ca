//! A lock-free cache of rules by PC. Handlers read it, and insert after a miss. Ordinary context
//! drops entries before it unloads a DSO, while the gate (`objects.rs`) keeps handlers from
//! inserting rules of such DSOs. An entry is two words; four are a cache line, the only one in
//! which a PC can be.
//!
//! | key word | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | 1 |
//! | 1 | its writer is storing the rule | the PC |
//! | PC | the other word is the PC's rule | 1 (replaced), 0 (dropped) |
//!
//! A reader reads key, rule, key. If both keys are the PC, the rule is for that PC: between two
//! owners the key is 1, and the rule is stored after the 1 and before the next PC. A key that
//! changed back has the same rule while its DSO is loaded.
//!
//! A writer that loses a race drops its rule. In a forked child an entry may stay at 1, unused.

use super::rule::Rule;
use crate::sync::{
    Ordering,
    modelled::{AtomicU64, AtomicUsize},
};

const WAYS: usize = 4;
const BUSY: u64 = 1;

pub(crate) struct RuleEntry {
    key: AtomicU64,
    rule: AtomicU64,
}

#[repr(align(64))]
pub(crate) struct RuleLine([RuleEntry; WAYS]);

#[cfg(test)]
impl RuleLine {
    pub(crate) fn empty() -> Self {
        Self(core::array::from_fn(|_| RuleEntry { key: AtomicU64::new(0), rule: AtomicU64::new(0) }))
    }
}

/// `L` has the lines; their number is a power of two.
pub(crate) struct RuleCache<L> {
    lines: L,
    /// Incremented when rules are dropped.
    generation: AtomicUsize,
}

impl<L: AsRef<[RuleLine]>> RuleCache<L> {
    /// `lines` must be zeroed.
    pub(crate) fn new(lines: L) -> Self {
        Self { lines, generation: AtomicUsize::new(0) }
    }

    /// A found rule stays valid while this is unchanged. Signal-safe.
    #[inline]
    pub(crate) fn generation(&self) -> usize {
        // Acquire: pairs with the release in `retain`; dropped rules are not found.
        self.generation.load(Ordering::Acquire)
    }

    /// Signal-safe.
    #[inline]
    pub(crate) fn get(&self, pc: usize) -> Option<Rule> {
        for RuleEntry { key, rule } in &self.line(pc)?.0 {
            // Acquire: pairs with the release of the PC in `insert`, so that its rule is visible.
            if key.load(Ordering::Acquire) != pc as u64 {
                continue;
            }
            // Acquire: the second load of the key stays after this. A later owner's rule was
            // released after the 1, which is then visible.
            let bits = rule.load(Ordering::Acquire);
            if key.load(Ordering::Relaxed) == pc as u64 {
                return Rule::from_bits(bits);
            }
        }
        None
    }

    /// Stores the rule of `pc`, or drops it if another handler is faster. Signal-safe.
    pub(crate) fn insert(&self, pc: usize, new: Rule) {
        let Some(RuleLine(line)) = self.line(pc) else { return };
        let mut chosen = None;
        for RuleEntry { key, rule } in line {
            let owner = key.load(Ordering::Relaxed);
            if owner == pc as u64 {
                return;
            }
            if owner == 0 {
                chosen = Some((key, rule, owner));
                break;
            }
        }
        // Other bits than those that chose the line choose the replaced entry.
        let victim = (pc >> 3 ^ pc >> 17) % WAYS;
        let chosen = chosen.or_else(|| {
            let RuleEntry { key, rule } = line.get(victim)?;
            Some((key, rule, key.load(Ordering::Relaxed)))
        });
        let Some((key, rule, owner)) = chosen.filter(|&(_, _, owner)| owner != BUSY) else { return };
        // Acquire: the rule is stored after the claim. Relaxed on failure: we give up.
        if key.compare_exchange(owner, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // Release: a reader of this rule also sees that the key was 1.
            rule.store(new.bits(), Ordering::Release);
            // Release: pairs with the acquire of the key in `get`.
            key.store(pc as u64, Ordering::Release);
        }
    }

    /// Drops the PCs that `keep` refuses. For ordinary context. Handlers
    /// may read, and insert rules of permanent DSOs.
    pub(crate) fn retain(&self, keep: &dyn Fn(usize) -> bool) {
        for RuleEntry { key, .. } in self.lines.as_ref().iter().flat_map(|line| &line.0) {
            let owner = key.load(Ordering::Relaxed);
            if owner > BUSY && !keep(owner as usize) {
                // Exchange: a handler may be replacing this entry. Release: the DSO is unloaded
                // later, and its address may get another rule.
                let _ = key.compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed);
            }
        }
        // Release, after all drops: pairs with the acquire in `generation`.
        self.generation.fetch_add(1, Ordering::Release);
    }

    #[inline]
    fn line(&self, pc: usize) -> Option<&RuleLine> {
        let lines = self.lines.as_ref();
        let spread = (pc as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        lines.get(spread as usize & lines.len().wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Row;
    use super::*;

    fn rule(offset: i64) -> Rule {
        Rule::compact(&Row::at_entry(offset * 8)).unwrap()
    }

    fn cache(lines: usize) -> RuleCache<Vec<RuleLine>> {
        RuleCache::new((0..lines).map(|_| RuleLine::empty()).collect())
    }

    #[cfg(not(loom))]
    #[test]
    fn returns_rules_until_they_are_replaced() {
        let cache = cache(64);
        for pc in 0x1000..0x1100 {
            cache.insert(pc, rule(pc as i64));
            assert!(cache.get(pc).is_some_and(|found| found == rule(pc as i64)));
        }
        let found = (0x1000..0x1100).filter(|&pc| cache.get(pc).is_some()).count();
        assert!(found > 128, "{found} of 256 in 256 places");
        for pc in 0x1000..0x1100 {
            assert!(cache.get(pc).is_none_or(|found| found == rule(pc as i64)));
        }
        assert!(cache.get(0x2000).is_none());
    }

    #[cfg(not(loom))]
    #[test]
    fn drops_rules_that_are_not_retained() {
        let cache = cache(64);
        for pc in 0x1000..0x1040 {
            cache.insert(pc, rule(1));
        }
        let generation = cache.generation();
        cache.retain(&|pc| pc % 2 == 0);
        assert_ne!(cache.generation(), generation);
        assert!((0x1000..0x1040).all(|pc| pc % 2 == 0 || cache.get(pc).is_none()));
        assert!((0x1000..0x1040).any(|pc| cache.get(pc).is_some()));
    }

    /// A reader never gets the rule of another PC from a contended line.
    #[cfg(loom)]
    #[test]
    fn loom_returns_no_rule_of_another_pc() {
        use loom::{sync::Arc, thread};
        loom::model(|| {
            let cache = Arc::new(cache(1));
            for pc in 0..WAYS {
                cache.insert(0x1000 + pc, rule(1));
            }
            // Both writers replace the same entry.
            let (first, second) = (0x2000, 0x2000 + (1 << 20));
            let writers: Vec<_> = [(first, 2), (second, 3)]
                .into_iter()
                .map(|(pc, offset)| {
                    let cache = Arc::clone(&cache);
                    thread::spawn(move || cache.insert(pc, rule(offset)))
                })
                .collect();
            assert!(cache.get(first).is_none_or(|found| found == rule(2)));
            assert!(cache.get(second).is_none_or(|found| found == rule(3)));
            for writer in writers {
                writer.join().unwrap();
            }
            assert!(cache.get(first).is_none_or(|found| found == rule(2)));
        });
    }
}
