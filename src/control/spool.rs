//! The spool file: created when a session starts, removed when its profile is complete.
//!
//! Without it, the session uses anonymous memory. In the spool directory, only this file is
//! changed, and unneeded spools of dead processes are removed. Signal-safe: only system calls.
//!
//! A *recorder* (`sigprof record`) has a spool directory of its own, and locks a file in it. It
//! *collects* the spools there, which are then the profiles: sessions write no other file.
//!
//! # Safety
//! Frees the memory of a spool after its session, guaranteed by the caller.
#![allow(unsafe_code)]

use super::output::Output;
use crate::{
    config::SpoolChoice,
    error::Failure,
    format::spool::{ARENA, Ancestors, EmptyOwner, PATHS, SpoolState, owner_of_empty},
    sample::{
        spool_memory::{HeadFacts, SpoolMemory},
        table::Shape,
    },
    sys::{
        clock, errno,
        file::{self, PathBuffer},
        memory::{MappedBox, OwnedMapping},
        private_directory::{Access, PrivateDirectory, remove_same},
        process::{self, Liveness},
    },
};
use core::ffi::CStr;

/// The default directory, before `-` and the effective user ID.
pub(crate) const DEFAULT_DIRECTORY: &str = "/dev/shm/sigprof";
pub(crate) const SUFFIX: &str = ".spool";
/// Limits the memory for programs that crash repeatedly.
pub(crate) const MAX_SPOOLS: usize = 256;

/// The number of spools between two cleanings of a directory.
const SWEEP: usize = 32;
/// A spool uses at most this fraction of the file system's free space.
const SHARE: u64 = 8;
/// Granularity of the file's length.
const UNIT: usize = 64 << 10;

/// A recorder's directory no longer exists: the failed action and the error number.
pub(super) const NO_DIRECTORY: (&str, i32) = (USE_DIRECTORY, errno::ENOENT);
const USE_DIRECTORY: &str = "use the spool directory";

/// The file that a recorder locks while it collects spools.
pub(crate) const RECORDERS_FILE: &CStr = c"session";
/// The same if no recorder locks that file.
pub(super) const NO_RECORDER: (&str, i32) = ("leave samples to a recorder that has ended", errno::ENOENT);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpoolLocation<'a> {
    /// [`DEFAULT_DIRECTORY`] of the user.
    Default,
    Directory(&'a [u8]),
    Off,
}

pub(crate) struct SessionSpool {
    path: MappedBox<PathBuffer>,
    directory_bytes: usize,
    is_default: bool,
    /// Device and inode.
    identity: (u64, u64),
    /// The file is removed; the memory may still be used.
    is_removed: bool,
}

pub(super) struct SpoolRequest<'a> {
    pub(super) started: i64,
    pub(super) period_micros: u32,
    pub(super) is_by_thread: bool,
    pub(super) ancestors: Ancestors,
    pub(super) table_bytes: usize,
    pub(super) shape: Shape,
    /// As `KeptLines` chooses them.
    pub(super) lines: &'a [u8],
    /// For a recorder: its directory is not created again, because no process would read it.
    pub(super) is_collected: bool,
}

pub(crate) fn is_without_recorder(failure: Failure) -> bool {
    let kinds = [NO_DIRECTORY, NO_RECORDER];
    matches!(failure, Failure::System { action, errno } if kinds.contains(&(action, errno)))
}

impl SessionSpool {
    /// Creates a spool in `place`, and the memory that is shared with it.
    ///
    /// # Errors
    /// The failed action and the error number. No file is left then.
    pub(super) fn make(
        place: SpoolLocation<'_>,
        request: &SpoolRequest<'_>,
        output: &Output,
    ) -> Result<(SpoolMemory, Self), (&'static str, i32)> {
        let system = |action| move |errno| (action, errno);
        let mut path =
            MappedBox::<PathBuffer>::zeroed().map_err(system("map memory for the spool's path"))?;
        let access = place.write_directory(&mut path).map_err(system("take the spool directory's path"))?;
        let directory_bytes = path.as_bytes().len();
        let is_for_recorder = request.is_collected && place != SpoolLocation::Default;
        let directory = if is_for_recorder {
            PrivateDirectory::open_existing(path.as_c_str(), access)
        } else {
            PrivateDirectory::open_own(path.as_c_str(), access)
        };
        let directory = directory.map_err(system(USE_DIRECTORY))?;
        if is_for_recorder && directory.is_unlocked(RECORDERS_FILE) {
            return Err(NO_RECORDER);
        }
        let room = directory.file_system().map_err(system("look at the spool's file system"))?;
        if !room.is_in_place {
            return Err(system("trust the spool's file system")(errno::EOPNOTSUPP));
        }
        let mut spools = count(&directory);
        // Servers with idle children that are killed leave many spools without samples.
        if spools > 0 && spools % SWEEP == 0 {
            remove_empty(&directory);
            spools = count(&directory);
        }
        if spools >= MAX_SPOOLS {
            return Err(system("add to the spools of a directory that is full of them")(errno::ENOSPC));
        }
        let process_start = process::start_ticks().map_err(system("read /proc/self/stat"))?;
        path.push(b"/")
            .and_then(|()| path.push_decimal(u64::from(process::id())))
            .and_then(|()| path.push(b"-"))
            .and_then(|()| path.push_decimal(process_start))
            .and_then(|()| path.push(b"-"))
            .and_then(|()| path.push_hexadecimal(file::random()))
            .and_then(|()| path.push(SUFFIX.as_bytes()))
            .map_err(system("take the spool's path"))?;
        let file = directory.create_new(path.tail(directory_bytes + 1)).map_err(system("create a spool"))?;
        let memory = file.status().and_then(|status| {
            Ok((status.identity, fill(&file, room.free, process_start, request, output)?))
        });
        match memory {
            Ok((identity, memory)) => {
                let is_default = place == SpoolLocation::Default;
                Ok((memory, Self { path, directory_bytes, is_default, identity, is_removed: false }))
            }
            Err(errno) => {
                directory.remove(path.tail(directory_bytes + 1));
                Err(system("make a spool")(errno))
            }
        }
    }

