//! The spool: a session's file while it runs, from which a killed process's profile is made.
//!
//! It is not an exchange format: only the same version, with the same byte order, reads it. The
//! library writes it through a shared mapping. Readers do not trust it. Numbers outside the arena
//! are 8 bytes wide, in native byte order.
//!
//! ```text
//! offset     contents
//! 0          head: one number at each offset of `field`, then target and program
//! END        figures of a session that leaves its profile here, written at its end
//! TEXT       lines of /proc/self/maps at the start, and then at the end if they differ: the
//!            executable ones, and the lines around code that was moved to memory
//! OBJECTS    shared objects that were first sampled later, `OBJECT_BYTES` each
//! THREADS    sampled threads, `THREAD_BYTES` each, in a session by thread
//! ARENA      consecutive records: count | RECORD_MARK + depth | PCs, in process words
//! ```
//!
//! In a session by thread, a record has another word after its PCs, which its depth includes: 1 for
//! an unknown thread, otherwise the thread's index in THREADS plus 2. The arena may have two
//! halves. Records spilled from one of them are in a file beside the profile, without the mark.
//! `double_buffer.rs` describes which records of the file and of the half are valid.
//!
//! A record with a count of 0 was never counted: another thread had added the same stack, or the
//! process was killed. Space that was claimed but not filled is zero. The next record is found by
//! its mark, which is not a PC of any program.

mod end_figures;
mod head;
mod objects;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use end_figures::{EndFigures, FIGURES};
#[cfg(test)]
pub(crate) use head::Spilled;
pub(crate) use head::{EmptyOwner, Head, owner_of_empty};
pub(crate) use records::{SpooledRecord, thread_of};

use crate::thread::NAME_BYTES;
use std::io;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"sigprofS");
/// To be increased with each change of the layout.
pub(crate) const VERSION: u64 = 6;

pub(crate) mod field {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 8;
    pub(crate) const WORD_BYTES: usize = 16;
    pub(crate) const STATE: usize = 24;
    pub(crate) const PROCESS: usize = 32;
    /// Start time of the process, in clock ticks since boot (field 22 of /proc/PID/stat).
    pub(crate) const PROCESS_START: usize = 40;
    /// Inode of the PID namespace.
    pub(crate) const NAMESPACE: usize = 48;
    /// In seconds since 1970.
    pub(crate) const STARTED: usize = 56;
    pub(crate) const PERIOD_MICROS: usize = 64;
    /// Bytes of the arena that are in the file.
    pub(crate) const ARENA_BYTES: usize = 72;
    /// 1 if the file system was full, and later records are not in the file.
    pub(crate) const IS_TRUNCATED: usize = 80;
    pub(crate) const TEXT_BYTES: usize = 88;
    /// Number of claimed entries in OBJECTS; some may not be filled.
    pub(crate) const OBJECTS: usize = 96;
    /// The target file at the start of the session, or zeros: see [`super::FileStamp`].
    pub(crate) const TARGET_DEVICE: usize = 104;
    pub(crate) const TARGET_INODE: usize = 112;
    pub(crate) const TARGET_CHANGED: usize = 120;
    /// The target file as the session last wrote it, or zeros.
    pub(crate) const WRITTEN_DEVICE: usize = 128;
    pub(crate) const WRITTEN_INODE: usize = 136;
    pub(crate) const WRITTEN_CHANGED: usize = 144;
    pub(crate) const LOST: usize = 152;
    /// The number of the last sighting of an object: see [`super::OBJECT_BYTES`].
    pub(crate) const SIGHTINGS: usize = 176;
    /// Bytes of the profile's absolute path at [`super::PATHS`], then of the program's path.
    pub(crate) const TARGET_BYTES: usize = 160;
    pub(crate) const PROGRAM_BYTES: usize = 168;
    /// Words of one half of the arena; 0 if it is not divided.
    pub(crate) const HALF_WORDS: usize = 184;
    /// See `double_buffer.rs`.
    pub(crate) const BUFFER_STATE: usize = 192;
    /// Spilled: sum of counts without the last slice; words and sum of counts with it.
    pub(crate) const SPILLED_BEFORE: usize = 200;
    pub(crate) const SPILLED_WORDS: usize = 208;
    pub(crate) const SPILLED_PERIODS: usize = 216;
    /// Name of the spill file in the profile's directory, padded with NULs.
    pub(crate) const SPILL_NAME: usize = 224;
    /// 1 if the last word of a record is its thread.
    pub(crate) const IS_BY_THREAD: usize = SPILL_NAME + super::SPILL_NAME_BYTES;
    pub(crate) const ANCESTORS: usize = IS_BY_THREAD + 8;
    /// Offset of the valid lines: those of a session's end are after those of its start.
    pub(crate) const TEXT_FROM: usize = super::END;
    /// [`super::FIGURES`] numbers of a session that ended or was replaced by `exec`.
    pub(crate) const FIGURES: usize = TEXT_FROM + 8;
}

