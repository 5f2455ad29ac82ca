//! Tests on a real file in memory, as spools are by default.

use super::*;
use crate::{
    format::{
        Mapping as Listed,
        double_buffer::{BufferState, Other},
        spool::{Head, MAX_THREADS, SpooledRecord, thread_of},
    },
    sample::{
        sampled_dsos::SampledSegment,
        table::{Memory, Shape, SpillSlice, Table, tests::Fixed},
    },
    sys::private_directory::{Access, PrivateDirectory},
    thread::ThreadName,
};
use std::{
    ffi::CString,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::PathBuf,
};

struct Rig {
    /// Held for its drop.
    scratch: tempfile::TempDir,
    path: PathBuf,
    memory: SpoolMemory,
}

const ARENA_BYTES: usize = 4 << 20;

impl Rig {
    /// The file has space for `room` bytes of records; after that it looks like a full file system.
    fn new(room: usize) -> Self {
        let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
        let directory = CString::new(scratch.path().as_os_str().as_bytes()).unwrap();
        let directory = PrivateDirectory::open_own(&directory, Access::Readable).unwrap();
        let file = directory.create_new(c"spool").unwrap();
        file.set_length((ARENA + room) as u64).unwrap();
        let mapping = OwnedMapping::of_file(&file, ARENA + ARENA_BYTES).unwrap();
        let facts = HeadFacts {
            process: 17,
            process_start: 18,
            namespace: 19,
            started: 20,
            period_micros: 22,
            is_by_thread: false,
            ancestors: Ancestors([23, 24, 0, 0]),
            target: b"/t/prof",
            program: b"/p",
            target_stamp: FileStamp { device: 1, inode: 2, changed: 3 },
            stores_figures: true,
        };
        let memory = SpoolMemory::spooled(mapping, ARENA_BYTES, &facts).unwrap();
        Self { path: scratch.path().join("spool"), scratch, memory }
    }

    fn head(&self) -> (Head, Vec<u8>) {
        let bytes = fs::read(&self.path).unwrap();
        (Head::read(&bytes).unwrap(), bytes)
    }

    fn records(&self) -> Vec<(u64, Vec<u64>)> {
        let (head, bytes) = self.head();
        let plain = |record: SpooledRecord| (record.count, record.pcs);
        head.records(&bytes).unwrap().into_iter().map(plain).collect()
    }

    fn listed(&self) -> Vec<Listed<'static>> {
        let (head, bytes) = self.head();
        head.mappings(&bytes).unwrap()
    }
}

struct Spooled {
    index: Fixed,
    memory: SpoolMemory,
}

impl Memory for Spooled {
    fn index(&self, from: usize, to: usize) -> Option<&[modelled::AtomicU64]> {
        self.index.index(from, to)
    }
    fn grow_index(&self, to: usize) -> bool {
        self.index.grow_index(to)
    }
    fn arena(&self, from: usize, to: usize) -> Option<&[modelled::AtomicUsize]> {
        self.memory.words(from, to)
    }
    fn grow_arena(&self, to: usize) -> bool {
        self.memory.grow(to * size_of::<usize>())
    }
    fn shape(&self) -> Shape {
        Shape { arena_words: self.memory.most() / size_of::<usize>(), ..self.index.shape() }
    }
    fn buffer_state(&self) -> &modelled::AtomicU64 {
        self.memory.buffer_state()
    }
    fn note_spilling(&self, slice: &SpillSlice<'_>) {
        self.memory.note_spilling(slice);
    }
}

fn chain(i: usize) -> Vec<usize> {
    (0..50).map(|depth| 0x10_0000 + 0x100 * i + depth).collect()
}

fn dso(name: &[u8], start: usize) -> SampledDso {
    SampledDso::with_segment(name, SampledSegment { start, end: start + 0x1000, offset: 0x40 })
}

#[test]
fn stores_the_session_in_the_head() {
    let (head, _) = Rig::new(ARENA_BYTES).head();
    assert_eq!((head.process, head.process_start, head.namespace), (17, 18, 19));
    assert_eq!(head.ancestors, Ancestors([23, 24, 0, 0]));
    assert_eq!((head.started, head.period_micros), (20, 22));
    assert_eq!(head.stamps, [FileStamp { device: 1, inode: 2, changed: 3 }, FileStamp::default()]);
    assert_eq!((head.target.as_slice(), head.program.as_slice()), (&b"/t/prof"[..], &b"/p"[..]));
    assert_eq!((head.is_complete, head.is_truncated, head.word_bytes), (false, false, size_of::<usize>()));
}

