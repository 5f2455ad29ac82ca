//! The spool: a session's file while it runs, from which a profile is made when the process could not.
//!
//! It is no exchange format. The library writes it through a shared mapping, and the same version reads it; another
//! version, or another byte order, is refused. All numbers but those of the arena are 8 bytes wide and native.
//!
//! ```text
//! offset            what
//! 0                 head, one number at each offset of `field`, then target and program
//! END               what a session that leaves its profile here says at its end
//! TEXT              executable lines of /proc/self/maps as they were at the start
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

use super::{
    Mapping, Permissions,
    halves::{MOST_MOVED_WORDS, Stand},
    maps::Device,
};
use crate::thread::{NAME_BYTES, Thread, ThreadName};
use std::{borrow::Cow, cmp::Reverse, io};

/// The first bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"sigprofS");
/// Changes with the layout.
pub(crate) const VERSION: u64 = 4;

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

/// How many numbers a session says of itself at its end; all are 0 before.
pub(crate) const FIGURES: usize = 10;

/// What a session says of itself at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndFigures {
    pub(crate) elapsed_nanos: u64,
    pub(crate) cpu_nanos: u64,
    pub(crate) unaccounted_nanos: u64,
    pub(crate) blocking_threads: u64,
    pub(crate) timers_refused: u64,
    pub(crate) walks: u64,
    pub(crate) whole_walks: u64,
    pub(crate) lost: u64,
    /// Why there are no samples, as `NoSamples` numbers the reasons; 0 where there are some.
    pub(crate) no_samples: u64,
}

impl EndFigures {
    /// As they stand in the head. The first is 1: they are there.
    pub(crate) fn words(self) -> [u64; FIGURES] {
        [
            1,
            self.elapsed_nanos,
            self.cpu_nanos,
            self.unaccounted_nanos,
            self.blocking_threads,
            self.timers_refused,
            self.walks,
            self.whole_walks,
            self.lost,
            self.no_samples,
        ]
    }

    /// None where they are not there.
    fn from_words(words: [u64; FIGURES]) -> Option<Self> {
        let [is_there, rest @ ..] = words;
        let [elapsed_nanos, cpu_nanos, unaccounted_nanos, blocking_threads, rest @ ..] = rest;
        let [timers_refused, walks, whole_walks, lost, no_samples] = rest;
        (is_there == 1).then_some(Self {
            elapsed_nanos,
            cpu_nanos,
            unaccounted_nanos,
            blocking_threads,
            timers_refused,
            walks,
            whole_walks,
            lost,
            no_samples,
        })
    }
}

/// Where the two paths stand.
pub(crate) const PATHS: usize = field::IS_BY_THREAD + 8;
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
pub(crate) const MOST_THREADS: usize = 4096;
/// The id, 0 until the name is there, and the name.
pub(crate) const THREAD_BYTES: usize = 8 + NAME_BYTES;
pub(crate) const ARENA: usize = THREADS + (128 << 10);
const _: () = assert!(OBJECTS + MOST_OBJECTS * OBJECT_BYTES <= THREADS);
const _: () = assert!(THREADS + MOST_THREADS * THREAD_BYTES <= ARENA && ARENA % (64 << 10) == 0);

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

/// The head of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) word_bytes: usize,
    pub(crate) is_complete: bool,
    /// The session is over, though the process may still run.
    pub(crate) is_ended: bool,
    /// So it is where the process has another session, of the program that it runs now.
    pub(crate) is_replaced: bool,
    /// None where the process was killed.
    pub(crate) figures: Option<EndFigures>,
    pub(crate) process: u32,
    pub(crate) process_start: u64,
    pub(crate) namespace: u64,
    pub(crate) started: u64,
    pub(crate) period_micros: u64,
    pub(crate) is_cut: bool,
    pub(crate) is_by_thread: bool,
    pub(crate) lost: u64,
    /// Of the file that stood at the target when the session began, and of the one it wrote there.
    pub(crate) stamps: [FileStamp; 2],
    pub(crate) target: Vec<u8>,
    pub(crate) program: Vec<u8>,
    /// The records that were moved to a file; None where none were.
    pub(crate) moved: Option<Moved>,
    /// The name of that file, which may be there without a record.
    pub(crate) moved_name: Option<Vec<u8>>,
    stand: Stand,
    half_words: u64,
    arena_bytes: u64,
    text_from: u64,
    text_bytes: u64,
    objects: u64,
}

/// Records in a file beside the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Its first bytes, which are theirs.
    pub(crate) bytes: u64,
    /// Sum of their counts.
    pub(crate) periods: u64,
}

/// Whose a spool is in which no sample lies.
pub(crate) struct EmptyOwner {
    pub(crate) process: u32,
    pub(crate) process_start: u64,
    pub(crate) namespace: u64,
}

