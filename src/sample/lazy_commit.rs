//! Lazy commit of the memory for records: one word, which handlers advance. If the spool's file
//! system is full, further memory is anonymous, at the next addresses; only its recovery is lost.
//! The word holds bytes, a multiple of 4096, and two flags:
//!
//! | flags | meaning | may become |
//! | --- | --- | --- |
//! | none | in the spool | none, with more bytes; switching |
//! | switching | a handler maps anonymous memory after the usable bytes | anonymous, by it |
//! | anonymous | further memory is anonymous | anonymous, with more bytes |
//!
//! Concurrent handlers may populate the same bytes. Only the one that set the switching flag
//! replaces memory, which is unused after the mark; until it is done, others that need more count a
//! lost sample. If it fails, the flag stays, and the memory grows no more. Bytes only grow, so
//! there is no ABA.

use crate::sync::{Ordering, modelled::AtomicUsize};

/// Bytes of a spool per system call.
pub(super) const FILE_STEP_BYTES: usize = 64 << 10;
/// Bytes of anonymous memory per system call; they become resident when touched.
pub(super) const ANONYMOUS_STEP_BYTES: usize = 1 << 20;

const SWITCHING: usize = 1;
const ANONYMOUS: usize = 2;
const FLAGS: usize = 4095;

/// The memory, by byte offsets from its start. Signal-safe.
pub(super) trait Backing {
    /// Allocates bytes `from..to` of the spool; false if its file system is full.
    fn populate(&self, from: usize, to: usize) -> bool;
    /// Stores in the spool that it may hold records up to `to`, before it does.
    fn note_spooled(&self, to: usize);
    /// Stores that records may follow that the spool does not hold.
    fn mark_truncated(&self);
    /// Replaces the spool's unused memory from `from` on by anonymous memory.
    fn detach_from_file(&self, from: usize) -> bool;
    /// Makes bytes `from..to` of anonymous memory usable.
    fn commit(&self, from: usize, to: usize) -> bool;
}

pub(super) struct LazyCommit {
    word: AtomicUsize,
    /// Bytes that may become usable.
    most: usize,
}

impl LazyCommit {
    pub(super) fn spooled(most: usize) -> Self {
        Self { word: AtomicUsize::new(0), most }
    }

    pub(super) fn anonymous(most: usize) -> Self {
        Self { word: AtomicUsize::new(ANONYMOUS), most }
    }

    /// Whether the first `end` bytes are usable: then they may be touched.
    #[inline]
    pub(super) fn covers(&self, end: usize) -> bool {
        // Acquire: pairs with the release in `grow`.
        end <= self.word.load(Ordering::Acquire) & !FLAGS
    }

    /// Whether bytes are, or are becoming, anonymous.
    pub(super) fn is_anonymous(&self) -> bool {
        self.word.load(Ordering::Acquire) & FLAGS != 0
    }

