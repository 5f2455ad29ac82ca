//! Open files of running processes, so that code in deleted or replaced files has names: libraries
//! that a program unpacks, loads and deletes, and programs that are updated.
//!
//! The spools contain the list of mappings, so reading it costs the processes nothing.
//! `/proc/PID/maps` is read once for each new mapping.
//!
//! An open file has side effects: its mount cannot be unmounted, and a network file system renames
//! a deleted file. So files are kept open only on [`Mounts`].

use crate::{
    profile::Profile,
    symbolize::{KeptObject, Memory},
};
use nix::sys::{
    resource::{Resource, getrlimit},
    statfs::{
        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC,
        XFS_SUPER_MAGIC, fstatfs,
    },
};
use sigprof::{
    format::{Device, Mapping},
    recover::{Owner, Spool},
};
use std::{
    collections::HashMap,
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{
            ffi::OsStrExt as _,
            fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
        },
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Limit of objects, each of which needs a descriptor.
const MOST: usize = 1024;
/// Searches use at most one part in `SHARE` of the recorder's time.
const SHARE: u32 = 100;

/// Mappings of a process by path: start address, and index of the kept object.
type Mapped = HashMap<PathBuf, Vec<(u64, Option<usize>)>>;

/// The kept objects, by file and by spool.
#[derive(Debug)]
pub(super) struct Objects {
    most: usize,
    mounts: Mounts,
    kept: Vec<KeptObject>,
    /// None for a file that is not kept.
    by_file: HashMap<(Device, u64, PathBuf), Option<usize>>,
    by_spool: HashMap<PathBuf, Mapped>,
    /// Duration and time of the last search.
    last_look: Option<(Duration, Instant)>,
}

impl Objects {
    pub(super) fn new() -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE)
            .map_or(0, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX));
        Self {
            // Spools need descriptors at the end.
            most: MOST.min(limit / 4),
            mounts: Mounts::new(),
            kept: Vec::new(),
            by_file: HashMap::new(),
            by_spool: HashMap::new(),
            last_look: None,
        }
    }

    pub(super) fn is_look_due(&self) -> bool {
        let is_early = |(cost, end): (Duration, Instant)| end.elapsed() < cost * SHARE;
        self.kept.len() < self.most && !self.last_look.is_some_and(is_early)
    }

    /// Opens what the processes of these spools have mapped since the last call.
    pub(super) fn look(&mut self, spools: &[Spool]) {
        let start = Instant::now();
        for spool in spools.iter().filter(|spool| spool.owner() == Owner::Running) {
            let Ok(mappings) = spool.mappings_so_far() else { continue };
            let known = self.by_spool.entry(spool.path().into()).or_default();
            let is_new = |mapping: &&Mapping<'_>| {
                let starts = known.get(path_of(mapping));
                !starts.is_some_and(|starts| starts.iter().any(|&(start, _)| start == mapping.start))
            };
            let is_object = |mapping: &&Mapping<'_>| {
                mapping.is_executable() && mapping.path.starts_with(b"/") && !mapping.is_anonymous()
            };
            let new: Vec<&Mapping<'_>> = mappings.iter().filter(is_object).filter(is_new).collect();
            if new.is_empty() {
                continue;
            }
            let Some(process) = Process::of(spool) else { continue };
            let find = |mapping: &Mapping<'_>| {
                let line = process.line_at(mapping.start)?;
                // The program may have mapped another file there.
                (path_of(&line) == path_of(mapping)).then(|| self.keep(&process, &line))?
            };
            let found: Vec<Option<usize>> = new.iter().copied().map(find).collect();
            let known = self.by_spool.entry(spool.path().into()).or_default();
            for (mapping, object) in new.into_iter().zip(found) {
                known.entry(path_of(mapping).into()).or_default().push((mapping.start, object));
            }
        }
        self.last_look = Some((start.elapsed(), Instant::now()));
    }

    /// Returns the object of a line of the process's mappings; opens it if it is new.
    fn keep(&mut self, process: &Process, line: &Mapping<'_>) -> Option<usize> {
        let key = (line.device, line.inode, path_of(line).to_owned());
        if let Some(&known) = self.by_file.get(&key) {
            return known;
        }
        if self.kept.len() >= self.most {
            return None;
        }
        let object = process.object(line, &self.mounts);
        let place = object.map(|object| {
            self.kept.push(object);
            self.kept.len() - 1
        });
        // After the process has exited, a failure says nothing about the file.
        if place.is_some() || process.path("maps").exists() {
            self.by_file.insert(key, place);
        }
        place
    }

    /// Sets the build IDs of the objects in a spool's profile.
    pub(super) fn note_build_ids(&self, spool: &Path, profile: &mut Profile) {
        let Some(known) = self.by_spool.get(spool) else { return };
        for mapping in profile.mappings.iter_mut().filter(|mapping| mapping.build_id.is_empty()) {
            let Some(starts) = known.get(&mapping.file) else { continue };
            let exact = starts.iter().find(|&&(start, _)| start == mapping.start);
            // A split mapping has the object of the others, if there is only one.
            let is_one = starts.iter().all(|&(_, object)| object == starts[0].1);
            let of = exact.or(starts.first().filter(|_| is_one));
            if let Some(&(_, Some(object))) = of {
                mapping.build_id = self.kept[object].build_id().clone();
            }
        }
    }

    pub(super) fn forget(&mut self, spool: &Path) {
        self.by_spool.remove(spool);
    }

    pub(super) fn into_kept(self) -> Vec<KeptObject> {
        self.kept
    }
}