pub(crate) const SPILL_NAME_BYTES: usize = 48;
/// Start and end of the spill file's name.
pub(crate) const SPILL_PREFIX: &[u8] = b".sigprof-";
pub(crate) const SPILL_SUFFIX: &[u8] = b".records";

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Modification time, in nanoseconds since 1970, wrapping.
    pub(crate) changed: u64,
}

pub(crate) const MAX_ANCESTORS: usize = 4;

/// IDs of the processes from which a process was forked since its `exec`, the nearest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancestors(pub(crate) [u32; MAX_ANCESTORS]);

impl Ancestors {
    pub(crate) fn of_child(self, parent: u32) -> Self {
        let [first, second, third, _] = self.0;
        Self([parent, first, second, third])
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

pub(crate) const PATHS: usize = field::ANCESTORS + 8 * MAX_ANCESTORS;
/// The head's last page. Only a session that will write figures at its end has space for it.
pub(crate) const END: usize = TEXT - 4096;
pub(crate) const TEXT: usize = 64 << 10;
pub(crate) const TEXT_BYTES: usize = 960 << 10;
pub(crate) const OBJECTS: usize = TEXT + TEXT_BYTES;
pub(crate) const MAX_OBJECTS: usize = 307;
/// Sighting, length of the name, number of segments; start, end, offset of each; the name. The
/// sighting is 0 until the rest is complete, then the number of the latest one.
pub(crate) const OBJECT_BYTES: usize = 8 * (3 + 3 * OBJECT_SEGMENTS) + OBJECT_NAME_BYTES;
pub(crate) const OBJECT_SEGMENTS: usize = 4;
pub(crate) const OBJECT_NAME_BYTES: usize = 512;
pub(crate) const THREADS: usize = OBJECTS + (192 << 10);
pub(crate) const MAX_THREADS: usize = 4096;
/// The ID, which is 0 until the name is complete, and the name.
pub(crate) const THREAD_BYTES: usize = 8 + NAME_BYTES;
pub(crate) const ARENA: usize = THREADS + (128 << 10);
const _: () = assert!(OBJECTS + MAX_OBJECTS * OBJECT_BYTES <= THREADS);
const _: () = assert!(THREADS + MAX_THREADS * THREAD_BYTES <= ARENA && ARENA % (64 << 10) == 0);

/// Mark in a record's depth.
pub(crate) const RECORD_MARK: usize =
    if cfg!(target_pointer_width = "64") { MARK_OF_8 as usize } else { MARK_OF_4 as usize };
const MARK_OF_8: u64 = 0xffc0_5a6d_9e37_0000;
const MARK_OF_4: u64 = 0xffc0_0000;
pub(crate) const DEPTH_MASK: usize = 0xffff;

/// Above the arena of any session.
const MAX_ARENA_BYTES: u64 = 1 << 30;
const MAX_PATH_BYTES: u64 = 4096;
const MAX_DEPTH: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum SpoolState {
    /// The profile is only here.
    Running = 1,
    /// The profile was written elsewhere.
    Complete = 2,
    /// The session is over, or the program was replaced by `exec`; the profile is only here.
    Ended = 3,
    /// `exec` is about to run; if it fails, the session continues. The profile is only here.
    Replaced = 4,
}

pub(crate) trait SpoolSource {
    /// Reads into `buffer` up to the end of the source; returns the number of bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

#[derive(Debug)]
pub(crate) enum SpoolError {
    Io(io::Error),
    /// Also if it is not begun.
    NoSpool,
    /// Of another version of the library, or another byte order.
    OtherVersion,
    /// Names an invalid number of the head.
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

/// Reads up to `length` bytes; fewer if the source ends.
fn read(source: &impl SpoolSource, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    const PIECE: usize = 256 << 10;
    let mut bytes = Vec::new();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    while bytes.len() < length {
        let start = bytes.len();
        // In pieces: the head may claim far more than the file has.
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
impl SpoolSource for Vec<u8> {
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
