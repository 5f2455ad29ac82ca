//! Holds the objects of processes open while these run: files that are deleted or replaced meanwhile keep their names, as libraries
//! that are unpacked, loaded and deleted, and programs that are installed anew.
//!
//! What is mapped is known from the spools, which costs the processes nothing. Only for a mapping that is new is the kernel's list
//! of their mappings read.

use crate::{
    profile::Profile,
    symbolize::{KeptObject, Memory},
};
use nix::sys::resource::{Resource, getrlimit};
use sigprof::{
    format::Mapping,
    recover::{Owner, Spool},
};
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Objects at most, each of which takes a descriptor.
const MOST: usize = 1024;
/// Looks take one part in so many of the recorder's time.
const SHARE: u32 = 100;
/// What the kernel puts after the path of a file that is gone.
const DELETED: &[u8] = b" (deleted)";

/// The mappings of a process, by path: where each begins, and the place of its object among those that are kept.
type Mapped = HashMap<PathBuf, Vec<(u64, Option<usize>)>>;

/// The objects, and which mappings are theirs.
#[derive(Debug)]
pub(super) struct Objects {
    most: usize,
    kept: Vec<KeptObject>,
    /// By inode and path; None for what could not be opened.
    by_file: HashMap<(u64, PathBuf), Option<usize>>,
    by_spool: HashMap<PathBuf, Mapped>,
    /// How long the last look took, and when that was.
    last_look: Option<(Duration, Instant)>,
}

impl Objects {
    /// None so far.
    pub(super) fn new() -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE)
            .map_or(0, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX));
        Self {
            // At the end, spools take descriptors, too.
            most: MOST.min(limit / 4),
            kept: Vec::new(),
            by_file: HashMap::new(),
            by_spool: HashMap::new(),
            last_look: None,
        }
    }

    /// True if it is time for a [`look`](Self::look).
    pub(super) fn is_look_due(&self) -> bool {
        let is_early = |(cost, end): (Duration, Instant)| end.elapsed() < cost * SHARE;
        self.kept.len() < self.most && !self.last_look.is_some_and(is_early)
    }

    /// Opens what the processes of these spools have mapped since the last look.
    pub(super) fn look(&mut self, spools: &[Spool]) {
        let start = Instant::now();
        for spool in spools.iter().filter(|spool| spool.owner() == Owner::Running) {
            let Ok(mappings) = spool.mappings_so_far() else { continue };
            let known = self.by_spool.entry(spool.path().into()).or_default();
            let is_new = |mapping: &&Mapping<'_>| {
                let starts = known.get(path_of(&mapping.path));
                !starts.is_some_and(|starts| starts.iter().any(|&(start, _)| start == mapping.start))
            };
            let is_object = |mapping: &&Mapping<'_>| {
                mapping.is_executable() && mapping.path.starts_with(b"/") && !mapping.is_anonymous()
            };
            let news: Vec<&Mapping<'_>> = mappings.iter().filter(is_object).filter(is_new).collect();
            if news.is_empty() {
                continue;
            }
            let Some(process) = Process::open(spool.process()) else { continue };
            let found: Vec<(PathBuf, u64, Option<usize>)> = news
                .into_iter()
                .filter_map(|mapping| {
                    let path = path_of(&mapping.path);
                    let line = process.line_at(mapping.start).filter(|line| path_of(&line.path) == path)?;
                    Some((path.to_owned(), mapping.start, self.keep(&process, &line)))
                })
                .collect();
            // One that has ended meanwhile may have given its id to another.
            if spool.owner() == Owner::Running {
                let known = self.by_spool.entry(spool.path().into()).or_default();
                for (path, start, object) in found {
                    known.entry(path).or_default().push((start, object));
                }
            }
        }
        self.last_look = Some((start.elapsed(), Instant::now()));
    }

    /// The object of a line of the process's mappings; opens it if it is new.
    fn keep(&mut self, process: &Process, line: &Mapping<'_>) -> Option<usize> {
        let path = path_of(&line.path);
        let key = (line.inode, path.to_owned());
        if let Some(&known) = self.by_file.get(&key) {
            return known;
        }
        if self.kept.len() >= self.most {
            return None;
        }
        let object = process.object(line);
        let place = object.map(|object| {
            self.kept.push(object);
            self.kept.len() - 1
        });
        self.by_file.insert(key, place);
        place
    }

    /// Gives the mappings of a spool's profile the build ids of the objects that were mapped.
    pub(super) fn note_build_ids(&self, spool: &Path, profile: &mut Profile) {
        let Some(known) = self.by_spool.get(spool) else { return };
        for mapping in profile.mappings.iter_mut().filter(|mapping| mapping.build_id.is_empty()) {
            let Some(starts) = known.get(&mapping.file) else { continue };
            let exact = starts.iter().find(|&&(start, _)| start == mapping.start);
            // A mapping that was split has the object of the others, if these have one.
            let is_one = starts.iter().all(|&(_, object)| object == starts[0].1);
            let of = exact.or(starts.first().filter(|_| is_one));
            if let Some(&(_, Some(object))) = of {
                mapping.build_id = self.kept[object].build_id().clone();
            }
        }
    }

    /// Forgets the mappings of a spool that was collected.
    pub(super) fn forget(&mut self, spool: &Path) {
        self.by_spool.remove(spool);
    }

    /// All that are kept.
    pub(super) fn into_kept(self) -> Vec<KeptObject> {
        self.kept
    }
}