    /// Makes the first `needed` bytes usable; false if that fails.
    #[cold]
    pub(super) fn grow(&self, backing: &impl Backing, needed: usize) -> bool {
        loop {
            let present = self.word.load(Ordering::Acquire);
            let (bytes, flags) = (present & !FLAGS, present & FLAGS);
            if needed <= bytes {
                return true;
            }
            let step = if flags == ANONYMOUS { ANONYMOUS_STEP_BYTES } else { FILE_STEP_BYTES };
            let target = needed.next_multiple_of(step).min(self.most);
            if needed > target || flags == SWITCHING {
                return false;
            }
            let next = if flags == ANONYMOUS {
                if !backing.commit(bytes, target) {
                    return false;
                }
                target | ANONYMOUS
            } else if backing.populate(bytes, target) {
                // Before any record is there: the process may be killed at any instruction. If
                // another handler switches first, recovery finds zeros.
                backing.note_spooled(target);
                target
            } else {
                bytes | SWITCHING
            };
            // Release: pairs with `covers`. If another handler was first, all is checked again.
            if self.word.compare_exchange(present, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            if next & FLAGS == SWITCHING {
                backing.mark_truncated();
                // Only this handler passes the flag, and no handler uses memory after the mark.
                if !backing.detach_from_file(bytes) {
                    return false;
                }
                self.word.store(bytes | ANONYMOUS, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use core::sync::atomic::AtomicUsize as Tally;
    use loom::{
        model::Builder,
        sync::{Arc, atomic::AtomicUsize},
        thread,
    };

    /// Pieces of [`FILE_STEP_BYTES`] bytes.
    const PIECES: usize = 2;
    const NO_ROOM: usize = 0;
    const ROOM: usize = 1;

    /// Usability and record of each piece; size noted in the spool. The checks' own atomics are not
    /// loom's, which keeps the model small.
    struct World {
        lazy_commit: LazyCommit,
        rooms: [AtomicUsize; PIECES],
        records: [Tally; PIECES],
        noted: AtomicUsize,
        cuts: Tally,
    }

    struct Handler {
        world: Arc<World>,
        finds_room: bool,
    }

    impl Backing for Handler {
        fn populate(&self, from: usize, to: usize) -> bool {
            if self.finds_room {
                self.set_rooms(from, to);
            }
            self.finds_room
        }
        fn note_spooled(&self, to: usize) {
            self.world.noted.fetch_max(to, Ordering::Relaxed);
        }
        fn mark_truncated(&self) {
            self.world.cuts.fetch_add(1, Ordering::Relaxed);
        }
        fn detach_from_file(&self, from: usize) -> bool {
            for piece in from / FILE_STEP_BYTES..PIECES {
                self.world.rooms[piece].store(NO_ROOM, Ordering::Relaxed);
                assert_eq!(
                    self.world.records[piece].swap(0, Ordering::Relaxed),
                    0,
                    "memory in use is replaced"
                );
            }
            true
        }
        fn commit(&self, from: usize, to: usize) -> bool {
            self.set_rooms(from, to);
            true
        }
    }

    impl Handler {
        fn set_rooms(&self, from: usize, to: usize) {
            for piece in from / FILE_STEP_BYTES..to / FILE_STEP_BYTES {
                self.world.rooms[piece].store(ROOM, Ordering::Relaxed);
            }
        }

        fn put(&self, piece: usize, record: usize) -> bool {
            let end = (piece + 1) * FILE_STEP_BYTES;
            let Self { world, .. } = self;
            if !world.lazy_commit.covers(end) && !world.lazy_commit.grow(self, end) {
                return false;
            }
            assert_eq!(world.rooms[piece].load(Ordering::Relaxed), ROOM, "bytes beyond the mark");
            assert!(world.lazy_commit.is_anonymous() || world.noted.load(Ordering::Relaxed) >= end);
            world.records[piece].store(record, Ordering::Relaxed);
            true
        }
    }

    /// Runs two handlers that each store two records.
    fn two_handlers(rooms: [bool; 2]) {
        let mut model = Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let world = Arc::new(World {
                lazy_commit: LazyCommit::spooled(PIECES * FILE_STEP_BYTES),
                rooms: core::array::from_fn(|_| AtomicUsize::new(NO_ROOM)),
                records: core::array::from_fn(|_| Tally::new(0)),
                noted: AtomicUsize::new(0),
                cuts: Tally::new(0),
            });
            let [own, other] = rooms.map(|finds_room| Handler { world: Arc::clone(&world), finds_room });
            let work = |handler: &Handler, record| [0, 1].map(|piece| handler.put(piece, record));
            let thread = thread::spawn(move || work(&other, 2));
            let own_put = work(&own, 1);
            let other_put = thread.join().unwrap();
            for piece in 0..PIECES {
                let was_put = own_put[piece] || other_put[piece];
                assert_eq!(was_put, world.records[piece].load(Ordering::Relaxed) != 0, "a record is lost");
            }
            let fails = rooms.contains(&false);
            assert!(world.cuts.load(Ordering::Relaxed) <= usize::from(fails), "cut once, and only when full");
            assert!(own_put == [true; 2] || fails, "nothing is refused where there is room");
        });
    }

    #[test]
    fn loom_finds_room_in_both_handlers() {
        two_handlers([true, true]);
    }

    #[test]
    fn loom_switches_in_one_handler() {
        two_handlers([true, false]);
    }

    #[test]
    fn loom_switches_in_both_handlers() {
        two_handlers([false, false]);
    }
}