/// Mounts on which files are kept open: those of the system, temporary and the recorder's files.
#[derive(Debug)]
struct Mounts {
    /// Mount IDs as in /proc/PID/fdinfo (proc_pid_fdinfo(5)).
    ids: Vec<u64>,
}

/// Local file systems, which can delete an open file. The last one is ZFS.
const LOCAL: [FsType; 7] = [
    EXT4_SUPER_MAGIC,
    XFS_SUPER_MAGIC,
    BTRFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC,
    TMPFS_MAGIC,
    OVERLAYFS_SUPER_MAGIC,
    FsType(0x2fc1_2fc1),
];

impl Mounts {
    fn new() -> Self {
        let system = ["/", "/usr", "/opt", "/var", "/var/tmp", "/tmp", "/home", "/root"].map(PathBuf::from);
        let own = [Ok(env::temp_dir()), env::current_dir(), env::current_exe()];
        let directories: Vec<PathBuf> = system.into_iter().chain(own.into_iter().flatten()).collect();
        Self::of(&fs::read("/proc/self/mountinfo").unwrap_or_default(), &directories)
    }

    /// Finds the mounts of directories without access to them, which could wait for a server.
    fn of(list: &[u8], directories: &[PathBuf]) -> Self {
        let mounts: Vec<(u64, &Path)> = list
            .split(|&byte| byte == b'\n')
            .filter_map(|line| {
                let mut words = line.split(|&byte| byte == b' ');
                let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
                Some((id, Path::new(OsStr::from_bytes(words.nth(3)?))))
            })
            .collect();
        // Of several mounts on one directory, the last one is visible.
        let mount = |directory: &PathBuf| {
            let around = mounts.iter().filter(|(_, path)| directory.starts_with(path));
            around.max_by_key(|(_, path)| path.as_os_str().len()).map(|&(id, _)| id)
        };
        let mut ids: Vec<u64> = directories.iter().filter_map(mount).collect();
        ids.sort_unstable();
        ids.dedup();
        Self { ids }
    }

    fn has(&self, file: &File) -> bool {
        let is_local = fstatfs(file).is_ok_and(|status| LOCAL.contains(&status.filesystem_type()));
        is_local && mount_of(file).is_some_and(|id| self.ids.binary_search(&id).is_ok())
    }
}

