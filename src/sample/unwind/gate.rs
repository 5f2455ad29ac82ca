//! The gate between handlers, which read what the loader has mapped, and whoever unloads objects.
//!
//! A handler enters before it looks anything up in an object that may be unloaded. Whoever unloads closes the gate,
//! waits until nobody is inside, has what is known of such objects forgotten, unloads, and opens the gate again. A
//! handler that finds the gate closed does not wait: it is told so.
//!
//! | | handler | unloader |
//! | --- | --- | --- |
//! | 1 | inside += 1 | closed += 1 |
//! | 2 | fence | fence |
//! | 3 | reads closed | reads inside, until it is 0 |
//!
//! Both sides write before they read, with a sequentially consistent fence between, so at least one sees the other.
//! Several may unload at once; the gate is open when `closed` is 0.

use crate::sync::{
    Ordering,
    modelled::{AtomicBool, AtomicUsize, fence},
};

/// See the module.
pub(crate) struct Gate {
    /// Set before the first handler is inside, and never reset: only then is there anything to forget.
    was_entered: AtomicBool,
    closed: AtomicUsize,
    inside: AtomicUsize,
}

impl Gate {
    /// An open gate that nobody has entered.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { was_entered: AtomicBool::new(false), closed: AtomicUsize::new(0), inside: AtomicUsize::new(0) }
    }

    /// The same; loom's atomics are not made at compile time.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { was_entered: AtomicBool::new(false), closed: AtomicUsize::new(0), inside: AtomicUsize::new(0) }
    }

    /// Enters; None while objects are being unloaded. Signal-safe: some atomic operations.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        // Relaxed: whoever needs it sees it through `inside`, which falls back to 0 with release.
        if !self.was_entered.load(Ordering::Relaxed) {
            self.was_entered.store(true, Ordering::Relaxed);
        }
        // Relaxed: the fence orders it.
        self.inside.fetch_add(1, Ordering::Relaxed);
        let inside = Inside { gate: self };
        // Partner of the fence in `close`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release of whoever opened the gate; the objects are as that one left them.
        (self.closed.load(Ordering::Acquire) == 0).then_some(inside)
    }

    /// Runs `unload` while nobody is inside; before that `forget`, if anybody ever was. `wait` is called again and
    /// again while somebody is inside; where it returns false, neither is run and
    /// there is no result. For ordinary context.
    pub(crate) fn unload<R>(
        &self,
        mut wait: impl FnMut() -> bool,
        forget: impl FnOnce(),
        unload: impl FnOnce() -> R,
    ) -> Option<R> {
        let _closed = self.close();
        // Acquire: pairs with the release of whoever left, whose reads are done then.
        while self.inside.load(Ordering::Acquire) != 0 {
            if !wait() {
                return None;
            }
        }
        // Behind the wait: a handler that comes first from now on finds the gate closed.
        if self.was_entered.load(Ordering::Relaxed) {
            forget();
        }
        Some(unload())
    }

    fn close(&self) -> Closed<'_> {
        // Relaxed: the fence orders it.
        self.closed.fetch_add(1, Ordering::Relaxed);
        let closed = Closed { gate: self };
        // Partner of the fence in `enter`.
        fence(Ordering::SeqCst);
        closed
    }

    /// In a forked child: the threads that were inside, or unloading, do not exist here.
    pub(crate) fn reset(&self) {
        self.inside.store(0, Ordering::SeqCst);
        self.closed.store(0, Ordering::SeqCst);
    }
}

/// A handler's stay inside the gate.
pub(crate) struct Inside<'g> {
    gate: &'g Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: the unloader that sees the count fall also sees our reads done.
        self.gate.inside.fetch_sub(1, Ordering::Release);
    }
}

