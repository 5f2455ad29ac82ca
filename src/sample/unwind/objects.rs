//! Look-up and pinning of the DSO of a PC. glibc has a look-up since 2.35 (`_dl_find_object`).
//! Otherwise starts (not by a toggle) and `dlclose` publish a snapshot of the DSOs (`snapshot.rs`).
//!
//! # The gate
//! A DSO must stay loaded while its call frame information is read. Permanent DSOs are those that
//! were loaded with the program or, if `dlclose` is not interposed, the program and the libraries
//! of [`permanent_ranges`]. For others a handler enters the gate (`gate.rs`). The unloader
//! closes it, waits until it is empty, drops the rules of such DSOs, unloads and opens it. If it is
//! closed, handlers still look up PCs that run or will be returned to, which no working program
//! unloads, but cache nothing. Guessed PCs end the walk and are counted.
//!
//! # Safety
//! Reads what the loader has mapped, in pinned DSOs.
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

/// Set if unloads go through [`while_unloading`] and this library came with the program.
static IS_DLCLOSE_INTERPOSED: AtomicBool = AtomicBool::new(false);

static PERMANENT: OnceBox<Vec<(usize, usize)>> = OnceBox::new();

/// Sorted ranges of the loaded DSOs, if handlers cannot use the loader's look-up.
#[cfg(not(loom))]
static SNAPSHOT: Snapshot<Vec<(usize, usize)>> = Snapshot::new();

#[cfg(not(loom))]
static GATE: Gate = Gate::new();

// loom's atomics have no const constructors.
#[cfg(loom)]
loom::lazy_static! {
    static ref SNAPSHOT: Snapshot<Vec<(usize, usize)>> = Snapshot::new();
    static ref GATE: Gate = Gate::new();
}

const ELF_HEADER_BYTES: usize = 64;

/// Records that each `dlclose` of the application goes through [`while_unloading`], and that all
/// present DSOs came with the program. For the shared library, when it is loaded.
pub(crate) fn set_dlclose_interposed() {
    IS_DLCLOSE_INTERPOSED.store(true, Ordering::Release);
}

/// Lists the loaded DSOs. For ordinary context, at each start.
pub(crate) fn prepare() {
    loader::resolve();
    PERMANENT.get_or_init(|| {
        if let Some(&(_, start, end)) = named_ranges().first() {
            loader::set_main_program_range(start..end);
        }
        Box::new(permanent_ranges())
    });
    if !loader::can_find() {
        SNAPSHOT.publish(loaded_ranges());
    }
}

/// A DSO that is not unloaded while this value lives.
pub(crate) struct PinnedDso<'k> {
    pub(crate) object: LoadedObject,
    pub(crate) stays: bool,
    guard: PhantomData<&'k PinGuard>,
}

pub(crate) enum PinGuard {
    Permanent,
    Gate {
        _inside: Inside<'static>,
    },
    /// DSOs are being unloaded, but not this one: its code is running.
    Running,
    /// Outside all DSOs. One that is loaded there now is not read: it is not pinned.
    Outside,
}

/// Pins the DSO of `pc`; None if it may be one that is being unloaded. Signal-safe.
pub(crate) fn pin(pc: usize, trust: Trust) -> Option<PinGuard> {
    if is_permanent(pc) {
        return Some(PinGuard::Permanent);
    }
    // Unloads do not wait for us, and the DSO of a guess may be about to be unloaded.
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
    /// Whether rules may be cached: not after an unloader has dropped them. Signal-safe.
    pub(crate) fn may_be_remembered(&self) -> bool {
        match self {
            Self::Permanent => true,
            // If unloads are not seen, the rule would outlive its DSO.
            Self::Gate { .. } => IS_DLCLOSE_INTERPOSED.load(Ordering::Relaxed),
            Self::Running | Self::Outside => false,
        }
    }

    /// Finds the DSO of the pinned `pc`. Signal-safe.
    pub(crate) fn find(&self, pc: usize) -> Option<PinnedDso<'_>> {
        let stays = match self {
            Self::Permanent => true,
            Self::Gate { .. } | Self::Running => false,
            Self::Outside => return None,
        };
        Some(PinnedDso { object: find(pc)?, stays, guard: PhantomData })
    }
}