/// The owner that these first bytes name, if they are those of a spool that is complete or holds no sample.
pub(crate) fn owner_of_empty(head: &[u8]) -> Option<EmptyOwner> {
    let number = |offset| number_at(head, offset);
    let is_spool = number(field::MAGIC)? == MAGIC && number(field::VERSION)? == VERSION;
    let is_empty = number(field::ARENA_BYTES)? == 0 || number(field::STATE)? == State::Complete as u64;
    // A file that it knows of would be left.
    let is_empty = is_empty && moved_name(head).is_none();
    (is_spool && is_empty).then_some(EmptyOwner {
        process: u32::try_from(number(field::PROCESS)?).ok()?,
        process_start: number(field::PROCESS_START)?,
        namespace: number(field::NAMESPACE)?,
    })
}

/// One call chain and its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpooledRecord {
    /// At least 1.
    pub(crate) count: u64,
    /// Leaf first, at least one.
    pub(crate) pcs: Vec<u64>,
    /// Whose it is, as its last word says: see [`thread_of`].
    pub(crate) thread: u64,
}

/// The thread that a record's last word means, among those of its spool.
pub(crate) fn thread_of(threads: &[Option<Thread>], word: u64) -> Option<Thread> {
    let place = usize::try_from(word.checked_sub(2)?).ok()?;
    threads.get(place).copied().flatten()
}