    pub(super) fn place(&self) -> SpoolLocation<'_> {
        if self.is_default {
            SpoolLocation::Default
        } else {
            SpoolLocation::Directory(self.path.as_bytes().get(..self.directory_bytes).unwrap_or_default())
        }
    }

    pub(crate) fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    pub(super) fn is_there(&self) -> bool {
        !self.is_removed
    }

    /// Removes the file, if it can (not after `chroot` or `setuid`), and keeps the memory.
    pub(super) fn remove(&mut self) {
        self.is_removed |= remove_same(self.path.as_c_str(), self.identity);
    }

    /// Removes the file, which is not needed. `is_unused`: no thread uses the memory now or later.
    pub(super) fn discard(mut self, memory: &SpoolMemory, is_unused: bool) {
        // First the state, in case the file cannot be removed.
        memory.set_state(SpoolState::Complete);
        self.remove();
        if self.is_there() && is_unused {
            // SAFETY: no thread uses the memory: `is_unused` is guaranteed by the caller.
            unsafe { memory.punch() };
        }
    }
}

fn count(directory: &PrivateDirectory) -> usize {
    let mut found = 0;
    directory.for_each(|name| {
        found += usize::from(is_spool(name));
        found < MAX_SPOOLS
    });
    found
}

fn is_spool(name: &CStr) -> bool {
    name.to_bytes().ends_with(SUFFIX.as_bytes())
}

/// Removes spools of dead processes that have no samples or a complete profile.
fn remove_empty(directory: &PrivateDirectory) {
    let namespace = process::namespace();
    directory.for_each(|name| {
        if !is_spool(name) {
            return true;
        }
        let mut head = [0; PATHS];
        let got = directory.read(name).and_then(|file| file.read_some(&mut head)).unwrap_or(0);
        let owner =
            head.get(..got).and_then(owner_of_empty).filter(|owner| Some(owner.namespace) == namespace);
        let is_gone =
            |owner: EmptyOwner| process::liveness(owner.process, owner.process_start) == Liveness::Gone;
        if owner.is_some_and(is_gone) {
            directory.remove(name);
        }
        true
    });
}

impl<'a> SpoolLocation<'a> {
    pub(crate) fn of(choice: &'a SpoolChoice) -> Self {
        match choice {
            SpoolChoice::Default => Self::Default,
            SpoolChoice::Directory(path) => Self::Directory(path),
            SpoolChoice::Off => Self::Off,
        }
    }

    fn write_directory(self, path: &mut PathBuffer) -> Result<Access, i32> {
        match self {
            Self::Off => Err(errno::EINVAL),
            Self::Default => {
                path.push(DEFAULT_DIRECTORY.as_bytes())?;
                path.push(b"-")?;
                path.push_decimal(u64::from(process::effective_user()))?;
                Ok(Access::Private)
            }
            Self::Directory(directory) => {
                if !directory.starts_with(b"/") {
                    file::current_directory(path)?;
                    path.push(b"/")?;
                }
                path.push(directory)?;
                Ok(Access::Readable)
            }
        }
    }
}

/// Sets the file's length, maps it, and writes the head.
fn fill(
    file: &file::File,
    free: u64,
    process_start: u64,
    request: &SpoolRequest<'_>,
    output: &Output,
) -> Result<SpoolMemory, i32> {
    let wanted = ARENA + request.shape.arena_bytes().next_multiple_of(UNIT);
    let length = process::file_size_limit().map_or(wanted, |limit| wanted.min(limit)) / UNIT * UNIT;
    if length < ARENA + UNIT {
        return Err(errno::EFBIG);
    }
    file.set_length(length as u64)?;
    // Memory after the end of a shorter file cannot be committed, as on a full file system.
    let mapping = OwnedMapping::of_file(file, wanted)?;
    let target_stamp = output.stamp().unwrap_or_default();
    let mut program = [0; 1024];
    let facts = HeadFacts {
        process: process::id(),
        process_start,
        namespace: process::namespace().unwrap_or(0),
        started: u64::try_from(request.started).unwrap_or_else(|_| clock::seconds_since_epoch() as u64),
        period_micros: request.period_micros,
        is_by_thread: request.is_by_thread,
        ancestors: request.ancestors,
        target: output.target(),
        program: process::program(&mut program),
        target_stamp,
        stores_figures: request.is_collected,
    };
    let most_spooled = usize::try_from(free / SHARE).unwrap_or(usize::MAX);
    let memory = SpoolMemory::spooled(mapping, most_spooled, &facts)?;
    // Without the lines a recovered profile lacks function names.
    let _ = memory.keep_text(request.lines);
    Ok(memory)
}
