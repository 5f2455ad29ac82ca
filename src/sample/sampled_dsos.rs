//! Sampled DSOs that may be unloaded when the mapped objects are listed: all but the permanent ones
//! (`objects.rs`). The handler that first samples one pushes its name and
//! executable segments to a queue. Ordinary context pops them, with the signal blocked, because a
//! queue operation waits for an interrupted one.

use super::{counters::Counter, recording, scratch::Slot, unwind::objects::PinnedDso};
use crate::{
    sync::{AtomicBool, AtomicUsize, Ordering},
    sys::{loader::LoadedObject, process},
};
use crossbeam_queue::ArrayQueue;
use once_cell::race::OnceBox;

/// Capacity between two reads by ordinary context.
pub(crate) const WAITING: usize = 64;
const NAME_BYTES: usize = 512;
const SEGMENTS: usize = 4;

static QUEUE: OnceBox<ArrayQueue<SampledDso>> = OnceBox::new();
/// Set in a forked child if a push may be half done: queue operations would wait for it forever.
static IS_TORN: AtomicBool = AtomicBool::new(false);
/// Which DSOs were queued: a set, with 0 for free places.
static SEEN: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];

pub(crate) struct SampledDso {
    name: [u8; NAME_BYTES],
    name_length: usize,
    segments: [SampledSegment; SEGMENTS],
    segment_count: usize,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct SampledSegment {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Offset of `start` in the file.
    pub(crate) offset: usize,
}

impl SampledDso {
    pub(crate) fn name(&self) -> &[u8] {
        self.name.get(..self.name_length).unwrap_or_default()
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn with_segment(object_name: &[u8], segment: SampledSegment) -> Self {
        let mut name = [0; NAME_BYTES];
        name[..object_name.len()].copy_from_slice(object_name);
        let segments =
            [segment, SampledSegment::default(), SampledSegment::default(), SampledSegment::default()];
        Self { name, name_length: object_name.len(), segments, segment_count: 1 }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.name() == other.name() && self.segments() == other.segments()
    }

    pub(crate) fn segments(&self) -> &[SampledSegment] {
        self.segments.get(..self.segment_count).unwrap_or_default()
    }
}

/// For ordinary context.
pub(crate) fn prepare() {
    QUEUE.get_or_init(|| Box::new(ArrayQueue::new(WAITING)));
}

/// Queues a DSO, unless it is permanent or known. Signal-safe: atomics, and a push that does not
/// allocate and waits only for a pop by ordinary context, which has the signal blocked.
pub(crate) fn note(pinned: &PinnedDso<'_>, slot: &Slot) {
    if pinned.stays {
        return;
    }
    let Some(queue) = QUEUE.get() else { return };
    let is_torn = IS_TORN.load(Ordering::Relaxed);
    match see(&pinned.object) {
        Sighting::Before => {}
        Sighting::NoRoom => slot.count(Counter::ObjectsMissed),
        Sighting::First => {
            let noted = describe(pinned).is_some_and(|dso| {
                recording::spool_dso(slot, &dso);
                !is_torn && queue.push(dso).is_ok()
            });
            if !noted {
                slot.count(Counter::ObjectsMissed);
            }
        }
    }
}

/// For ordinary context, with the profiling signal blocked.
pub(crate) fn pop() -> Option<SampledDso> {
    if IS_TORN.load(Ordering::Relaxed) { None } else { QUEUE.get()?.pop() }
}

pub(crate) fn reset_after_fork(handlers_were_inside: bool) {
    if handlers_were_inside {
        IS_TORN.store(true, Ordering::Relaxed);
    }
}

/// Empties the set: DSOs are about to be unloaded, and others may be loaded there.
pub(crate) fn forget_seen() {
    for place in &SEEN {
        place.store(0, Ordering::Relaxed);
    }
}

enum Sighting {
    First,
    Before,
    NoRoom,
}

fn see(object: &LoadedObject) -> Sighting {
    let key = object.start;
    let first = (key >> 12).wrapping_mul(0x9e37_79b9) % SEEN.len();
    for i in 0..SEEN.len() {
        let Some(place) = SEEN.get((first + i) % SEEN.len()) else { return Sighting::NoRoom };
        // Relaxed: the set only prevents duplicates.
        match place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Sighting::First,
            Err(present) if present == key => return Sighting::Before,
            Err(_) => {}
        }
    }
    Sighting::NoRoom
}

fn describe(pinned: &PinnedDso<'_>) -> Option<SampledDso> {
    let mut dso = SampledDso {
        name: [0; NAME_BYTES],
        name_length: 0,
        segments: [SampledSegment::default(); SEGMENTS],
        segment_count: 0,
    };
    dso.name_length = absolute_name(pinned, &mut dso.name)?;
    pinned.for_each_executable_segment(&mut |start, end, offset| {
        if let Some(place) = dso.segments.get_mut(dso.segment_count) {
            *place = SampledSegment { start, end, offset };
            dso.segment_count += 1;
        }
    });
    (dso.segment_count > 0).then_some(dso)
}

/// Writes the DSO's path and returns its length; None if it is missing or too long. The loader
/// keeps the path as passed; a relative one is appended to the working directory.
fn absolute_name(pinned: &PinnedDso<'_>, name: &mut [u8; NAME_BYTES]) -> Option<usize> {
    let mut length = pinned.copy_name(name);
    if length > 0 && name.first() != Some(&b'/') {
        let mut directory = [0; NAME_BYTES];
        let front = process::working_directory(&mut directory)?;
        *directory.get_mut(front)? = b'/';
        directory.get_mut(front + 1..)?.get_mut(..length)?.copy_from_slice(name.get(..length)?);
        *name = directory;
        length += front + 1;
    }
    (1..NAME_BYTES).contains(&length).then_some(length)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::process::in_raw_fork;

    #[test]
    fn does_not_use_a_torn_queue_in_a_forked_child() {
        prepare();
        let take_one = |handlers_were_inside| {
            let dso = SampledDso {
                name: [b'x'; NAME_BYTES],
                name_length: 1,
                segments: [SampledSegment::default(); SEGMENTS],
                segment_count: 0,
            };
            in_raw_fork(|| {
                let is_pushed = QUEUE.get().is_some_and(|queue| queue.push(dso).is_ok());
                reset_after_fork(handlers_were_inside);
                i32::from(is_pushed) + i32::from(pop().is_some())
            })
        };
        assert_eq!(take_one(false), 2);
        assert_eq!(take_one(true), 1);
    }
}