/// A slice is noted before it is spilled, and a process may be killed in between.
#[test]
fn keeps_the_sum_of_spilled_words_consistent() {
    let rig = Rig::new(ARENA_BYTES);
    let name = b".sigprof-0.records";
    let note = |periods_before, words, periods| {
        rig.memory.note_spilling(&SpillSlice { name, periods_before, words, periods });
        rig.head().0.spilled.map(|spilled| spilled.periods)
    };
    let move_to = |spilled| {
        let state = BufferState { active: 1, other: Other::Records(1), spilled };
        rig.memory.buffer_state().store(state.word(), Ordering::SeqCst);
        rig.head().0.spilled.map(|spilled| spilled.periods)
    };
    assert_eq!((note(0, 10, 4), move_to(10)), (None, Some(4)));
    assert_eq!((note(4, 15, 9), move_to(15)), (Some(4), Some(9)));
    assert_eq!((note(9, 16, 10), move_to(16)), (Some(9), Some(10)));
}

#[test]
fn stores_each_record_in_the_file_immediately() {
    let Rig { path, memory, scratch: _scratch } = Rig::new(ARENA_BYTES);
    let table = Table::new(Spooled { index: Fixed::new(3, 1), memory });
    for i in 0..2000 {
        table.add(&chain(i), i + 1).unwrap();
        if i % 100 == 0 {
            let bytes = fs::read(&path).unwrap();
            let records = Head::read(&bytes).unwrap().records(&bytes).unwrap();
            assert_eq!(records.len(), i + 1);
            let last: Vec<u64> = chain(i).into_iter().map(|pc| pc as u64).collect();
            let last = SpooledRecord { count: i as u64 + 1, pcs: last, thread: 0 };
            assert_eq!(records.last(), Some(&last));
        }
    }
    assert!(!table.memory().memory.is_truncated());
}

#[test]
fn continues_in_anonymous_memory_and_reports_truncation() {
    let Rig { path, memory, scratch: _scratch } = Rig::new(128 << 10);
    let table = Table::new(Spooled { index: Fixed::new(3, 1), memory });
    for i in 0..2000 {
        table.add(&chain(i), 1).unwrap();
    }
    // Records in the file still count there.
    table.add(&chain(0), 6).unwrap();
    assert!(table.memory().memory.is_truncated());
    assert_eq!(table.records().map(|(count, _)| count).sum::<usize>(), 2006);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), ARENA + (128 << 10), "the file does not grow");
    let head = Head::read(&bytes).unwrap();
    let records = head.records(&bytes).unwrap();
    let whole = (128 << 10) / (52 * size_of::<usize>());
    assert!(head.is_truncated);
    assert_eq!((records.len(), records[0].count), (whole, 7), "all that fit, and no part of another");
}

#[test]
fn refuses_memory_beyond_the_end() {
    let Rig { memory, scratch: _scratch, .. } = Rig::new(ARENA_BYTES);
    assert!(memory.grow(ARENA_BYTES) && !memory.grow(ARENA_BYTES + 1) && memory.grow(1));
    assert!(memory.words(0, ARENA_BYTES / size_of::<usize>()).is_some());
    assert!(memory.words(0, ARENA_BYTES / size_of::<usize>() + 1).is_none());
    let anonymous = SpoolMemory::anonymous(ARENA_BYTES).unwrap();
    assert!(anonymous.words(0, 1).is_none() && anonymous.grow(1) && anonymous.words(0, 1).is_some());
    assert!(anonymous.grow(ARENA_BYTES) && !anonymous.grow(ARENA_BYTES + 1));
}

#[test]
fn appends_lines() {
    let rig = Rig::new(ARENA_BYTES);
    rig.memory.keep_text(b"1000-2000 r-xp 00000000 00:00 0 /a\n").unwrap();
    rig.memory.keep_text(b"3000-4000 r-xp 00000000 00:00 0 /b\n").unwrap();
    let paths: Vec<_> = rig.listed().into_iter().map(|line| line.path.into_owned()).collect();
    assert_eq!(paths, [b"/a", b"/b"]);
    let rest = vec![b'x'; TEXT_BYTES];
    assert_eq!(rig.memory.keep_text(&rest), Err(errno::ENOSPC));
    assert_eq!(rig.listed().len(), 2, "and stay when more does not fit");
}

#[test]
fn stores_an_object_once() {
    let rig = Rig::new(ARENA_BYTES);
    for _ in 0..2 * MAX_OBJECTS {
        rig.memory.spool_dso(&dso(b"/one", 0x10_0000));
        rig.memory.spool_dso(&dso(b"/other", 0x10_0000));
    }
    rig.memory.spool_dso(&dso(b"/one", 0x20_0000));
    rig.memory.spool_dso(&dso(b"/one", 0x10_0000));
    let listed: Vec<_> = rig.listed().into_iter().map(|line| (line.start, line.path.into_owned())).collect();
    assert_eq!(listed, [(0x10_0000, b"/one".to_vec()), (0x20_0000, b"/one".to_vec())], "last dso first");
}