fn mount_of(file: &File) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

struct Process {
    /// `/proc/PID`. After the process has exited, reads fail, even if its ID is reused.
    directory: File,
    maps: Vec<u8>,
}

impl Process {
    /// Opens the process of a spool, without mappings if unreadable; None if it has exited.
    fn of(spool: &Spool) -> Option<Self> {
        let directory = File::open(format!("/proc/{}", spool.process())).ok()?;
        // It runs after the open: so the directory is not that of a later process with the same ID.
        let is_running = spool.owner() == Owner::Running;
        is_running.then(|| {
            let mut process = Self { directory, maps: Vec::new() };
            process.maps = fs::read(process.path("maps")).unwrap_or_default();
            process
        })
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(name)
    }

    fn lines(&self) -> impl Iterator<Item = Mapping<'_>> {
        self.maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse_line)
    }

    fn line_at(&self, address: u64) -> Option<Mapping<'_>> {
        self.lines().find(|line| line.contains(address))
    }

    /// Returns the object of a line: its file, or for a deleted file its memory.
    fn object(&self, line: &Mapping<'_>, mounts: &Mounts) -> Option<KeptObject> {
        let path = path_of(line);
        let file = self.file(line).filter(|file| mounts.has(file));
        if let Some(object) = file.and_then(|file| KeptObject::of_file(path, file).ok()) {
            return Some(object);
        }
        if !line.file().1 {
            return None;
        }
        let is_first = |first: &Mapping<'_>| {
            let is_same = first.path == line.path && first.inode == line.inode;
            is_same && first.offset == 0 && first.start <= line.start
        };
        let first = self.lines().filter(is_first).last()?;
        let memory = ProcessMemory(File::open(self.path("mem")).ok()?);
        KeptObject::of_memory(path, &memory, first.start).ok()
    }

    /// Opens the file of a line: by its path, or by map_files (root or CAP_CHECKPOINT_RESTORE).
    fn file(&self, line: &Mapping<'_>) -> Option<File> {
        let path = path_of(line);
        let is_deleted = line.file().1;
        let at_path = self.path("root").join(path.strip_prefix("/").unwrap_or(path));
        let mapped = self.path(format!("map_files/{:x}-{:x}", line.start, line.end));
        let candidates = (!is_deleted).then_some(at_path).into_iter().chain([mapped]);
        let is_mapped = |file: &File| file.metadata().is_ok_and(|status| status.ino() == line.inode);
        candidates.filter_map(|path| open(&path).ok()).find(is_mapped)
    }
}

struct ProcessMemory(File);

impl Memory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, address)
    }
}

/// Opens a regular file. Opening others may block or have effects.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)
}

fn path_of<'m>(mapping: &'m Mapping<'_>) -> &'m Path {
    Path::new(OsStr::from_bytes(mapping.file().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_files_open_on_mounts_in_use_anyway() {
        let list = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 21 0:5 / /dev rw - devtmpfs none rw\n\
            40 21 8:2 / /home rw shared:1 - ext4 /dev/sda2 rw\n\
            41 40 8:3 / /home/me/image rw - ext4 /dev/loop0 rw\n\
            50 21 0:6 / /tmp rw - tmpfs none rw\n\
            51 50 0:7 / /tmp rw - tmpfs none rw\n\
            52 51 0:8 / /tmp/build\\040dir rw - tmpfs none rw\n\
            no mount\n";
        let of = |directories: &[&str]| {
            let directories: Vec<PathBuf> = directories.iter().map(PathBuf::from).collect();
            Mounts::of(list, &directories).ids
        };
        assert_eq!(of(&["/", "/usr", "/var/tmp"]), [21]);
        assert_eq!(of(&["/home/me", "/homes", "/"]), [21, 40]);
        // The upper of two mounts.
        assert_eq!(of(&["/tmp", "/tmp/x"]), [51]);
        assert!(!Mounts::new().has(&File::open("/proc/self/maps").unwrap()));
    }
}
