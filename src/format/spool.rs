//! The spool: a session's file while it runs, from which a profile is made when the process could not.
//!
//! It is no exchange format. The library writes it through a shared mapping, and the same version reads it; another
//! version, or another byte order, is refused. All numbers but those of the arena are 8 bytes wide and native.
//!
//! ```text
//! offset            what
//! 0                 head, one number at each offset of `field`, then target and program
//! END               what a session that leaves its profile here says at its end
//! TEXT              lines of /proc/self/maps as they were at the start: the executable ones, and
//!                   the lines around code that was moved to memory
//! OBJECTS           objects that were met later, `OBJECT_BYTES` each
//! THREADS           threads that were sampled, `THREAD_BYTES` each, in a session by thread
//! ARENA             records, one behind another: count | RECORD_MARK + depth | PCs, in words of the process
//! ```
//!
//! In a session by thread a record has one word behind its PCs, which its depth counts: 1 for a thread that is not known, or
//! 2 more than the thread's place among THREADS.
//!
//! The arena may be two halves. Records that were moved from one of them are in a file beside the profile, plainly one
//! behind another: count | depth | PCs. How much of that file counts, and from where on the half does, is one number
//! (`halves.rs`).
//!
//! A record whose count is 0 was never counted: another thread had added the same chain, or the process ended right
//! then. Room that was claimed and never filled is all zeros; the next record is found by its mark, which is no
//! address of a program.
//!
//! What is read here may be anything: the file is no more trusted than any other.

mod end_figures;
mod head;
mod objects;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use end_figures::{EndFigures, FIGURES};
#[cfg(test)]
pub(crate) use head::Moved;
pub(crate) use head::{EmptyOwner, Head, owner_of_empty};
pub(crate) use records::{SpooledRecord, thread_of};

use crate::thread::NAME_BYTES;
use std::io;

/// The first bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"sigprofS");
/// Changes with the layout.
pub(crate) const VERSION: u64 = 6;

/// Offsets of the head's numbers.
pub(crate) mod field {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 8;
    /// Bytes of the process's words: 4 or 8.
    pub(crate) const WORD_BYTES: usize = 16;
    /// See [`super::State`].
    pub(crate) const STATE: usize = 24;
    pub(crate) const PROCESS: usize = 32;
    /// When the process began, in clock ticks since boot (field 22 of /proc/PID/stat).
    pub(crate) const PROCESS_START: usize = 40;
    /// Inode of the process's namespace of process ids.
    pub(crate) const NAMESPACE: usize = 48;
    /// Seconds since 1970.
    pub(crate) const STARTED: usize = 56;
    pub(crate) const PERIOD_MICROS: usize = 64;
    /// Bytes of the arena that are in the file.
    pub(crate) const ARENA_BYTES: usize = 72;
    /// 1 when the file system was full, and what came later is not in the file.
    pub(crate) const IS_CUT: usize = 80;
    pub(crate) const TEXT_BYTES: usize = 88;
    /// How many places of objects were given away; some may not be filled.
    pub(crate) const OBJECTS: usize = 96;
    /// The file that stood under the session's name when it began, or zeros: see [`super::FileStamp`].
    pub(crate) const TARGET_DEVICE: usize = 104;
    pub(crate) const TARGET_INODE: usize = 112;
    pub(crate) const TARGET_CHANGED: usize = 120;
    /// The file that the session last wrote under its name, or zeros.
    pub(crate) const WRITTEN_DEVICE: usize = 128;
    pub(crate) const WRITTEN_INODE: usize = 136;
    pub(crate) const WRITTEN_CHANGED: usize = 144;
    /// Periods that are missing in the records.
    pub(crate) const LOST: usize = 152;
    /// How often an object was met.
    pub(crate) const MEETINGS: usize = 176;
    /// Bytes of the absolute path that the profile is meant for, which stands at [`super::PATHS`].
    pub(crate) const TARGET_BYTES: usize = 160;
    /// Bytes of the program's path, which stands behind it.
    pub(crate) const PROGRAM_BYTES: usize = 168;
    /// Words of one half of the arena; 0 where it is one alone.
    pub(crate) const HALF_WORDS: usize = 184;
    /// See `halves.rs`.
    pub(crate) const STAND: usize = 192;
    /// Sum of the counts of records that were moved, before the last slice.
    pub(crate) const MOVED_BEFORE: usize = 200;
    /// Words that are moved once the last slice is: see `halves.rs`.
    pub(crate) const MOVED_WORDS: usize = 208;
    /// The sum with the last slice.
    pub(crate) const MOVED_PERIODS: usize = 216;
    /// Name of the file that they are in, in the directory of the profile, with NULs behind it.
    pub(crate) const MOVED_NAME: usize = 224;
    /// 1 where the last word of a record says whose it is.
    pub(crate) const IS_BY_THREAD: usize = MOVED_NAME + super::MOVED_NAME_BYTES;
    /// One number for each of [`super::Ancestors`].
    pub(crate) const ANCESTORS: usize = IS_BY_THREAD + 8;
    /// Where in the text the lines begin that count: a session that ends puts those of its end behind those of its start.
    pub(crate) const TEXT_FROM: usize = super::END;
    /// [`super::FIGURES`] numbers of a session that has ended, or whose program was replaced.
    pub(crate) const FIGURES: usize = TEXT_FROM + 8;
}

