//! The rules of all PCs met so far: lock-free, shared by all threads.
//!
//! Who writes: a handler that missed. Who reads: handlers. Who clears: ordinary context, before an object is
//! unloaded, while the gate (`objects.rs`) keeps handlers from adding.
//!
//! An entry is two words, four entries are a cache line, and a PC can stand in one line only.
//!
//! | key word | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | 1 |
//! | 1 | its writer is storing the rule | the PC, or 0 |
//! | PC | the other word is the PC's rule | 1 (replaced), 0 (cleared) |
//!
//! A reader reads key, rule, key. When both keys are the PC, the rule is one that was stored for that PC: between
//! two different owners the key is 1, and the rule is stored after the 1 and before the next PC. Should the key
//! have left and come back meanwhile, then for the same PC, whose rule is the same as long as its object is loaded.
//!
//! When a line is full, one of its entries gives way. A writer that loses a race drops its rule: the next one to
//! meet the PC computes it again. In a forked child an entry may stay at 1 whose writer does not exist there: it is out
//! of use, which is cheaper than to look for it at every fork.

use super::rule::Rule;
use crate::sync::{
    Ordering,
    modelled::{AtomicU64, AtomicUsize},
};

const WAYS: usize = 4;
const BUSY: u64 = 1;

/// One rule, see the module.
pub(crate) struct RuleEntry {
    key: AtomicU64,
    rule: AtomicU64,
}

/// The entries that a PC can stand in.
#[repr(align(64))]
pub(crate) struct RuleLine([RuleEntry; WAYS]);

#[cfg(test)]
impl RuleLine {
    /// A line without rules.
    pub(crate) fn empty() -> Self {
        Self(core::array::from_fn(|_| RuleEntry { key: AtomicU64::new(0), rule: AtomicU64::new(0) }))
    }
}

/// See the module. `L` gives the lines; their number is a power of two.
pub(crate) struct RuleCache<L> {
    lines: L,
    /// How many times rules were forgotten.
    generation: AtomicUsize,
}

impl<L: AsRef<[RuleLine]>> RuleCache<L> {
    /// A cache in zeroed lines.
    pub(crate) fn new(lines: L) -> Self {
        Self { lines, generation: AtomicUsize::new(0) }
    }

    /// Changes whenever rules are forgotten: a rule that was found here holds on while this is the same. Signal-safe.
    #[inline]
    pub(crate) fn generation(&self) -> usize {
        // Acquire: who sees the new generation does not find what was forgotten.
        self.generation.load(Ordering::Acquire)
    }

    /// The rule of `pc`, if it is here. Signal-safe.
    #[inline]
    pub(crate) fn get(&self, pc: usize) -> Option<Rule> {
        for RuleEntry { key, rule } in &self.line(pc)?.0 {
            // Acquire: pairs with the release of the PC in `insert`, so that its rule is seen.
            if key.load(Ordering::Acquire) != pc as u64 {
                continue;
            }
            // Acquire: the second look at the key stays behind this load, and when this load sees a later
            // owner's rule it sees, through the release of that rule, the 1 that was stored before it.
            let bits = rule.load(Ordering::Acquire);
            if key.load(Ordering::Relaxed) == pc as u64 {
                return Rule::from_bits(bits);
            }
        }
        None
    }

    /// Stores the rule of `pc`, or drops it when another handler is faster. Signal-safe.
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
        // Bits that did not choose the line choose who gives way.
        let victim = (pc >> 3 ^ pc >> 17) % WAYS;
        let chosen = chosen.or_else(|| {
            let RuleEntry { key, rule } = line.get(victim)?;
            Some((key, rule, key.load(Ordering::Relaxed)))
        });
        let Some((key, rule, owner)) = chosen.filter(|&(_, _, owner)| owner != BUSY) else { return };
        // Acquire: the rule is stored behind the claim. Relaxed on failure: we give up.
        if key.compare_exchange(owner, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // Release: whoever sees this rule also sees that the key had become 1.
            rule.store(new.bits(), Ordering::Release);
            // Release: pairs with the acquire of the key in `get`.
            key.store(pc as u64, Ordering::Release);
        }
    }

    /// Forgets the PCs that `keep` refuses. For ordinary context, while no handler inserts; handlers may read.
    pub(crate) fn retain(&self, keep: &dyn Fn(usize) -> bool) {
        for RuleEntry { key, .. } in self.lines.as_ref().iter().flat_map(|line| &line.0) {
            let owner = key.load(Ordering::Relaxed);
            if owner > BUSY && !keep(owner as usize) {
                // By exchange: a handler may be replacing this entry with a rule that is kept. Release: the object
                // is unloaded after this, and its address may get another rule.
                let _ = key.compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed);
            }
        }
        // Behind all of them, with release: partner of the acquire in `generation`.
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
    fn what_was_inserted_is_found_until_its_place_is_needed() {
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
    fn what_is_not_kept_is_gone() {
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

    /// Writers fight for one line with different PCs; a reader never gets one PC's rule for another's.
    #[cfg(loom)]
    #[test]
    fn loom_a_rule_is_never_taken_for_another_pc() {
        use loom::{sync::Arc, thread};
        loom::model(|| {
            let cache = Arc::new(cache(1));
            // Fill the line, so that the two writers replace.
            for pc in 0..WAYS {
                cache.insert(0x1000 + pc, rule(1));
            }
            // Both give way at the same place.
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