impl PinnedDso<'_> {
    #[cfg(all(test, target_pointer_width = "64"))]
    pub(crate) fn of(object: LoadedObject) -> Self {
        Self { object, stays: true, guard: PhantomData }
    }

    /// Whether `address` is readable. If the DSO is not permanent, a system call checks: the loader
    /// unloads some by itself. Signal-safe.
    pub(crate) fn is_there(&self, address: usize) -> bool {
        self.stays || is_readable(address)
    }

    /// Returns the first `length` bytes, at most a page. Signal-safe.
    pub(crate) fn lead(&self, length: usize) -> Option<&[u8]> {
        if length > PAGE || !self.is_there(self.object.start) {
            return None;
        }
        // SAFETY: the first page of a DSO is mapped, and the DSO is pinned.
        Some(unsafe { core::slice::from_raw_parts(self.object.start as *const u8, length) })
    }

    /// Copies the path; see [`LoadedObject::copy_name`]. Signal-safe.
    pub(crate) fn copy_name(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: the DSO is pinned.
        unsafe { self.object.copy_name(buffer) }
    }

    /// Calls `f` with start, end and file offset of each executable segment. Signal-safe.
    pub(crate) fn for_each_executable_segment(&self, f: &mut dyn FnMut(usize, usize, usize)) {
        // SAFETY: the DSO is pinned, so its headers stay mapped.
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
    // SAFETY: the range is a DSO of the snapshot, and the caller pins it.
    Some(unsafe { LoadedObject::from_headers(start, end) })
}

/// Whether `pc` is in a permanent DSO. Signal-safe.
pub(crate) fn is_permanent(pc: usize) -> bool {
    PERMANENT.get().is_some_and(|ranges| range_of(ranges, pc).is_some())
}

/// Runs `unload`, and before it `forget` if a handler ever entered the gate, while no handler is
/// inside. Returns None without running them if one does not leave within two seconds, such as one
/// of a thread that a debugger has stopped. For ordinary context.
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

/// In a forked child: the threads that were inside do not exist.
pub(crate) fn reset_after_fork() {
    GATE.reset();
    frame_index::reset_after_fork();
}

fn range_of(ranges: &[(usize, usize)], pc: usize) -> Option<&(usize, usize)> {
    let after = ranges.partition_point(|&(start, _)| start <= pc);
    ranges.get(after.checked_sub(1)?).filter(|&&(_, end)| pc < end)
}

/// Returns all present DSOs if we came with the program; otherwise those that no program unloads.
fn permanent_ranges() -> Vec<(usize, usize)> {
    if IS_DLCLOSE_INTERPOSED.load(Ordering::Acquire) {
        return loaded_ranges();
    }
    const NAMES: [&str; 9] = [
        "ld-linux",
        "linux-vdso",
        // The vDSO of i386.
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
        *i == 0 || (*start..*end).contains(&own) || NAMES.iter().any(|name| file.starts_with(name))
    };
    let staying = named_ranges().into_iter().enumerate().filter(stays);
    let mut ranges: Vec<_> = staying.map(|(_, (_, start, end))| (start, end)).collect();
    ranges.sort_unstable();
    ranges
}

fn loaded_ranges() -> Vec<(usize, usize)> {
    let mut ranges: Vec<_> = named_ranges().into_iter().map(|(_, start, end)| (start, end)).collect();
    ranges.sort_unstable();
    ranges
}

/// Returns name, start and end of each loaded DSO. For ordinary context.
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

/// A DSO with call frame information that a handler cannot search without help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnindexedObject {
    pub(crate) range: core::ops::Range<usize>,
    /// The process's address of the file's address 0.
    pub(crate) bias: usize,
    /// Bytes of the file at the start of its memory, at most a page.
    pub(crate) lead_length: usize,
    /// Its segments, if it has a table but its program headers are elsewhere.
    pub(crate) segments: Vec<core::ops::Range<usize>>,
}

/// Returns the DSOs with code that have no table in `.eh_frame_hdr` (GNU ld omits it if it cannot
/// parse an `.eh_frame`), or no program headers at the usual place. For ordinary context.
pub(crate) fn unindexed() -> Vec<UnindexedObject> {
    /// Version, encodings, section address, entry count; each entry has 8 bytes.
    const EMPTY_TABLE: usize = 12;
    let mut unindexed = Vec::new();
    let _no_fork = Listing::begin();
    TargetSharedLibrary::each(|object| {
        let Some((start, end)) = range_in_memory(object).filter(|&(start, _)| is_readable(start)) else {
            return;
        };
        // SAFETY: the loader is listing the DSO, so it is mapped, and unloads nothing now.
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
        // SAFETY: this program's own DSO, which stays mapped.
        let from_headers = unsafe { LoadedObject::from_headers(object.start, object.end) };
        assert_eq!(from_headers.eh_frame_hdr, object.eh_frame_hdr, "both ways find the same section");
    }
}
