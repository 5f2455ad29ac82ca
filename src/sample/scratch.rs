//! Scratch slots: prepared memory for one tick, resident from its first use.
//!
//! ```text
//! slot    | guard page | stack ........ | occupancy | counters | last walk | chain ...... |
//!                        <- grows this way ^
//! ```
//!
//! A handler claims a slot by one compare-exchange, starting at one that its stack pointer selects,
//! so that threads seldom contend. If all are taken, the sample is lost. A claimed slot keeps the
//! session alive (`recording.rs`).
//!
//! | occupancy | meaning | may become |
//! | --- | --- | --- |
//! | 0 | free | 1, by compare-exchange |
//! | 1 | a handler is inside | 0, by that handler (or by a forked child, where it does not exist) |
//!
//! # Safety
//! Makes references to slots in a mapping that is never unmapped, and to the holder's chain buffer.
#![allow(unsafe_code)]

use super::{
    counters::{Counter, Counters, Totals},
    spill::Slots,
    unwind::last_walk::LastWalk,
};
use crate::{
    config::MAX_DEPTH,
    sync::{Ordering, modelled::AtomicU32},
    sys::{
        arch::call_on_stack,
        memory::{OwnedMapping, PROTECTION_BYTES, enter_call},
    },
};
use core::cell::UnsafeCell;

/// Evaluation of call frame information needs most: about 8 KiB in a release build, more in a debug
/// build (measured by the test in `unwind/cfi.rs`).
pub(crate) const STACK_BYTES: usize = 64 << 10;

pub(crate) struct Occupancy(AtomicU32);

impl Occupancy {
    #[cfg(all(test, loom))]
    pub(crate) fn free() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn try_claim(&self) -> bool {
        // SeqCst: the claim precedes the load of the running session; pairs with `is_free` after
        // the session's withdrawal (`recording.rs`).
        self.0.load(Ordering::Relaxed) == 0
            && self.0.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(crate) fn release(&self) {
        // Release: pairs with `is_free` and `try_claim`; the holder's work is visible.
        self.0.store(0, Ordering::Release);
    }

    pub(crate) fn is_free(&self) -> bool {
        // SeqCst: pairs with `try_claim`; its acquire pairs with the release.
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// State and counters are shared, the rest is the holder's.
#[repr(C, align(64))]
pub(crate) struct Slot {
    occupancy: Occupancy,
    counters: Counters,
    last_walk: UnsafeCell<LastWalk>,
    chain: UnsafeCell<[usize; MAX_DEPTH]>,
}

// SAFETY: chain and last walk are accessed only through `SlotClaim`, one at a time.
unsafe impl Sync for Slot {}

impl Slot {
    /// For the slot's holder.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    #[inline]
    pub(crate) fn count_many(&self, counter: Counter, amount: u64) {
        self.counters.add(counter, amount);
    }

    #[cfg(sigprof_stamps)]
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        let mut totals = Totals::default();
        self.counters.add_to(&mut totals);
        totals.get(counter)
    }

    /// Runs `function` on the slot's stack. For the slot's holder, one at a time.
    pub(crate) fn run_on_stack<T>(&self, argument: &mut T, function: fn(&mut T)) {
        let mut call = (argument, function);
        // The stack's upper end is the slot's start.
        let top = core::ptr::from_ref(self).cast_mut().cast::<u8>();
        // SAFETY: the 64-byte aligned slot is directly above its stack, which only its holder uses;
        // nothing that runs there unwinds.
        unsafe { call_on_stack(enter_call::<T>, (&raw mut call).cast(), top) };
    }
}

pub(crate) struct Scratch {
    slots: OwnedMapping,
    count: usize,
}

const STRIDE: usize = (PROTECTION_BYTES + STACK_BYTES + size_of::<Slot>()).next_multiple_of(PROTECTION_BYTES);

impl Scratch {
    /// For ordinary context.
    ///
    /// # Errors
    /// The `errno` value of `mmap(2)` or `mprotect(2)`.
    pub(crate) fn new(count: usize) -> Result<Self, i32> {
        let slots = OwnedMapping::writable(count * STRIDE)?;
        for i in 0..count {
            slots.guard(i * STRIDE, i * STRIDE + PROTECTION_BYTES)?;
        }
        Ok(Self { slots, count })
    }

    /// Claims a slot; the search starts at one that `hint` selects. Signal-safe.
    #[inline]
    pub(crate) fn claim(&self, hint: usize) -> Option<SlotClaim<'_>> {
        // Stacks are at least their size apart.
        let start = ((hint >> 16) ^ (hint >> 23)).checked_rem(self.count).unwrap_or(0);
        (0..self.count).find_map(|i| {
            let place = start + i;
            let slot = self.slot(if place < self.count { place } else { place - self.count })?;
            slot.occupancy.try_claim().then(|| SlotClaim { slot })
        })
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn occupied(&self) -> usize {
        self.all().filter(|slot| !slot.occupancy.is_free()).count()
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for slot in self.all() {
            slot.counters.add_to(&mut totals);
        }
        totals
    }

    pub(crate) fn is_free(&self, i: usize) -> bool {
        self.slot(i).is_none_or(|slot| slot.occupancy.is_free())
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn others<'s>(&'s self, held: HeldSlot<'s>) -> OtherSlots<'s> {
        OtherSlots { scratch: self, own: held.slot }
    }

    /// In a forked child: frees all slots. Returns whether a handler's work is left incomplete.
    pub(crate) fn reset_after_fork(&self) -> bool {
        let mut were_held = false;
        // Reads first: a write would make unused slots resident.
        for slot in self.all().filter(|slot| !slot.occupancy.is_free()) {
            // SAFETY: neither the slot's holder nor any other thread exists here.
            unsafe { &mut *slot.last_walk.get() }.forget();
            slot.occupancy.release();
            were_held = true;
        }
        were_held
    }

    fn all(&self) -> impl Iterator<Item = &Slot> {
        (0..self.count).filter_map(|i| self.slot(i))
    }

    #[inline]
    fn slot(&self, i: usize) -> Option<&Slot> {
        if i >= self.count {
            return None;
        }
        // SAFETY: `i` is below the count, so the place is in the mapping.
        let place = unsafe { self.slots.start().add(i * STRIDE + PROTECTION_BYTES + STACK_BYTES) };
        // SAFETY: page-aligned, zeroed by the kernel, and zero is valid for every field.
        Some(unsafe { place.cast::<Slot>().as_ref() })
    }
}

/// For a handler that has added its sample: its own slot counts as free.
pub(crate) struct OtherSlots<'s> {
    scratch: &'s Scratch,
    own: &'s Slot,
}

impl Slots for OtherSlots<'_> {
    fn count(&self) -> usize {
        self.scratch.count
    }

    fn is_free(&self, i: usize) -> bool {
        let is_other = |slot: &Slot| !core::ptr::eq(slot, self.own);
        !self.scratch.slot(i).is_some_and(|slot| is_other(slot) && !slot.occupancy.is_free())
    }
}

pub(crate) struct SlotClaim<'s> {
    slot: &'s Slot,
}