#[test]
fn ignores_objects_beyond_the_last_entry() {
    let rig = Rig::new(ARENA_BYTES);
    for i in 0..MAX_OBJECTS + 10 {
        rig.memory.spool_dso(&dso(b"/o", 0x10_0000 + 0x1000 * i));
    }
    assert_eq!(rig.listed().len(), MAX_OBJECTS);
}

#[test]
fn stores_threads_with_their_newest_names() {
    let rig = Rig::new(ARENA_BYTES);
    let named = |id, name: &[u8]| {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name);
        Thread { id, name: ThreadName::new(bytes) }
    };
    let indices = [1, 2, 300, MAX_THREADS].map(|number| ThreadIndex::from_word(number + 1));
    let expected = [named(5, b"one"), named(6, b"new"), named(7, b""), named(8, b"fifteen letters")];
    rig.memory.keep_thread(indices[1], named(6, b"older and long"));
    for (index, thread) in indices.into_iter().zip(expected) {
        rig.memory.keep_thread(index, thread);
    }
    rig.memory.keep_thread(ThreadIndex::OTHER, named(9, b"other"));
    assert_eq!(rig.head().0.threads(&rig.head().1).unwrap(), [], "the head says that there are none");
    rig.memory.set(field::IS_BY_THREAD, 1);
    let (head, bytes) = rig.head();
    let threads = head.threads(&bytes).unwrap();
    assert_eq!(threads.iter().flatten().count(), 4);
    assert_eq!(indices.map(|index| thread_of(&threads, index.word() as u64)), expected.map(Some));
}

#[test]
fn ignores_a_thread_without_space() {
    let rig = Rig::new(ARENA_BYTES);
    fs::File::options().write(true).open(&rig.path).unwrap().set_len(THREADS as u64).unwrap();
    rig.memory.keep_thread(ThreadIndex::from_word(2), Thread::default());
}

#[test]
fn uses_no_more_than_its_share() {
    let mut rig = Rig::new(ARENA_BYTES);
    rig.memory.most_spooled = 128 << 10;
    assert!(rig.memory.grow((128 << 10) - AHEAD) && !rig.memory.is_truncated());
    assert!(rig.memory.grow(128 << 10) && rig.memory.is_truncated());
    assert!(rig.memory.grow(1 << 20) && rig.memory.is_truncated());
    let (head, bytes) = rig.head();
    assert!(head.is_truncated);
    assert_eq!(bytes.len(), ARENA + ARENA_BYTES);
    use std::os::unix::fs::MetadataExt;
    let blocks = fs::metadata(&rig.path).unwrap().blocks();
    assert!(blocks <= (TEXT as u64 + (128 << 10)) / 512, "{blocks}");
}

#[test]
fn stores_losses_and_written_files() {
    let rig = Rig::new(ARENA_BYTES);
    rig.memory.note_lost(3);
    rig.memory.note_lost(4);
    rig.memory.note_written(FileStamp { device: 5, inode: 6, changed: 7 });
    rig.memory.set_state(SpoolState::Ended);
    let (head, _) = rig.head();
    assert_eq!((head.lost, head.stamps[1]), (7, FileStamp { device: 5, inode: 6, changed: 7 }));
    assert!(head.is_ended && !head.is_complete);
}

#[test]
fn frees_punched_records() {
    use std::os::unix::fs::MetadataExt;
    let rig = Rig::new(ARENA_BYTES);
    assert!(rig.memory.grow(ARENA_BYTES));
    assert!(fs::metadata(&rig.path).unwrap().blocks() >= ARENA_BYTES as u64 / 512);
    rig.memory.set_state(SpoolState::Complete);
    // SAFETY: the test does not use the records any more.
    unsafe { rig.memory.punch() };
    assert!(fs::metadata(&rig.path).unwrap().blocks() <= TEXT as u64 / 512);
    assert!(rig.head().0.is_complete, "the head stays");
    assert_eq!(rig.records(), []);
}

#[test]
fn stores_and_clears_final_figures_without_more_space() {
    let rig = Rig::new(ARENA_BYTES);
    let blocks = || fs::metadata(&rig.path).unwrap().blocks();
    let before = blocks();
    let figures = EndFigures { walks: 3, ..EndFigures::default() };
    rig.memory.note_end(figures);
    assert_eq!((blocks(), rig.head().0.figures), (before, Some(figures)));
    rig.memory.clear_end();
    assert_eq!(rig.head().0.figures, None);
}
