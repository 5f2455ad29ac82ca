//! Which object a PC belongs to, and where its call frame information stands.
//!
//! glibc answers itself since 2.35 (`_dl_find_object`). Elsewhere a snapshot of the loaded objects, taken in
//! ordinary context, is published (`snapshot.rs`); an old one is kept until the process ends, because a
//! handler may be reading it (there is one per start or flush at which the loaded objects had changed).
//!
//! # The gate
//! Call frame information is read where the loader has mapped it, so it must not be unloaded meanwhile. Objects
//! that came with the program are taken to stay. For all others a handler enters the gate (`gate.rs`) before it looks
//! anything up; whoever unloads closes it, waits until nobody is inside, forgets the rules of such objects, unloads,
//! and opens it again. A handler that finds the gate closed still looks up a PC that is running or will be
//! returned to, since a program that unloads such code is lost anyway, but remembers nothing; it gives up on a PC
//! that was only guessed, and counts that.
//!
//! # Safety
//! Reads what the loader has mapped, in objects that are kept.
#![allow(unsafe_code)]

use super::{
    Trust, frame_index,
    gate::{Gate, Inside},
    snapshot::Snapshot,
};
use crate::sync::{AtomicBool, Ordering};
use crate::sys::{
    listing::Listing,
    loader::{self, LoadedObject},
    memory::{PAGE, is_readable},
    thread::Backoff,
};
use core::marker::PhantomData;
use findshlibs::{Segment as _, SharedLibrary as _, TargetSharedLibrary};
use once_cell::race::OnceBox;

/// Set where every unload goes through [`while_unloading`] and the library was loaded with the program.
static IS_DLCLOSE_INTERPOSED: AtomicBool = AtomicBool::new(false);

/// Address ranges of the objects that are taken to stay, in order.
static PERMANENT: OnceBox<Vec<(usize, usize)>> = OnceBox::new();

/// The objects of now, in order, where the loader cannot be asked from a handler.
#[cfg(not(loom))]
static SNAPSHOT: Snapshot<Vec<(usize, usize)>> = Snapshot::new();

/// The gate of this process.
#[cfg(not(loom))]
static GATE: Gate = Gate::new();

// loom's atomics are not made at compile time.
#[cfg(loom)]
loom::lazy_static! {
    static ref SNAPSHOT: Snapshot<Vec<(usize, usize)>> = Snapshot::new();
    static ref GATE: Gate = Gate::new();
}

/// Bytes of the header that every object's file begins with.
const ELF_HEADER_BYTES: usize = 64;

/// Says that every `dlclose` of the host comes by [`while_unloading`] from now on, and that all objects of now were
/// loaded with the program. For the shared library, at load.
pub(crate) fn set_dlclose_interposed() {
    IS_DLCLOSE_INTERPOSED.store(true, Ordering::Release);
}

/// Takes note of the loaded objects. For ordinary context, at each start.
pub(crate) fn prepare() {
    loader::resolve();
    PERMANENT.get_or_init(|| {
        // The loader lists the main program first.
        if let Some(&(_, start, end)) = named_ranges().first() {
            loader::set_main_program_range(start..end);
        }
        Box::new(permanent_ranges())
    });
    if !loader::can_find() {
        SNAPSHOT.publish(loaded_ranges());
    }
}

/// An object that is not unloaded while this lives.
pub(crate) struct PinnedDso<'k> {
    pub(crate) object: LoadedObject,
    /// False for an object that may be unloaded.
    pub(crate) stays: bool,
    keeper: PhantomData<&'k PinGuard>,
}

/// What keeps the object of one PC from being unloaded.
pub(crate) enum PinGuard {
    /// It is taken to stay.
    Permanent,
    /// The handler is inside the gate.
    Gate { _inside: Inside<'static> },
    /// Objects are being unloaded, but not this one: code of it is running.
    Running,
    /// It is in no object, and one that comes there meanwhile is not looked at: it may go at any moment.
    Outside,
}

/// Keeps whatever object `pc` lies in; None while objects are being unloaded, and it may be one of them, or where that is not
/// to be known. Signal-safe.
pub(crate) fn pin(pc: usize, trust: Trust) -> Option<PinGuard> {
    if is_permanent(pc) {
        return Some(PinGuard::Permanent);
    }
    // The object of a mere guess may just be going, and nobody waits for us. Code outside all objects is another matter.
    if trust != Trust::Live && !IS_DLCLOSE_INTERPOSED.load(Ordering::Relaxed) {
        return if find(pc).is_some() { None } else { Some(PinGuard::Outside) };
    }
    match GATE.enter() {
        Some(inside) => Some(PinGuard::Gate { _inside: inside }),
        None if trust == Trust::Live => Some(PinGuard::Running),
        None => None,
    }
}

impl PinGuard {
    /// False while objects are being unloaded: whoever unloads has forgotten their rules, and none may be added.
    /// Signal-safe.
    pub(crate) fn may_be_remembered(&self) -> bool {
        match self {
            Self::Permanent => true,
            // Where unloads are not seen, nobody would forget the rule when the object goes.
            Self::Gate { .. } => IS_DLCLOSE_INTERPOSED.load(Ordering::Relaxed),
            Self::Running | Self::Outside => false,
        }
    }