/// Bytes that the name of the file of moved records may have.
pub(crate) const MOVED_NAME_BYTES: usize = 48;
/// How that name begins and ends.
pub(crate) const MOVED_PREFIX: &[u8] = b".sigprof-";
pub(crate) const MOVED_SUFFIX: &[u8] = b".records";

/// What tells a file from all that stood at its place before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When its contents changed last, in nanoseconds since 1970, wrapping.
    pub(crate) changed: u64,
}

/// Most ancestors that are kept.
pub(crate) const MOST_ANCESTORS: usize = 4;

/// Ids of the processes that a process was forked from since its program was started, the nearest first; zeros follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancestors(pub(crate) [u32; MOST_ANCESTORS]);

impl Ancestors {
    /// Those of a child that a process with these ancestors has forked.
    pub(crate) fn of_child(self, parent: u32) -> Self {
        let [first, second, third, _] = self.0;
        Self([parent, first, second, third])
    }

    /// True of a process that was not forked from one with a session.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Where the two paths stand.
pub(crate) const PATHS: usize = field::ANCESTORS + 8 * MOST_ANCESTORS;
/// Where the head's last page begins: what a session says at its end. Only a session that will say something
/// has room for it from its start on.
pub(crate) const END: usize = TEXT - 4096;
/// Bytes of the head, paths included.
pub(crate) const TEXT: usize = 64 << 10;
pub(crate) const TEXT_BYTES: usize = 960 << 10;
pub(crate) const OBJECTS: usize = TEXT + TEXT_BYTES;
/// Most objects that are kept.
pub(crate) const MOST_OBJECTS: usize = 307;
/// Meeting, length of the name, number of segments; start, end and offset of each segment; the name. The meeting is 0
/// until the rest is complete, and then the number of the last time that the object was met anew.
pub(crate) const OBJECT_BYTES: usize = 8 * (3 + 3 * OBJECT_SEGMENTS) + OBJECT_NAME_BYTES;
pub(crate) const OBJECT_SEGMENTS: usize = 4;
pub(crate) const OBJECT_NAME_BYTES: usize = 512;
pub(crate) const THREADS: usize = OBJECTS + (192 << 10);
/// Most threads that are kept.
pub(crate) const MAX_THREADS: usize = 4096;
/// The id, 0 until the name is there, and the name.
pub(crate) const THREAD_BYTES: usize = 8 + NAME_BYTES;
pub(crate) const ARENA: usize = THREADS + (128 << 10);
const _: () = assert!(OBJECTS + MOST_OBJECTS * OBJECT_BYTES <= THREADS);
const _: () = assert!(THREADS + MAX_THREADS * THREAD_BYTES <= ARENA && ARENA % (64 << 10) == 0);

/// What a record's depth is marked with: half of it is no address of any program.
pub(crate) const RECORD_MARK: usize =
    if cfg!(target_pointer_width = "64") { MARK_OF_8 as usize } else { MARK_OF_4 as usize };
const MARK_OF_8: u64 = 0xffc0_5a6d_9e37_0000;
const MARK_OF_4: u64 = 0xffc0_0000;
/// The bits of a marked depth that hold the depth.
pub(crate) const DEPTH_MASK: usize = 0xffff;

/// More than the arena of any session.
const MOST_ARENA_BYTES: u64 = 1 << 30;
const MOST_PATH_BYTES: u64 = 4096;
/// Depths of records: none is larger.
const MOST_DEPTH: u64 = 4096;

/// How far a session came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// The profile is nowhere else.
    Running = 1,
    /// It has been written; the file is of no use.
    Complete = 2,
    /// The session is over, or its program was replaced, and the profile is nowhere else.
    Ended = 3,
    /// Its program is about to be replaced, and the profile is nowhere else. Should that fail it runs again.
    Replaced = 4,
}

/// Bytes that can be read at any offset.
pub(crate) trait Source {
    /// Fills `buffer` from `offset` on as far as there are bytes; gives their number.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// Why a file is no spool that can be read.
#[derive(Debug)]
pub(crate) enum SpoolError {
    Io(io::Error),
    /// Not a spool, or not begun.
    NoSpool,
    /// Of another version of the library, or of a machine with another byte order.
    OtherVersion,
    /// A number in the head cannot be.
    Damaged(&'static str),
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn number_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// Up to `length` bytes from `offset` on; fewer where the source ends.
fn read(source: &impl Source, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    const PIECE: usize = 256 << 10;
    let mut bytes = Vec::new();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    while bytes.len() < length {
        let start = bytes.len();
        // In pieces: what the head claims may be far more than the file holds.
        bytes.resize((start + PIECE).min(length), 0);
        let got = source.read_at(offset + start as u64, bytes.get_mut(start..).unwrap_or_default())?;
        bytes.truncate(start + got);
        if got == 0 {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
impl Source for Vec<u8> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(start..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(rest) {
            *place = *byte;
        }
        Ok(length)
    }
}
