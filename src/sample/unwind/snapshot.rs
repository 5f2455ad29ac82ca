//! A value that ordinary context replaces while handlers read it.
//!
//! Who writes: ordinary context, by exchange of a pointer. Who reads: handlers, at any time, without a trace; so a
//! value that was published is neither changed nor freed any more. Two that publish at once: one of them is last.
//!
//! # Safety
//! Makes references out of the pointer, which is null or came from a box that was given up for good.
#![allow(unsafe_code)]

use crate::sync::{Ordering, modelled::AtomicPtr};
use core::ptr;

/// See the module.
pub(crate) struct Snapshot<T: 'static> {
    present: AtomicPtr<T>,
}

impl<T> Snapshot<T> {
    /// Nothing published.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { present: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The same; loom's atomics are not made at compile time.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { present: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The value published last. Signal-safe: one load.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the release in `publish`, so that the value's contents are seen.
        let present = self.present.load(Ordering::Acquire);
        // SAFETY: null, or a published value, which nobody changes or frees.
        unsafe { present.as_ref() }
    }

    /// Replaces the value; does nothing where it is the same. For ordinary context.
    pub(crate) fn publish(&self, value: T)
    where
        T: PartialEq,
    {
        if self.get() == Some(&value) {
            return;
        }
        // Release: for the value's contents. An exchange, though a store would do: from a store of this kind LLVM 19
        // makes a broken module (Rust 1.85).
        self.present.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_value_published_last_is_read_and_an_equal_one_is_not_kept() {
        let snapshot = Snapshot::new();
        assert_eq!(snapshot.get(), None);
        snapshot.publish(1);
        let first = snapshot.get().unwrap();
        let first_box = snapshot.present.load(Ordering::Relaxed);
        snapshot.publish(1);
        assert!(ptr::eq(first, snapshot.get().unwrap()));
        snapshot.publish(2);
        assert_eq!((first, snapshot.get()), (&1, Some(&2)), "the old one is still there");
        // Elsewhere a value is never freed, since a handler may be reading it.
        for value in [first_box, snapshot.present.load(Ordering::Relaxed)] {
            // SAFETY: it came from a box, and nobody uses it any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    /// A value whose contents loom watches.
    struct Watched(UnsafeCell<usize>);

    impl Watched {
        fn number(&self) -> usize {
            // SAFETY: loom checks that nobody writes meanwhile.
            self.0.with(|number| unsafe { *number })
        }

        fn of(number: usize) -> Self {
            let watched = Self(UnsafeCell::new(0));
            // SAFETY: as above.
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

    /// A reader sees nothing or a whole value, and never an older one behind a newer one.
    /// Fails with a relaxed load, and with an exchange that does not release.
    #[test]
    fn loom_a_snapshot_is_read_whole() {
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
