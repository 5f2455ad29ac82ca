//! Toggle requests that the owner of the control lock runs, if the toggle finds it taken.
//!
//! | | toggle | owner |
//! | --- | --- | --- |
//! | 1 | changes the request | releases the lock |
//! | 2 | fence | fence |
//! | 3 | reads the request, tries the lock | reads the request, tries the lock |
//!
//! Both write before a sequentially consistent fence and read after it, so at least one sees the
//! other's write. The lock's own operations are only acquire and release.

use crate::sync::{
    Ordering,
    modelled::{AtomicUsize, fence},
};

/// 1 if a request is pending. Two cancel each other.
pub(super) struct ToggleRequest(AtomicUsize);

impl ToggleRequest {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Requests a toggle; `run_pending` must follow. Signal-safe: one atomic operation.
    pub(super) fn toggle(&self) {
        // Relaxed: ordered by the fence in `run_pending`.
        self.0.fetch_xor(1, Ordering::Relaxed);
    }

    /// Runs pending requests, or leaves them to the lock's owner. Signal-safe if the arguments are.
    pub(super) fn run_pending<G>(&self, lock: impl Fn() -> Option<G>, switch: impl Fn(&mut G)) {
        loop {
            // Pairs with the other thread's: writes before it are visible to reads after that.
            fence(Ordering::SeqCst);
            if self.0.load(Ordering::Relaxed) == 0 {
                return;
            }
            let Some(mut guard) = lock() else { return };
            // Relaxed: the lock guards the session.
            if self.0.swap(0, Ordering::Relaxed) > 0 {
                switch(&mut guard);
            }
        }
    }

    /// Discards the parent's request in a forked child.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The first needs the fence and the owner's check; the second, that a taken request is cleared.
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

    /// A lock with the orderings of `parking_lot`'s.
    struct World {
        request: ToggleRequest,
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
            let (request, is_locked, switched) =
                (ToggleRequest::new(), AtomicBool::new(false), AtomicUsize::new(0));
            Arc::new(Self { request, is_locked, switched })
        }

        fn lock(&self) -> Option<Guard<'_>> {
            let is_free = !self.is_locked.load(Ordering::Relaxed)
                && self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
            is_free.then(|| Guard(self))
        }

        fn run_pending(&self) {
            // Relaxed: only the lock's owner switches.
            let switch = |_: &mut Guard<'_>| {
                let switched = self.switched.load(Ordering::Relaxed);
                self.switched.store(switched + 1, Ordering::Relaxed);
            };
            self.request.run_pending(|| self.lock(), switch);
        }

        fn toggle(&self) {
            self.request.toggle();
            self.run_pending();
        }
    }

    #[test]
    fn loom_runs_a_toggle_once_when_a_start_or_stop_holds_the_lock() {
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

    #[test]
    fn loom_runs_both_of_two_simultaneous_toggles_or_neither() {
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
