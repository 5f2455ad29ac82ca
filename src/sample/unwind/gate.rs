//! A gate that keeps a DSO loaded while handlers read it; `objects.rs` has the protocol. A handler
//! that finds it closed does not wait.
//!
//! | | handler | unloader |
//! | --- | --- | --- |
//! | 1 | inside += 1 | closed += 1 |
//! | 2 | fence | fence |
//! | 3 | reads closed | reads inside, until it is 0 |
//!
//! Each side writes, passes a sequentially consistent fence and reads: at least one sees the other.
//! Several threads may unload simultaneously; the gate is open when `closed` is 0.

use crate::sync::{
    Ordering,
    modelled::{AtomicBool, AtomicUsize, fence},
};

pub(crate) struct Gate {
    /// Whether anything may be cached. Set before the first handler is inside; never reset.
    was_entered: AtomicBool,
    closed: AtomicUsize,
    inside: AtomicUsize,
}

impl Gate {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { was_entered: AtomicBool::new(false), closed: AtomicUsize::new(0), inside: AtomicUsize::new(0) }
    }

    /// loom's atomics have no const constructors.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { was_entered: AtomicBool::new(false), closed: AtomicUsize::new(0), inside: AtomicUsize::new(0) }
    }

    /// Returns None while DSOs are being unloaded. Signal-safe: atomic operations.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        // Relaxed: published by the release decrement of `inside`.
        if !self.was_entered.load(Ordering::Relaxed) {
            self.was_entered.store(true, Ordering::Relaxed);
        }
        // Relaxed: the fence orders it.
        self.inside.fetch_add(1, Ordering::Relaxed);
        let inside = Inside { gate: self };
        // Pairs with the fence in `close`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release that opens the gate; the unloader's changes are visible.
        (self.closed.load(Ordering::Acquire) == 0).then_some(inside)
    }

    /// Runs `forget`, if a handler ever entered, and `unload` while none is inside. Calls `wait`
    /// until then; if that returns false, returns None and runs neither. For ordinary context.
    pub(crate) fn unload<R>(
        &self,
        mut wait: impl FnMut() -> bool,
        forget: impl FnOnce(),
        unload: impl FnOnce() -> R,
    ) -> Option<R> {
        let _closed = self.close();
        // Acquire: pairs with the release in the drop of `Inside`; its reads are done.
        while self.inside.load(Ordering::Acquire) != 0 {
            if !wait() {
                return None;
            }
        }
        // Read after the wait: later first handlers find the gate closed.
        if self.was_entered.load(Ordering::Relaxed) {
            forget();
        }
        Some(unload())
    }

    fn close(&self) -> Closed<'_> {
        // Relaxed: the fence orders it.
        self.closed.fetch_add(1, Ordering::Relaxed);
        let closed = Closed { gate: self };
        // Pairs with the fence in `enter`.
        fence(Ordering::SeqCst);
        closed
    }

    /// In a forked child: the threads that were inside, or unloading, do not exist.
    pub(crate) fn reset(&self) {
        self.inside.store(0, Ordering::SeqCst);
        self.closed.store(0, Ordering::SeqCst);
    }
}

pub(crate) struct Inside<'g> {
    gate: &'g Gate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `unload`; our reads are done.
        self.gate.inside.fetch_sub(1, Ordering::Release);
    }
}

struct Closed<'g> {
    gate: &'g Gate,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // Release: pairs with `enter`. Not below zero: a forked child has reset the count.
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
    fn opens_the_gate_again_after_a_timeout() {
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
    fn does_not_forget_before_the_first_entry() {
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

/// Each fails without either fence, with relaxed instead of an acquire or release above, and with
/// `was_entered` read before the wait; the second also without `forget`.
///
/// # Safety
/// Accesses loom's cells, which check that accesses are ordered.
#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_models {
    use super::super::{
        rule::{Row, Rule},
        rule_cache::{RuleCache, RuleLine},
    };
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    /// The number of the DSO at one address.
    struct Loaded(UnsafeCell<i64>);

    impl Loaded {
        fn read(&self) -> i64 {
            // SAFETY: loom checks that there is no concurrent write.
            self.0.with(|number| unsafe { *number })
        }

        fn replace(&self) {
            // SAFETY: loom checks that there is no concurrent access.
            self.0.with_mut(|number| unsafe { *number += 1 });
        }
    }

    // SAFETY: as above.
    unsafe impl Sync for Loaded {}

    fn yield_now() -> bool {
        thread::yield_now();
        true
    }

    #[test]
    fn loom_unloads_nothing_that_a_handler_reads() {
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

    #[test]
    fn loom_drops_the_rules_of_an_unloaded_object() {
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