impl Head {
    /// Reads the head.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn read(source: &impl Source) -> Result<Self, SpoolError> {
        let bytes = read(source, 0, PATHS as u64)?;
        let number = |offset: usize| number_at(&bytes, offset).ok_or(SpoolError::NoSpool);
        if number(field::MAGIC)? != MAGIC {
            let is_swapped = number(field::MAGIC)?.swap_bytes() == MAGIC;
            return Err(if is_swapped { SpoolError::OtherVersion } else { SpoolError::NoSpool });
        }
        if number(field::VERSION)? != VERSION {
            return Err(SpoolError::OtherVersion);
        }
        let end = read(source, END as u64, (field::FIGURES + 8 * FIGURES - END) as u64)?;
        let state = number(field::STATE)?;
        if state == 0 {
            return Err(SpoolError::NoSpool);
        }
        let word_bytes = match number(field::WORD_BYTES)? {
            4 => 4,
            8 => 8,
            _ => return Err(SpoolError::Damaged("width of words")),
        };
        let process =
            u32::try_from(number(field::PROCESS)?).map_err(|_| SpoolError::Damaged("process id"))?;
        let period_micros = number(field::PERIOD_MICROS)?;
        if !(1..=u64::from(u32::MAX)).contains(&period_micros) {
            return Err(SpoolError::Damaged("period"));
        }
        let stamp = |device, inode, changed| -> Result<FileStamp, SpoolError> {
            Ok(FileStamp { device: number(device)?, inode: number(inode)?, changed: number(changed)? })
        };
        let paths = [number(field::TARGET_BYTES)?, number(field::PROGRAM_BYTES)?];
        if paths.iter().any(|&length| length > MOST_PATH_BYTES) {
            return Err(SpoolError::Damaged("length of a path"));
        }
        let stand = Stand::from_word(number(field::STAND)?);
        Ok(Self {
            moved: moved(&bytes, stand, word_bytes),
            moved_name: moved_name(&bytes).map(<[u8]>::to_vec),
            stand,
            half_words: number(field::HALF_WORDS)?,
            word_bytes,
            is_complete: state == State::Complete as u64,
            is_ended: state == State::Ended as u64,
            is_replaced: state == State::Replaced as u64,
            figures: figures(&end),
            process,
            process_start: number(field::PROCESS_START)?,
            namespace: number(field::NAMESPACE)?,
            started: number(field::STARTED)?,
            period_micros,
            is_cut: number(field::IS_CUT)? != 0,
            is_by_thread: number(field::IS_BY_THREAD)? != 0,
            lost: number(field::LOST)?,
            stamps: [
                stamp(field::TARGET_DEVICE, field::TARGET_INODE, field::TARGET_CHANGED)?,
                stamp(field::WRITTEN_DEVICE, field::WRITTEN_INODE, field::WRITTEN_CHANGED)?,
            ],
            target: read(source, PATHS as u64, paths[0])?,
            program: read(source, PATHS as u64 + paths[0], paths[1])?,
            arena_bytes: number(field::ARENA_BYTES)?.min(MOST_ARENA_BYTES),
            text_from: number_at(&end, 0).unwrap_or(0).min(TEXT_BYTES as u64),
            text_bytes: number(field::TEXT_BYTES)?.min(TEXT_BYTES as u64),
            objects: number(field::OBJECTS)?.min(MOST_OBJECTS as u64),
        })
    }

    /// Reads all records that were not moved, in each half in the order in which their chains were first met.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn records(&self, source: &impl Source) -> io::Result<Vec<SpooledRecord>> {
        let mut records = Vec::new();
        let arena = read(source, ARENA as u64, self.arena_bytes)?;
        let half_bytes =
            usize::try_from(self.half_words).unwrap_or(usize::MAX).saturating_mul(self.word_bytes);
        if half_bytes == 0 {
            self.add_records(&arena, &mut records);
            return Ok(records);
        }
        for (half, bytes) in arena.chunks(half_bytes).take(2).enumerate() {
            let Some(from) = self.stand.records_from(half) else { continue };
            self.add_records(bytes.get(from * self.word_bytes..).unwrap_or_default(), &mut records);
        }
        Ok(records)
    }

    /// The records of some part of the arena.
    fn add_records(&self, bytes: &[u8], records: &mut Vec<SpooledRecord>) {
        let words = Words { bytes, width: self.word_bytes };
        let mut place = 0;
        while let Some(head) = words.next_head(place) {
            let (count, depth) = (words.get(head.place).unwrap_or(0), head.depth);
            let start = head.place + 2;
            place = start + depth;
            let Some(pcs) = (start..place).map(|i| words.get(i)).collect::<Option<Vec<u64>>>() else { break };
            records.extend(self.record(count, pcs));
        }
    }

    /// What a record's words come to; None for one that was not counted, or that none of ours is.
    fn record(&self, count: u64, mut words: Vec<u64>) -> Option<SpooledRecord> {
        if count == 0 || words.contains(&0) {
            return None;
        }
        let thread = if self.is_by_thread { words.pop()? } else { 0 };
        (!words.is_empty()).then_some(SpooledRecord { count, pcs: words, thread })
    }

    /// Reads the threads, each at its place.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn threads(&self, source: &impl Source) -> io::Result<Vec<Option<Thread>>> {
        if !self.is_by_thread {
            return Ok(Vec::new());
        }
        let bytes = read(source, THREADS as u64, (MOST_THREADS * THREAD_BYTES) as u64)?;
        let thread = |bytes: &[u8]| {
            let id = u32::try_from(number_at(bytes, 0)?).ok().filter(|id| *id != 0)?;
            let name = ThreadName::from_words([number_at(bytes, 8)?, number_at(bytes, 16)?]);
            Some(Thread { id, name })
        };
        Ok(bytes.chunks_exact(THREAD_BYTES).map(thread).collect())
    }

    /// The whole records that begin `bytes`, which are from the file of moved ones, and how many bytes they take.
    pub(crate) fn moved_records(&self, bytes: &[u8]) -> (Vec<SpooledRecord>, usize) {
        let words = Words { bytes, width: self.word_bytes };
        let mut records = Vec::new();
        let mut place = 0;
        loop {
            let (count, depth) = (words.get(place).unwrap_or(0), words.get(place + 1).unwrap_or(0));
            if count == 0 || !(1..=MOST_DEPTH).contains(&depth) {
                break;
            }
            let start = place + 2;
            let end = start + depth as usize;
            let Some(pcs) = (start..end).map(|i| words.get(i)).collect::<Option<Vec<u64>>>() else { break };
            records.extend(self.record(count, pcs));
            place = end;
        }
        (records, place * self.word_bytes)
    }

    /// Reads the mapped objects: those that were met later, and those of the start where they overlap none of these.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn mappings(&self, source: &impl Source) -> io::Result<Vec<Mapping<'static>>> {
        let text_bytes = self.text_bytes.saturating_sub(self.text_from);
        let text = read(source, TEXT as u64 + self.text_from, text_bytes)?;
        let objects = read(source, OBJECTS as u64, self.objects * OBJECT_BYTES as u64)?;
        let mut objects: Vec<&[u8]> = objects.chunks_exact(OBJECT_BYTES).collect();
        objects.sort_by_key(|object| Reverse(number_at(object, 0)));
        let mut met: Vec<Mapping<'static>> = Vec::new();
        // Several objects may have had the same addresses, one after another: the last one met is listed.
        for segment in objects.into_iter().flat_map(segments) {
            if !met.iter().any(|known| overlap(known, &segment)) {
                met.push(segment);
            }
        }
        let lines = text.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line);
        let mut mappings = Vec::new();
        let mut end = 0;
        for line in lines {
            // A kernel's lines come in order. Others, each cut into pieces by all objects, would be too many.
            if line.start >= end {
                end = line.end;
                mappings.extend(without(owned(line), &met));
            }
        }
        mappings.extend(met);
        Ok(mappings)
    }
}

