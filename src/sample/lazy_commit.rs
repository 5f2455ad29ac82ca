//! How far the memory of a session's records is usable: one word, which handlers move on as records need it.
//!
//! Where the spool's file system is full, what comes next becomes anonymous memory, at the same addresses: nothing is
//! lost but the chance to recover it. The word holds bytes, multiples of 4096, and two flags:
//!
//! | flags | meaning | may become |
//! | --- | --- | --- |
//! | none | in the spool | none, with more bytes; switching |
//! | switching | one handler puts anonymous memory behind the usable bytes | anonymous, by that handler |
//! | anonymous | what comes next is anonymous | anonymous, with more bytes |
//!
//! Handlers may populate the same bytes at once, which is harmless; only who has set the switching flag replaces
//! memory, and nobody uses bytes beyond the mark. A handler that needs more meanwhile counts its tick as lost.
//!
//! The word goes from one state to the next and its bytes only grow, so there is no ABA.

use crate::sync::{Ordering, modelled::AtomicUsize};

/// Bytes of a spool that one system call makes usable.
pub(super) const FILE_STEP_BYTES: usize = 64 << 10;
/// Bytes of anonymous memory that one system call makes usable; it becomes resident as it is touched.
pub(super) const ANONYMOUS_STEP_BYTES: usize = 1 << 20;

const SWITCHING: usize = 1;
const ANONYMOUS: usize = 2;
const FLAGS: usize = 4095;

/// The memory that is made usable, by offsets in bytes from its start. All of it is signal-safe.
pub(super) trait Backing {
    /// Finds room in the spool's file system for bytes `from..to`; false where it is full.
    fn populate(&self, from: usize, to: usize) -> bool;
    /// Notes that the spool may hold records up to `to`. They may come as soon as this returns.
    fn note_spooled(&self, to: usize);
    /// Notes that records may follow that the spool does not hold.
    fn mark_truncated(&self);
    /// Puts anonymous memory in the place of the spool's from `from` on, which nobody uses.
    fn detach_from_file(&self, from: usize) -> bool;
    /// Makes bytes `from..to` of anonymous memory usable.
    fn commit(&self, from: usize, to: usize) -> bool;
}

/// See the module.
pub(super) struct LazyCommit {
    word: AtomicUsize,
    /// Bytes that may become usable.
    most: usize,
}

impl LazyCommit {
    /// For the memory of a spool.
    pub(super) fn spooled(most: usize) -> Self {
        Self { word: AtomicUsize::new(0), most }
    }

    /// For anonymous memory.
    pub(super) fn anonymous(most: usize) -> Self {
        Self { word: AtomicUsize::new(ANONYMOUS), most }
    }

    /// True where the first `end` bytes are usable: who sees so may touch them.
    #[inline]
    pub(super) fn covers(&self, end: usize) -> bool {
        // Acquire: pairs with the release in `grow`.
        end <= self.word.load(Ordering::Acquire) & !FLAGS
    }

    /// True where bytes are, or are becoming, anonymous.
    pub(super) fn is_anonymous(&self) -> bool {
        self.word.load(Ordering::Acquire) & FLAGS != 0
    }

    /// Makes the first `needed` bytes usable; false where they cannot be.
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
                // Before anybody can put a record there: the process may be killed at any instruction. Should
                // another handler switch first, recovery finds zeros.
                backing.note_spooled(target);
                target
            } else {
                bytes | SWITCHING
            };
            // Release: whoever sees the mark may touch the memory. Where another handler was first, all is asked again.
            if self.word.compare_exchange(present, next, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            if next & FLAGS == SWITCHING {
                backing.mark_truncated();
                // Ours alone: nobody else goes past the flag, and nobody has used what lies behind the mark.
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

    /// Pieces of the memory, of [`FILE_STEP_BYTES`] bytes each.
    const PIECES: usize = 2;
    const NO_ROOM: usize = 0;
    const ROOM: usize = 1;

    /// What the memory holds: for each piece, how it can be used, and a record that somebody put there; and how much of it
    /// was noted to be the spool's. The mark publishes the first and the last. What only the checks need are no atomics of
    /// loom's, which would be more orders to try.
    struct World {
        lazy_commit: LazyCommit,
        rooms: [AtomicUsize; PIECES],
        records: [Tally; PIECES],
        noted: AtomicUsize,
        cuts: Tally,
    }

    /// The memory, as one handler finds it: its file system has room or not.
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

        /// Puts a record where it was told to, if the memory can be had; says whether it did.
        fn put(&self, piece: usize, record: usize) -> bool {
            let end = (piece + 1) * FILE_STEP_BYTES;
            let Self { world, .. } = self;
            if !world.lazy_commit.covers(end) && !world.lazy_commit.grow(self, end) {
                return false;
            }
            assert_eq!(world.rooms[piece].load(Ordering::Relaxed), ROOM, "bytes beyond the mark");
            // What a spool may hold is noted before it can hold it.
            assert!(world.lazy_commit.is_anonymous() || world.noted.load(Ordering::Relaxed) >= end);
            world.records[piece].store(record, Ordering::Relaxed);
            true
        }
    }

    /// Two handlers that each put two records, where their file system has room as `rooms` says.
    fn two_handlers(rooms: [bool; 2]) {
        // Each handler has a handful of steps that matter; more changes between them only repeat what was tried.
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
            // The first piece is shared by both records in it, of which one stands for both.
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
    fn loom_both_handlers_find_room() {
        two_handlers([true, true]);
    }

    #[test]
    fn loom_one_handler_finds_the_file_system_full() {
        two_handlers([true, false]);
    }

    #[test]
    fn loom_both_handlers_find_the_file_system_full() {
        two_handlers([false, false]);
    }
}
