//! A value that ordinary context replaces, by exchange of a pointer, while handlers read it.
//! Readers leave no trace, so a published value is never changed or freed.
//!
//! # Safety
//! Makes references from the pointer, which is null or came from a leaked box.
#![allow(unsafe_code)]

use crate::sync::{Ordering, modelled::AtomicPtr};
use core::ptr;

pub(crate) struct Snapshot<T: 'static> {
    present: AtomicPtr<T>,
}

impl<T> Snapshot<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { present: AtomicPtr::new(ptr::null_mut()) }
    }

    /// loom's atomics have no const constructors.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { present: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Signal-safe: one load.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the release in `publish`; the value's contents are visible.
        let present = self.present.load(Ordering::Acquire);
        // SAFETY: null, or a published value, which is never changed or freed.
        unsafe { present.as_ref() }
    }

    /// Replaces the value if it differs. For ordinary context.
    pub(crate) fn publish(&self, value: T)
    where
        T: PartialEq,
    {
        if self.get() == Some(&value) {
            return;
        }
        // Release: pairs with `get`. LLVM 19 makes a broken module from a store of this kind (Rust
        // 1.85), so this is an exchange.
        self.present.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn returns_the_last_value_and_ignores_an_equal_one() {
        let snapshot = Snapshot::new();
        assert_eq!(snapshot.get(), None);
        snapshot.publish(1);
        let first = snapshot.get().unwrap();
        let first_box = snapshot.present.load(Ordering::Relaxed);
        snapshot.publish(1);
        assert!(ptr::eq(first, snapshot.get().unwrap()));
        snapshot.publish(2);
        assert_eq!((first, snapshot.get()), (&1, Some(&2)), "the old one is still there");
        // Production code never frees a value, because a handler may be reading it.
        for value in [first_box, snapshot.present.load(Ordering::Relaxed)] {
            // SAFETY: the pointer came from a box and is not used any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    struct Watched(UnsafeCell<usize>);

    impl Watched {
        fn number(&self) -> usize {
            // SAFETY: loom checks that there is no concurrent write.
            self.0.with(|number| unsafe { *number })
        }

        fn of(number: usize) -> Self {
            let watched = Self(UnsafeCell::new(0));
            // SAFETY: no other thread has access before this function returns.
            watched.0.with_mut(|place| unsafe { *place = number });
            watched
        }
    }

    impl PartialEq for Watched {
        fn eq(&self, other: &Self) -> bool {
            self.number() == other.number()
        }
    }

    // SAFETY: loom checks every access.
    unsafe impl Sync for Watched {}

    /// Fails with a relaxed load, and with an exchange without release.
    #[test]
    fn loom_readers_see_complete_values_in_order() {
        loom::model(|| {
            let snapshot = Arc::new(Snapshot::new());
            let reader = {
                let snapshot = Arc::clone(&snapshot);
                thread::spawn(move || {
                    let numbers = [0; 2].map(|_| snapshot.get().map_or(0, Watched::number));
                    assert!(numbers[0] <= numbers[1], "{numbers:?}");
                })
            };
            snapshot.publish(Watched::of(1));
            snapshot.publish(Watched::of(2));
            reader.join().unwrap();
        });
    }
}