/// What the last page of a head says.
fn figures(end: &[u8]) -> Option<EndFigures> {
    let mut words = [0; FIGURES];
    for (i, word) in words.iter_mut().enumerate() {
        *word = number_at(end, field::FIGURES - END + 8 * i)?;
    }
    EndFigures::from_words(words)
}

/// The name that a head gives to the file of moved records; one that none of ours has is none.
fn moved_name(head: &[u8]) -> Option<&[u8]> {
    let name = head.get(field::MOVED_NAME..field::MOVED_NAME + MOVED_NAME_BYTES)?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_ours = name.starts_with(MOVED_PREFIX) && name.ends_with(MOVED_SUFFIX) && !name.contains(&b'/');
    is_ours.then_some(name)
}

/// What a head says of moved records.
fn moved(head: &[u8], stand: Stand, word_bytes: usize) -> Option<Moved> {
    let words = stand.moved.min(MOST_MOVED_WORDS);
    // The last slice was noted before it was moved.
    let is_behind_slice = words >= number_at(head, field::MOVED_WORDS)?;
    let periods = if is_behind_slice { field::MOVED_PERIODS } else { field::MOVED_BEFORE };
    (words > 0 && moved_name(head).is_some())
        .then_some(Moved { bytes: words * word_bytes as u64, periods: number_at(head, periods)? })
}

fn overlap(a: &Mapping<'_>, b: &Mapping<'_>) -> bool {
    a.start < b.end && b.start < a.end
}

/// What is left of `mapping` where none of `others` lies.
fn without(mapping: Mapping<'static>, others: &[Mapping<'_>]) -> Vec<Mapping<'static>> {
    let mut left = vec![mapping];
    for other in others {
        left = left.into_iter().flat_map(|piece| cut(piece, other)).collect();
    }
    left
}

/// The parts of `piece` before and behind `other`.
fn cut(piece: Mapping<'static>, other: &Mapping<'_>) -> Vec<Mapping<'static>> {
    if !overlap(&piece, other) {
        return vec![piece];
    }
    let offset_behind = piece.offset.wrapping_add(other.end.wrapping_sub(piece.start));
    let before = Mapping { end: other.start, ..piece.clone() };
    let behind = Mapping { start: other.end, offset: offset_behind, ..piece };
    [before, behind].into_iter().filter(|part| part.start < part.end).collect()
}

/// The executable segments of an object that was met.
fn segments(object: &[u8]) -> Vec<Mapping<'static>> {
    let number = |i: usize| number_at(object, 8 * i).unwrap_or(0);
    let name_at = 8 * (3 + 3 * OBJECT_SEGMENTS);
    let name_bytes = usize::try_from(number(1)).unwrap_or(usize::MAX).min(OBJECT_NAME_BYTES);
    let name = object.get(name_at..name_at + name_bytes).unwrap_or_default();
    let is_usable = number(0) != 0 && !name.is_empty() && !name.contains(&b'\n');
    let count = if is_usable { number(2).min(OBJECT_SEGMENTS as u64) as usize } else { 0 };
    let segment = |i: usize| Mapping {
        start: number(3 + 3 * i),
        end: number(4 + 3 * i),
        permissions: Permissions { read: true, write: false, execute: true, shared: false },
        offset: number(5 + 3 * i),
        device: Device { major: 0, minor: 0 },
        inode: 0,
        path: Cow::Owned(name.to_vec()),
        build_id: Cow::Borrowed(&[]),
    };
    (0..count).map(segment).filter(|segment| segment.start < segment.end).collect()
}

fn owned(mapping: Mapping<'_>) -> Mapping<'static> {
    Mapping {
        path: Cow::Owned(mapping.path.into_owned()),
        build_id: Cow::Owned(mapping.build_id.into_owned()),
        ..mapping
    }
}

/// Where a record begins, and its depth.
struct RecordHead {
    place: usize,
    depth: usize,
}

/// The words of the arena.
struct Words<'b> {
    bytes: &'b [u8],
    width: usize,
}

impl Words<'_> {
    fn get(&self, i: usize) -> Option<u64> {
        let start = i.checked_mul(self.width)?;
        let bytes = self.bytes.get(start..start.checked_add(self.width)?)?;
        match *bytes {
            [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
            _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        }
    }

    /// The first record at `place` or behind it.
    fn next_head(&self, place: usize) -> Option<RecordHead> {
        let mark = if self.width == 8 { MARK_OF_8 } else { MARK_OF_4 };
        (place..self.bytes.len() / self.width).find_map(|place| {
            let marked = self.get(place + 1)?;
            let depth = marked & DEPTH_MASK as u64;
            let is_head = marked & !(DEPTH_MASK as u64) == mark && (1..=MOST_DEPTH).contains(&depth);
            is_head.then_some(RecordHead { place, depth: depth as usize })
        })
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

#[cfg(test)]
mod tests;