/// Proof that a slot is claimed.
#[derive(Clone, Copy)]
pub(crate) struct HeldSlot<'c> {
    slot: &'c Slot,
}

impl<'c> HeldSlot<'c> {
    #[inline]
    pub(crate) fn slot(self) -> &'c Slot {
        self.slot
    }
}

impl SlotClaim<'_> {
    #[inline]
    pub(crate) fn parts(&mut self) -> (HeldSlot<'_>, &mut [usize], &mut LastWalk) {
        // SAFETY: the claim is the only access to the buffer and is borrowed mutably.
        let chain = unsafe { &mut *self.slot.chain.get() };
        // SAFETY: as above.
        let last_walk = unsafe { &mut *self.slot.last_walk.get() };
        (HeldSlot { slot: self.slot }, chain, last_walk)
    }
}

impl Drop for SlotClaim<'_> {
    fn drop(&mut self) {
        self.slot.occupancy.release();
    }
}

/// The first fails with a relaxed order in `try_claim` or `release`; the second with one in
/// `release` or `is_free`, and if stop does not wait.
///
/// # Safety
/// Accesses loom's cells, which check that accesses are ordered.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::{
        cell::UnsafeCell,
        sync::{
            Arc,
            atomic::{AtomicUsize, fence},
        },
        thread,
    };

    struct Owned(UnsafeCell<usize>);

    // SAFETY: loom checks every access.
    unsafe impl Sync for Owned {}

    impl Owned {
        fn new() -> Self {
            Self(UnsafeCell::new(0))
        }
        fn read(&self) -> usize {
            // SAFETY: loom checks that there is no concurrent write.
            self.0.with(|value| unsafe { *value })
        }
        fn change(&self) {
            // SAFETY: loom checks that there is no concurrent access.
            self.0.with_mut(|value| unsafe { *value += 1 });
        }
    }

    /// A contended buffer has one user at a time, which sees the last one's changes.
    #[test]
    fn loom_gives_a_buffer_one_user_at_a_time() {
        loom::model(|| {
            let slot = Arc::new((Occupancy::free(), Owned::new()));
            let tick = |slot: &(Occupancy, Owned)| {
                let is_ours = slot.0.try_claim();
                if is_ours {
                    slot.1.change();
                    slot.0.release();
                }
                usize::from(is_ours)
            };
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || tick(&slot))
            };
            let own = tick(&slot);
            let both = own + other.join().unwrap();
            assert_eq!(slot.1.read(), both);
            assert!(both > 0 && slot.0.is_free());
        });
    }

    /// A stopped session is not used once it is freed, nor the next before it is filled (as in
    /// `recording.rs`). loom treats sequentially consistent operations only as acquire and release;
    /// the fences provide the total order that the language guarantees.
    #[test]
    fn loom_uses_no_freed_or_unfilled_session() {
        loom::model(|| {
            let slot = Arc::new(Occupancy::free());
            let running = Arc::new(AtomicUsize::new(1));
            let sessions = Arc::new([Owned::new(), Owned::new()]);
            let handler = {
                let (slot, running, sessions) = (slot.clone(), running.clone(), sessions.clone());
                thread::spawn(move || {
                    assert!(slot.try_claim(), "there is one handler");
                    fence(Ordering::SeqCst);
                    let found = running.load(Ordering::SeqCst);
                    if let Some(session) = found.checked_sub(1).and_then(|number| sessions.get(number)) {
                        assert_eq!(session.read(), found - 1, "freed, or not filled yet");
                    }
                    slot.release();
                })
            };
            running.store(0, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            while !slot.is_free() {
                thread::yield_now();
            }
            let [first, second] = &*sessions;
            first.change();
            second.change();
            running.store(2, Ordering::SeqCst);
            handler.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn gives_each_slot_one_holder() {
        let scratch = Scratch::new(3).unwrap();
        let mut claims: Vec<_> = (0..3).map(|i| scratch.claim(i << 16).unwrap()).collect();
        assert!(scratch.claim(0).is_none());
        assert_eq!(scratch.occupied(), 3);
        let buffers: Vec<_> = claims.iter_mut().map(|claim| claim.parts().1.as_ptr()).collect();
        assert!(buffers[0] != buffers[1] && buffers[1] != buffers[2] && buffers[0] != buffers[2]);
        claims.pop();
        assert_eq!(scratch.occupied(), 2);
        assert!(scratch.claim(0).is_some());
    }

    #[test]
    fn work_runs_on_the_slots_own_stack() {
        let scratch = Scratch::new(1).unwrap();
        let mut claim = scratch.claim(0).unwrap();
        let held = claim.parts().0;
        let mut place = 0usize;
        held.slot().run_on_stack(&mut place, |place| {
            let local = 0u8;
            *place = &raw const local as usize;
        });
        let slot = core::ptr::from_ref(held.slot()) as usize;
        assert!((slot - STACK_BYTES..slot).contains(&place));
    }

    #[test]
    fn frees_held_slots_in_a_forked_child() {
        let scratch = Scratch::new(3).unwrap();
        assert!(!scratch.reset_after_fork(), "nobody was inside");
        let held = scratch.claim(0).unwrap();
        assert_eq!(scratch.occupied(), 1);
        assert!(scratch.reset_after_fork());
        assert_eq!(scratch.occupied(), 0);
        core::mem::forget(held);
    }

    #[test]
    fn adds_up_the_counters_of_all_slots() {
        let scratch = Scratch::new(2).unwrap();
        let (mut first, mut second) = (scratch.claim(0).unwrap(), scratch.claim(0).unwrap());
        let (first, second) = (first.parts().0, second.parts().0);
        first.slot().count(Counter::Complete);
        second.slot().count_many(Counter::Complete, 4);
        let start = scratch.totals();
        assert_eq!(start.get(Counter::Complete), 5);
        first.slot().count(Counter::Complete);
        assert_eq!(scratch.totals().since(&start).get(Counter::Complete), 1);
    }
}
