//! The outermost frame of a chain, found without call frame information and the walker's results.

use std::collections::HashMap;
use std::path::Path;

use object::{Object, ObjectSegment};
use sigprof::format::{CpuProfile, Record};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Root {
    /// In the first instructions of the program or of the dynamic loader.
    Process,
    /// After the call of the thread's function: the next instructions are the system call `exit`.
    Thread,
    /// Anywhere else: the chain is truncated. The file, and the address by its own tables.
    Elsewhere(String),
}

/// Bytes of `_start`, from the entry point.
const START_BYTES: u64 = 64;
/// `mov rdi, rax; mov eax, 60; syscall`, after the call in glibc's `clone` and `clone3`.
const THREAD_EXIT: [u8; 10] = [0x48, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];

/// A cache of files.
#[derive(Default)]
pub(crate) struct Roots {
    files: HashMap<String, Option<File>>,
}

struct File {
    bytes: Vec<u8>,
    entry: u64,
    /// File offset, size and address of each loadable segment.
    segments: Vec<(u64, u64, u64)>,
}

impl Roots {
    pub(crate) fn of(&mut self, profile: &CpuProfile, record: &Record) -> Root {
        let Some(&pc) = record.pcs.last() else { return Root::Elsewhere("no PC".into()) };
        let mut mappings = profile.mappings.iter().filter(|mapping| mapping.is_executable());
        let Some(mapping) = mappings.find(|mapping| mapping.contains(pc)) else {
            return Root::Elsewhere(format!("{pc:#x}, not mapped"));
        };
        let path = String::from_utf8_lossy(&mapping.path).into_owned();
        let offset = pc - mapping.start + mapping.offset;
        let file = self.files.entry(path.clone()).or_insert_with(|| File::read(Path::new(&path)));
        let Some(file) = file else { return Root::Elsewhere(format!("{path}, not readable")) };
        let address = file.address(offset).unwrap_or(offset);
        // Entry points have no caller: a chain that contains one twice is truncated.
        let is_only_once = record.pcs.iter().filter(|&&other| other == pc).count() == 1;
        let next = usize::try_from(offset).ok().and_then(|offset| file.bytes.get(offset..));
        if is_only_once && (file.entry..file.entry + START_BYTES).contains(&address) {
            Root::Process
        } else if is_only_once && next.is_some_and(|next| next.starts_with(&THREAD_EXIT)) {
            Root::Thread
        } else {
            Root::Elsewhere(format!("{path} {address:#x}, depth {}", record.pcs.len()))
        }
    }
}

impl File {
    fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let object = object::File::parse(bytes.as_slice()).ok()?;
        let segments = object.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        let (entry, segments) = (object.entry(), segments.collect());
        Some(Self { entry, segments, bytes })
    }

    /// Returns the address, by the file's own tables, of a position in the file.
    fn address(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|(start, size, _)| (*start..start + size).contains(&offset));
        segment.map(|(start, _, address)| offset - start + address)
    }
}
