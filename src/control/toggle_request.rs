//! What toggles ask for, left to whoever has the lock.
//!
//! A toggle that finds the lock taken leaves its wish to the lock's owner, who looks for one when the lock is free again:
//!
//! | | toggle | owner |
//! | --- | --- | --- |
//! | 1 | changes the wish | lets the lock go |
//! | 2 | fence | fence |
//! | 3 | looks at the wish, tries the lock | looks at the wish, tries the lock |
//!
//! Both write before they read, with a sequentially consistent fence between, so at least one sees the other. The lock's
//! own operations are ordered as a lock needs it, which is less.

use crate::sync::{
    Ordering,
    modelled::{AtomicUsize, fence},
};

/// 1 while a toggle waits to be fulfilled; two that wait cancel each other.
pub(super) struct ToggleRequest(AtomicUsize);

impl ToggleRequest {
    /// Nothing asked for.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// The same; loom's atomics are not made at compile time.
    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Asks for a toggle. Whoever does so serves behind it. Signal-safe: an atomic operation.
    pub(super) fn toggle(&self) {
        // Relaxed: the fence in `run_pending` orders it.
        self.0.fetch_xor(1, Ordering::Relaxed);
    }

    /// Fulfils what was asked for, unless somebody else holds the lock: then that one does, when it lets go, by calling this.
    /// Signal-safe if its arguments are.
    pub(super) fn run_pending<G>(&self, lock: impl Fn() -> Option<G>, switch: impl Fn(&mut G)) {
        loop {
            // The partner of each is the other side's: a wish of ours stands, a lock of ours is free, before we look.
            fence(Ordering::SeqCst);
            if self.0.load(Ordering::Relaxed) == 0 {
                return;
            }
            let Some(mut guard) = lock() else { return };
            // Relaxed: what is switched is guarded by the lock.
            if self.0.swap(0, Ordering::Relaxed) > 0 {
                switch(&mut guard);
            }
        }
    }

    /// In a forked child: what was asked of the parent.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The first fails without the fence, and where the owner does not look; the second where a wish that was taken stays.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize},
        },
        thread,
    };

    /// A lock with the orderings of `parking_lot`'s, and how often it was switched under it.
    struct World {
        wish: ToggleRequest,
        is_locked: AtomicBool,
        switched: AtomicUsize,
    }

    struct Guard<'w>(&'w World);

    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.is_locked.store(false, Ordering::Release);
        }
    }

    impl World {
        fn new() -> Arc<Self> {
            let (wish, is_locked, switched) =
                (ToggleRequest::new(), AtomicBool::new(false), AtomicUsize::new(0));
            Arc::new(Self { wish, is_locked, switched })
        }

        fn lock(&self) -> Option<Guard<'_>> {
            let is_free = !self.is_locked.load(Ordering::Relaxed)
                && self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
            is_free.then(|| Guard(self))
        }

        fn run_pending(&self) {
            // Relaxed: only who has the lock switches.
            let switch = |_: &mut Guard<'_>| {
                let switched = self.switched.load(Ordering::Relaxed);
                self.switched.store(switched + 1, Ordering::Relaxed);
            };
            self.wish.run_pending(|| self.lock(), switch);
        }

        fn toggle(&self) {
            self.wish.toggle();
            self.run_pending();
        }
    }

    /// A start or a stop has the lock, and a toggle comes: it is carried out by the one or the other, once.
    #[test]
    fn loom_a_toggle_is_carried_out_by_the_locks_owner() {
        loom::model(|| {
            let world = World::new();
            let toggle = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.toggle())
            };
            if let Some(guard) = world.lock() {
                drop(guard);
                world.run_pending();
            }
            toggle.join().unwrap();
            assert_eq!(world.switched.load(Ordering::Relaxed), 1);
        });
    }

    /// Of two toggles at once both are carried out, or neither.
    #[test]
    fn loom_two_toggles_cancel_each_other_or_are_both_carried_out() {
        loom::model(|| {
            let world = World::new();
            let toggle = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.toggle())
            };
            world.toggle();
            toggle.join().unwrap();
            assert!([0, 2].contains(&world.switched.load(Ordering::Relaxed)));
            assert!(world.lock().is_some(), "the lock is free again");
        });
    }
}