/// A process whose memory may be read.
struct Process {
    id: u32,
    maps: Vec<u8>,
}

impl Process {
    /// Reads its mappings; None if it is gone or may not be looked at.
    fn open(id: u32) -> Option<Self> {
        let maps = fs::read(format!("/proc/{id}/maps")).ok().filter(|maps| !maps.is_empty())?;
        Some(Self { id, maps })
    }

    fn lines(&self) -> impl Iterator<Item = Mapping<'_>> {
        self.maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line)
    }

    fn line_at(&self, address: u64) -> Option<Mapping<'_>> {
        self.lines().find(|line| line.contains(address))
    }

    /// The object of a line: its file, if that is still at its path or can be opened by the mapping, or else what is in memory.
    fn object(&self, line: &Mapping<'_>) -> Option<KeptObject> {
        let path = path_of(&line.path);
        self.file(line).and_then(|file| KeptObject::of_file(path, file).ok()).or_else(|| {
            let is_first = |first: &Mapping<'_>| {
                first.path == line.path
                    && first.inode == line.inode
                    && first.offset == 0
                    && first.start <= line.start
            };
            let first = self.lines().filter(is_first).last()?;
            KeptObject::of_memory(path, self, first.start).ok()
        })
    }

    fn file(&self, line: &Mapping<'_>) -> Option<File> {
        let path = path_of(&line.path);
        let below = path.strip_prefix("/").unwrap_or(path);
        let at_path = Path::new("/proc").join(self.id.to_string()).join("root").join(below);
        let is_deleted = line.path.ends_with(DELETED);
        let mapped = format!("/proc/{}/map_files/{:x}-{:x}", self.id, line.start, line.end);
        // The second one is for those who may follow it: root, and CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
        let candidates = (!is_deleted).then_some(at_path).into_iter().chain([mapped.into()]);
        candidates
            .filter_map(|path| open(&path).ok())
            .find(|file| file.metadata().is_ok_and(|status| status.ino() == line.inode))
    }
}

impl Memory for Process {
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        File::open(format!("/proc/{}/mem", self.id))?.read_exact_at(buffer, address)
    }
}

/// Opens a regular file. To open anything else may wait, or have effects.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)
}

/// The path of a line, without the kernel's word on its file.
fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path.strip_suffix(DELETED).unwrap_or(path)))
}