/// Opens the gate when dropped.
struct Closed<'g> {
    gate: &'g Gate,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // Release: partner of the acquire in `enter`. Not below zero: in a forked child the gate was opened already.
        let _ = self
            .gate
            .closed
            .fetch_update(Ordering::Release, Ordering::Relaxed, |closed| closed.checked_sub(1));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_waits_for_who_is_inside() {
        let gate = Gate::new();
        let inside = gate.enter().unwrap();
        std::thread::scope(|scope| {
            let unloader = scope.spawn(|| {
                let wait = || {
                    std::thread::yield_now();
                    true
                };
                gate.unload(wait, || (), || assert!(gate.enter().is_none()))
            });
            while gate.enter().is_some() {
                std::thread::yield_now();
            }
            assert!(!unloader.is_finished());
            drop(inside);
            assert_eq!(unloader.join().unwrap(), Some(()));
        });
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_gate_that_is_not_left_is_opened_again() {
        let gate = Gate::new();
        let inside = gate.enter().unwrap();
        let rounds = Cell::new(0);
        let wait = || {
            rounds.set(rounds.get() + 1);
            rounds.get() < 10
        };
        assert_eq!(gate.unload(wait, || panic!("forgets"), || panic!("unloads")), None::<()>);
        assert_eq!(rounds.get(), 10);
        assert!(gate.enter().is_some());
        drop(inside);
    }

    #[test]
    fn nothing_is_forgotten_before_the_first_entry() {
        let gate = Gate::new();
        let forgotten = Cell::new(0);
        let count = || forgotten.set(forgotten.get() + 1);
        gate.unload(|| false, count, || ()).unwrap();
        assert_eq!(forgotten.get(), 0);
        drop(gate.enter());
        gate.unload(|| false, count, || ()).unwrap();
        assert_eq!(forgotten.get(), 1);
    }
}

/// Each of these fails without either fence; with a relaxed order where a comment above names acquire or release;
/// with `was_entered` read before the wait; and the second one without `forget`.
///
/// # Safety
/// Access to loom's cells, which check that it is ordered: a model that does it otherwise fails.
#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_models {
    use super::super::{
        rule::{Row, Rule},
        rule_cache::{RuleCache, RuleLine},
    };
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    /// What is loaded at one address, by number. loom reports a read that is not ordered against the change.
    struct Loaded(UnsafeCell<i64>);

    impl Loaded {
        fn read(&self) -> i64 {
            // SAFETY: loom checks that nobody writes meanwhile.
            self.0.with(|number| unsafe { *number })
        }

        fn replace(&self) {
            // SAFETY: loom checks that nobody else has access meanwhile.
            self.0.with_mut(|number| unsafe { *number += 1 });
        }
    }

    // SAFETY: as above.
    unsafe impl Sync for Loaded {}

    fn yield_now() -> bool {
        thread::yield_now();
        true
    }

    /// A handler reads an object, and no unloader changes it meanwhile.
    #[test]
    fn loom_nothing_is_unloaded_under_a_handler() {
        loom::model(|| {
            let shared = Arc::new((Gate::new(), Loaded(UnsafeCell::new(1))));
            let handler = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (gate, loaded) = &*shared;
                    gate.enter().map(|_inside| loaded.read());
                })
            };
            let (gate, loaded) = &*shared;
            gate.unload(yield_now, || (), || loaded.replace()).unwrap();
            handler.join().unwrap();
        });
    }

    /// A handler remembers the rule of what is loaded; none is left of what is not.
    #[test]
    fn loom_no_rule_of_an_unloaded_object_is_left() {
        const PC: usize = 0x1000;
        fn rule_of(object: i64) -> Rule {
            Rule::compact(&Row::at_entry(object * 8)).unwrap()
        }
        loom::model(|| {
            let rules = RuleCache::new([RuleLine::empty()]);
            let shared = Arc::new((Gate::new(), Loaded(UnsafeCell::new(1)), rules));
            let handler = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (gate, loaded, rules) = &*shared;
                    if let Some(_inside) = gate.enter() {
                        rules.insert(PC, rule_of(loaded.read()));
                    }
                })
            };
            let (gate, loaded, rules) = &*shared;
            gate.unload(yield_now, || rules.retain(&|_| false), || loaded.replace()).unwrap();
            handler.join().unwrap();
            assert!(rules.get(PC).is_none_or(|rule| rule == rule_of(2)));
        });
    }
}