    /// The object of `pc`, which is the one that this was made for. Signal-safe.
    pub(crate) fn find(&self, pc: usize) -> Option<PinnedDso<'_>> {
        let stays = match self {
            Self::Permanent => true,
            Self::Gate { .. } | Self::Running => false,
            Self::Outside => return None,
        };
        Some(PinnedDso { object: find(pc)?, stays, keeper: PhantomData })
    }
}

impl PinnedDso<'_> {
    /// An object that the caller keeps.
    #[cfg(all(test, target_pointer_width = "64"))]
    pub(crate) fn of(object: LoadedObject) -> Self {
        Self { object, stays: true, keeper: PhantomData }
    }

    /// True when `address` can be read. One system call, for an object that does not stay: the loader unloads some
    /// by itself, past every gate. Signal-safe.
    pub(crate) fn is_there(&self, address: usize) -> bool {
        self.stays || is_readable(address)
    }

    /// The first `length` bytes of its memory, at most a page. Signal-safe.
    pub(crate) fn lead(&self, length: usize) -> Option<&[u8]> {
        if length > PAGE || !self.is_there(self.object.start) {
            return None;
        }
        // SAFETY: an object's memory begins with a page that is mapped, and the object is kept.
        Some(unsafe { core::slice::from_raw_parts(self.object.start as *const u8, length) })
    }

    /// Copies the object's path into `buffer`; see [`LoadedObject::copy_name`]. Signal-safe.
    pub(crate) fn copy_name(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: the object is kept.
        unsafe { self.object.copy_name(buffer) }
    }

    /// Calls `f` with start, end and file offset of each executable segment. Signal-safe.
    pub(crate) fn for_each_executable_segment(&self, f: &mut dyn FnMut(usize, usize, usize)) {
        // SAFETY: the object is kept.
        let Some(headers) = (unsafe { loader::program_headers(self.object.start) }) else { return };
        // SAFETY: as above.
        for segment in unsafe { headers.segments() }.filter(|segment| segment.executable) {
            f(segment.start, segment.end, segment.offset);
        }
    }
}

fn find(pc: usize) -> Option<LoadedObject> {
    if loader::can_find() {
        return loader::find(pc);
    }
    let &(start, end) = range_of(SNAPSHOT.get()?, pc)?;
    // SAFETY: the range is of the snapshot, and the caller keeps the object.
    Some(unsafe { LoadedObject::from_headers(start, end) })
}

/// True when `pc` belongs to an object that is taken to stay. Signal-safe.
pub(crate) fn is_permanent(pc: usize) -> bool {
    PERMANENT.get().is_some_and(|ranges| range_of(ranges, pc).is_some())
}

/// Runs `unload`, which may unload objects, while no handler looks anything up in them, and before that `forget`, if
/// any ever has. None, without running it, where a handler does not come back within two seconds. For ordinary
/// context.
///
/// A handler is inside the gate for microseconds, unless its thread gets no processor; and it cannot be our own
/// thread's, because handlers do not unload. One that does not leave belongs to a thread that a debugger has stopped.
pub(crate) fn while_unloading<R>(forget: impl FnOnce(), unload: impl FnOnce() -> R) -> Option<R> {
    let mut backoff = Backoff::bounded();
    GATE.unload(
        || backoff.wait(),
        forget,
        || {
            let result = unload();
            if !loader::can_find() {
                SNAPSHOT.publish(loaded_ranges());
            }
            result
        },
    )
}

/// In a forked child: the threads that were inside do not exist here.
pub(crate) fn reset_after_fork() {
    GATE.reset();
    frame_index::reset_after_fork();
}

fn range_of(ranges: &[(usize, usize)], pc: usize) -> Option<&(usize, usize)> {
    let after = ranges.partition_point(|&(start, _)| start <= pc);
    ranges.get(after.checked_sub(1)?).filter(|&&(_, end)| pc < end)
}

/// The objects that are not unloaded: all that came with the program, if we did; otherwise those that no program
/// unloads, since libraries opened in the meantime cannot be told from them.
fn permanent_ranges() -> Vec<(usize, usize)> {
    if IS_DLCLOSE_INTERPOSED.load(Ordering::Acquire) {
        return loaded_ranges();
    }
    const NAMES: [&str; 9] = [
        "ld-linux",
        "linux-vdso",
        // The same in programs for i386.
        "linux-gate",
        "libc.so",
        "libgcc_s",
        "libm.so",
        "libpthread",
        "libdl.so",
        "libstdc++",
    ];
    let own = permanent_ranges as *const () as usize;
    let stays = |(i, (path, start, end)): &(usize, (std::path::PathBuf, usize, usize))| {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The loader lists the main program first.
        *i == 0 || (*start..*end).contains(&own) || NAMES.iter().any(|name| file.starts_with(name))
    };
    let staying = named_ranges().into_iter().enumerate().filter(stays);
    let mut ranges: Vec<_> = staying.map(|(_, (_, start, end))| (start, end)).collect();
    ranges.sort_unstable();
    ranges
}

/// Start and end of each loaded object, in order.
fn loaded_ranges() -> Vec<(usize, usize)> {
    let mut ranges: Vec<_> = named_ranges().into_iter().map(|(_, start, end)| (start, end)).collect();
    ranges.sort_unstable();
    ranges
}

/// Name, start and end of each loaded object, as the loader lists them. For ordinary context.
pub(crate) fn named_ranges() -> Vec<(std::path::PathBuf, usize, usize)> {
    let mut named = Vec::new();
    let _no_fork = Listing::begin();
    TargetSharedLibrary::each(|object| {
        if let Some((start, end)) = range_in_memory(object) {
            named.push((object.name().into(), start, end));
        }
    });
    named
}

fn range_in_memory(object: &TargetSharedLibrary<'_>) -> Option<(usize, usize)> {
    let segments = object.segments().filter(|segment| segment.is_load()).map(|segment| {
        let start = segment.actual_virtual_memory_address(object).0;
        (start & !(PAGE - 1), start + segment.len())
    });
    segments.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// An object whose call frame information a handler cannot search by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnindexedObject {
    pub(crate) range: core::ops::Range<usize>,
    /// The process's address of what the file calls 0.
    pub(crate) bias: usize,
    /// Bytes of the file that its memory begins with, at most a page.
    pub(crate) lead_length: usize,
    /// Its segments, if it has a table and only its program headers are not where a handler looks for them.
    pub(crate) segments: Vec<core::ops::Range<usize>>,
}

/// The loaded objects with code whose program headers name no `.eh_frame_hdr` or one without a table (GNU ld writes such
/// a one when it cannot read some `.eh_frame`), or have no program headers where a handler looks for them. For ordinary
/// context.
pub(crate) fn unindexed() -> Vec<UnindexedObject> {
    /// Version, encodings, the section's address, and the number of entries; a table with one entry takes 8 more.
    const EMPTY_TABLE: usize = 12;
    let mut unindexed = Vec::new();
    let _no_fork = Listing::begin();
    TargetSharedLibrary::each(|object| {
        let Some((start, end)) = range_in_memory(object).filter(|&(start, _)| is_readable(start)) else {
            return;
        };
        // SAFETY: the loader is listing the object, so it has it mapped, and unloads nothing meanwhile.
        let headers = unsafe { loader::program_headers(start) };
        let has_table = object.segments().any(|s| s.name() == "GNU_EH_FRAME" && s.len() > EMPTY_TABLE);
        let has_code = object.segments().any(|segment| segment.is_code());
        if has_table && headers.is_some() || !has_code {
            return;
        }
        let file_end = headers.and_then(|headers| {
            // SAFETY: as above.
            let mut segments = unsafe { headers.segments() };
            Some(segments.find(|segment| segment.start == start)?.file_end)
        });
        let lead_length = file_end.map_or(ELF_HEADER_BYTES, |end| (end - start).min(PAGE));
        let bias = object.virtual_memory_bias().0;
        let mapped = object.segments().filter(|segment| has_table && segment.is_load()).map(|segment| {
            let start = segment.actual_virtual_memory_address(object).0;
            start..start + segment.len()
        });
        let segments = mapped.collect();
        unindexed.push(UnindexedObject { range: start..end, bias, lead_length, segments });
    });
    unindexed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_stays_and_the_stack_is_no_object() {
        prepare();
        let code = this_program_stays_and_the_stack_is_no_object as *const () as usize;
        assert!(is_permanent(code));
        assert!(!is_permanent(&raw const code as usize));
        let object = find(code).unwrap();
        // SAFETY: this program's own object.
        let from_headers = unsafe { LoadedObject::from_headers(object.start, object.end) };
        assert_eq!(from_headers.eh_frame_hdr, object.eh_frame_hdr, "both ways find the same section");
    }
}
