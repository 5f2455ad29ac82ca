//! Profiles of processes that were killed or crashed.
//!
//! While a session writes to a file, its samples lie in a *spool*: a file of its own, in a directory that belongs to the
//! user alone (`/dev/shm/sigprof-UID`, or where `CPUPROFILE_SPOOL` or [`Builder::spool_directory`] says). A session
//! that ends writes its profile and removes its spool. One whose process is killed leaves it behind, and this module
//! makes the profile of it, complete but for ticks that were being recorded at that very moment.
//!
//! ```no_run
//! for spool in sigprof::recover::spools(&sigprof::recover::default_directory())?.spools {
//!     if spool.owner() == sigprof::recover::Owner::Gone {
//!         println!("{}: {}", spool.program().display(), spool.recover()?);
//!     }
//! }
//! # Ok::<(), sigprof::recover::RecoverError>(())
//! ```
//!
//! Spools are trusted no more than any file: one that is damaged is refused or read as far as it makes sense, and only
//! the user's own are read at all, since they name the file to be written.
//!
//! [`Builder::spool_directory`]: crate::Builder::spool_directory

mod claim;
#[cfg(any(test, fuzzing))]
pub(crate) mod trial;

use claim::{Claim, Refusal};

use crate::{
    control::{DEFAULT_DIRECTORY, SUFFIX},
    format::{
        ByteOrder, Mapping, ProfileWriter, SlotLayout, SlotWidth, WriteError,
        spool::{FileStamp, Head, Source, SpoolError, SpooledRecord, thread_of},
        write_records,
    },
    sys::{
        file,
        process::{self, Life},
    },
    thread::Thread,
};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt, MetadataExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The directory of this user's spools where nobody chose another: `/dev/shm/sigprof-UID`.
pub fn default_directory() -> PathBuf {
    PathBuf::from(format!("{DEFAULT_DIRECTORY}-{}", process::effective_user()))
}

/// The spools in a directory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Spools {
    /// Oldest first: those of processes that run, and those that were left behind.
    pub spools: Vec<Spool>,
    /// Files named like spools that are none, or are damaged, another user's, or of another version.
    pub unusable: Vec<RecoverError>,
}

/// Looks for spools in `directory`. One that does not exist holds none.
///
/// # Errors
/// Where the directory cannot be read.
pub fn spools(directory: &Path) -> Result<Spools, RecoverError> {
    let fails = |error| RecoverError::new(directory, Reason::Io("read the directory", error));
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Spools::default()),
        other => other.map_err(fails)?,
    };
    let mut found = Spools::default();
    for entry in entries {
        let path = entry.map_err(fails)?.path();
        if !path.as_os_str().as_bytes().ends_with(SUFFIX.as_bytes()) {
            continue;
        }
        match Spool::open(&path) {
            Ok(spool) => found.spools.push(spool),
            // Its session has ended meanwhile.
            Err(error) if error.is_missing() => {}
            Err(error) => found.unusable.push(error),
        }
    }
    found.spools.sort_by(|a, b| (a.head.started, &a.path).cmp(&(b.head.started, &b.path)));
    found.unusable.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Whether the process that a spool belongs to still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Owner {
    /// It runs: the spool is in use.
    Running,
    /// It is gone.
    Gone,
    /// It is, or was, in another namespace of process ids (a container), or /proc does not tell.
    Elsewhere,
}

/// A session's spool file.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    head: Head,
}

impl Spool {
    /// Opens the spool at `path`.
    ///
    /// # Errors
    /// Where it cannot be read, belongs to another user, or is no spool of this version.
    pub fn open(path: &Path) -> Result<Self, RecoverError> {
        let fails = |reason| RecoverError::new(path, reason);
        let file = file::open_unfollowed(path).map_err(|error| fails(Reason::Io("open the spool", error)))?;
        let status = file.metadata().map_err(|error| fails(Reason::Io("look at the spool", error)))?;
        if !status.is_file() {
            return Err(fails(Reason::NoSpool));
        }
        if status.uid() != process::effective_user() {
            return Err(fails(Reason::OtherUser(status.uid())));
        }
        let head = read_head(&file).map_err(fails)?;
        Ok(Self { path: path.into(), file, head })
    }

    /// The spool's own path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Process id of the session's process.
    pub fn process(&self) -> u32 {
        self.head.process
    }

    /// The program that the process ran; empty where it could not be found out.
    pub fn program(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.head.program))
    }

    /// The absolute path that the profile is meant for.
    pub fn target(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.head.target))
    }

    /// When the session began.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.head.started)).unwrap_or(UNIX_EPOCH)
    }

    /// True when the profile was written in full, and only the spool could not be removed (behind `chroot` or `setuid`).
    pub fn is_complete(&self) -> bool {
        self.head.is_complete
    }

    /// True when the spool could not grow further: chains that were first met after that are missing.
    pub fn is_cut(&self) -> bool {
        self.head.is_cut
    }

    /// True when its samples say whose they are ([`Builder::by_thread`](crate::Builder::by_thread)).
    pub fn is_by_thread(&self) -> bool {
        self.head.is_by_thread
    }

    /// What one count of a sample stands for.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.head.period_micros)
    }

    /// Reads the samples, with their threads where the spool [knows them](Self::is_by_thread). A chain may be there more than
    /// once. The spool stays as it is.
    ///
    /// # Errors
    /// Where the process still runs; where the spool, or the file of the records that were moved, cannot be read, or is being
    /// recovered.
    pub fn samples(&self) -> Result<Vec<SpooledSample>, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.samples_now()
    }

    /// Reads the list of the objects that were mapped, as it stood when the session began, with those that samples were met in
    /// later. The spool stays as it is.
    ///
    /// # Errors
    /// As for [`samples`](Self::samples).
    pub fn mappings(&self) -> Result<Vec<Mapping<'static>>, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        let now = self.renewed(&claim)?;
        now.head.mappings(&now.file).map_err(|error| self.fails(Reason::Io("read the spool", error)))
    }

    fn samples_now(&self) -> Result<Vec<SpooledSample>, RecoverError> {
        let fails = |error| self.fails(Reason::Io("read the spool", error));
        let threads = self.head.threads(&self.file).map_err(fails)?;
        let mut samples = Vec::new();
        let mut take =
            |records: Vec<SpooledRecord>| {
                samples.extend(records.into_iter().map(|SpooledRecord { count, pcs, thread }| {
                    SpooledSample { count, pcs, thread: thread_of(&threads, thread) }
                }));
            };
        take(self.head.records(&self.file).map_err(fails)?);
        if let Some(moved) = self.moved()? {
            for_each_moved(&self.head, &moved, |records| {
                take(records);
                Ok::<_, io::Error>(())
            })
            .map_err(fails)?;
        }
        Ok(samples)
    }

    /// Whether the session's process still runs.
    pub fn owner(&self) -> Owner {
        let head = &self.head;
        if head.is_ended {
            return Owner::Gone;
        }
        if Some(head.namespace) != process::namespace() {
            return Owner::Elsewhere;
        }
        match process::life_of(head.process, head.process_start) {
            Life::Gone => Owner::Gone,
            Life::Unknown => Owner::Elsewhere,
            Life::Same => {
                // One that was killed and not yet waited for has one thread; where only the first has ended there are more.
                let line = fs::read(format!("/proc/{}/stat", head.process)).unwrap_or_default();
                let threads = || fs::read_dir(format!("/proc/{}/task", head.process)).map(Iterator::count);
                let is_over = process::is_zombie_in(&line) && threads().is_ok_and(|threads| threads < 2);
                if is_over { Owner::Gone } else { Owner::Running }
            }
        }
    }

    /// Makes the profile under the name it was meant for, and removes the spool.
    ///
    /// Where another profile has been written under that name since the session began, it stays as it is, and the
    /// recovered one gets `.recovered-PID` behind its name.
    ///
    /// # Errors
    /// Where the process still runs or may run; where another process recovers the spool, or has; where the profile cannot
    /// be written. The spool then stays.
    pub fn recover(&self) -> Result<Recovered, RecoverError> {
        if self.owner() == Owner::Elsewhere {
            return Err(self.fails(Reason::Elsewhere(self.head.process)));
        }
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.recover_now()
    }

    /// The right to end the spool.
    ///
    /// # Errors
    /// Where another has it, or the spool is gone.
    fn claim(&self) -> Result<Claim, RecoverError> {
        Claim::of(&self.path, &self.file).map_err(|refusal| {
            self.fails(match refusal {
                Refusal::Taken => Reason::Claimed,
                Refusal::Io(error) => Reason::Io("open the spool", error),
            })
        })
    }

    /// The spool as it is now: it may have been opened while its process still ran.
    fn renewed(&self, claim: &Claim) -> Result<Self, RecoverError> {
        let fails = |error| self.fails(Reason::Io("read the spool", error));
        let file = claim.file().try_clone().map_err(fails)?;
        let head = read_head(&file).map_err(|reason| self.fails(reason))?;
        Ok(Self { path: self.path.clone(), file, head })
    }

    fn recover_now(&self) -> Result<Recovered, RecoverError> {
        if self.head.is_complete {
            return self.without_file();
        }
        if self.may_replace(self.target())? {
            return self.write(self.target(), true);
        }
        const TRIES: u32 = 1000;
        let mut n = 1;
        loop {
            match self.write(&self.name_beside(n), false) {
                Err(error) if error.is_taken() && n < TRIES => n += 1,
                other => return other,
            }
        }
    }

    /// Makes the profile at `path`, which is replaced if it exists, and removes the spool. For a process of another
    /// container ([`Owner::Elsewhere`]) the caller has to know that it is gone: if it runs it comes to no harm, but its
    /// profile does not outlive a kill any more.
    ///
    /// # Errors
    /// Where the process still runs; where the profile cannot be written. The spool then stays.
    pub fn recover_to(&self, path: &Path) -> Result<Recovered, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.write(path, true)
    }

    /// Removes the spool, and with it the samples; as for [`recover_to`](Self::recover_to), of a process that is gone.
    ///
    /// # Errors
    /// Where the process still runs, or the spool cannot be removed.
    pub fn discard(&self) -> Result<(), RecoverError> {
        self.ensure_not_running()?;
        let _claim = self.claim()?;
        self.remove_moved();
        fs::remove_file(&self.path).map_err(|error| self.fails(Reason::Io("remove the spool", error)))
    }

    fn ensure_not_running(&self) -> Result<(), RecoverError> {
        match self.owner() {
            Owner::Running => Err(self.fails(Reason::Running(self.head.process))),
            Owner::Gone | Owner::Elsewhere => Ok(()),
        }
    }

    /// Whether what stands at the target is what the session would have replaced: what stood there when it began, or what
    /// it wrote there itself.
    fn may_replace(&self, target: &Path) -> Result<bool, RecoverError> {
        match fs::symlink_metadata(target) {
            Err(_) => Ok(true),
            Ok(status) if !status.is_file() => Err(self.fails(Reason::SpecialTarget(target.into()))),
            Ok(status) => {
                let seconds = (status.mtime() as u64).wrapping_mul(1_000_000_000);
                let changed = seconds.wrapping_add(status.mtime_nsec() as u64);
                let stamp = FileStamp { device: status.dev(), inode: status.ino(), changed };
                Ok(self.head.stamps.contains(&stamp))
            }
        }
    }

    /// The `n`th name for a profile whose own name is somebody else's by now.
    fn name_beside(&self, n: u32) -> PathBuf {
        let mut beside = self.target().as_os_str().to_owned();
        beside.push(format!(".recovered-{}", self.head.process));
        if n > 1 {
            beside.push(format!(".{n}"));
        }
        beside.into()
    }

    fn write(&self, target: &Path, replaces: bool) -> Result<Recovered, RecoverError> {
        if self.head.word_bytes > size_of::<usize>() {
            return Err(self.fails(Reason::Wider));
        }
        let fails = |error| self.fails(Reason::Io("read the spool", error));
        let records = self.head.records(&self.file).map_err(fails)?;
        let moved = self.moved()?;
        if records.is_empty() && moved.is_none() {
            return self.without_file();
        }
        let mappings = self.head.mappings(&self.file).map_err(fails)?;
        let mut samples = 0;
        let fill = |out: &mut BufWriter<File>| {
            samples = write_profile(&self.head, moved.as_ref(), &records, &mappings, out)?;
            Ok(())
        };
        let written = write_file(target, replaces, fill);
        written.map_err(|error| RecoverError::new(target, Reason::Write(error)))?;
        let in_spool = sum_of(&records);
        // Records of a file that is gone or damaged.
        let periods = self.head.moved.as_ref().map_or(0, |moved| moved.periods);
        let missing = periods.saturating_sub(samples.saturating_sub(in_spool));
        self.remove_files();
        let path = Some(target.into());
        let lost = self.head.lost.saturating_add(missing);
        Ok(Recovered { path, samples, lost, is_cut: self.head.is_cut })
    }

    /// The file of the records that were moved out of the table; None where there is none, or it was removed.
    ///
    /// # Errors
    /// Where it cannot be read, or is another user's; or is missing, and may be in the process's own container.
    fn moved(&self) -> Result<Option<File>, RecoverError> {
        let Some(path) = self.moved_path().filter(|_| self.head.moved.is_some()) else { return Ok(None) };
        let fails = |error| RecoverError::new(&path, Reason::Io("open the file of moved records", error));
        let file = match file::open_unfollowed(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.owner() != Owner::Elsewhere => {
                return Ok(None);
            }
            other => other.map_err(fails)?,
        };
        let status = file.metadata().map_err(fails)?;
        if !status.is_file() || status.uid() != process::effective_user() {
            return Err(RecoverError::new(&path, Reason::OtherUser(status.uid())));
        }
        Ok(Some(file))
    }

    /// Where it is, or would have been.
    fn moved_path(&self) -> Option<PathBuf> {
        let name = self.head.moved_name.as_ref()?;
        Some(self.target().with_file_name(OsStr::from_bytes(name)))
    }

    /// Removes that file, if it is this user's.
    fn remove_moved(&self) {
        let Some(path) = self.moved_path() else { return };
        let is_own = |status: fs::Metadata| status.is_file() && status.uid() == process::effective_user();
        if fs::symlink_metadata(&path).is_ok_and(is_own) {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes the spool, and with it the file of moved records: their profile is there, or they are not wanted. A spool
    /// that stays is only recovered again.
    fn remove_files(&self) {
        // The file first: a spool that stays knows its name.
        self.remove_moved();
        let _ = fs::remove_file(&self.path);
    }

    /// Removes a spool that has nothing to say.
    fn without_file(&self) -> Result<Recovered, RecoverError> {
        self.remove_files();
        Ok(Recovered { path: None, samples: 0, lost: self.head.lost, is_cut: self.head.is_cut })
    }

    fn fails(&self, reason: Reason) -> RecoverError {
        RecoverError::new(&self.path, reason)
    }
}

/// A call chain, and how many periods a thread has spent in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpooledSample {
    /// In periods, at least 1.
    pub count: u64,
    /// Innermost first, at least one: addresses in the process that is gone.
    pub pcs: Vec<u64>,
    /// None where the spool does not know.
    pub thread: Option<Thread>,
}

/// What came of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The profile; None where there were no samples, or the process had written it itself.
    pub path: Option<PathBuf>,
    /// Sum of the profile's counts, in periods.
    pub samples: u64,
    /// Periods that could not be recorded, but for those that found all scratch slots taken.
    pub lost: u64,
    /// The spool could not grow further: chains that were first met after that are missing.
    pub is_cut: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            None => f.write_str("nothing to recover"),
            Some(path) => {
                write!(f, "{} samples recovered to {}", self.samples, path.display())?;
                if self.is_cut {
                    f.write_str(
                        ", without call chains that were first met when the spool's file system was full",
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// Why a spool cannot be recovered.
#[derive(Debug)]
pub struct RecoverError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Io(&'static str, io::Error),
    Write(WriteError),
    NoSpool,
    OtherVersion,
    Damaged(&'static str),
    OtherUser(u32),
    Running(u32),
    Elsewhere(u32),
    Claimed,
    SpecialTarget(PathBuf),
    Wider,
}

impl RecoverError {
    fn is_missing(&self) -> bool {
        matches!(&self.reason, Reason::Io(_, error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Another file has the name.
    fn is_taken(&self) -> bool {
        matches!(&self.reason, Reason::Write(WriteError::Io(error)) if error.kind() == io::ErrorKind::AlreadyExists)
    }

    fn new(path: &Path, reason: Reason) -> Self {
        Self { path: path.into(), reason }
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.reason {
            Reason::Io(action, error) => write!(f, "cannot {action}: {error}"),
            Reason::Write(WriteError::Io(error)) => write!(f, "cannot write the profile: {error}"),
            Reason::Write(error) => write!(f, "cannot write the profile: {error}"),
            Reason::NoSpool => f.write_str("this is no spool, or one that was not begun"),
            Reason::OtherVersion => {
                f.write_str("the spool is of another version of sigprof; recover it with that version")
            }
            Reason::Damaged(what) => write!(f, "the spool is damaged: its {what} cannot be"),
            Reason::OtherUser(user) => {
                write!(
                    f,
                    "the spool belongs to user {user}; it names the file to write, so only that user recovers it"
                )
            }
            Reason::Running(process) => {
                write!(f, "process {process} still runs; its profile comes when it ends")
            }
            Reason::Elsewhere(process) => write!(
                f,
                "process {process} is of another container, where it may still run; if it does not, name the file to write"
            ),
            Reason::Claimed => f.write_str("the spool is being recovered by another process; wait for it"),
            Reason::Wider => f.write_str("the spool is of a 64-bit program; recover it with a 64-bit one"),
            Reason::SpecialTarget(target) => {
                write!(
                    f,
                    "the profile was meant for {}, which is no regular file; name another",
                    target.display()
                )
            }
        }
    }
}

impl std::error::Error for RecoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Io(_, error) => Some(error),
            Reason::Write(error) => Some(error),
            _ => None,
        }
    }
}

/// Reads the head of a spool.
fn read_head(file: &File) -> Result<Head, Reason> {
    Head::read(file).map_err(|error| match error {
        SpoolError::Io(error) => Reason::Io("read the spool", error),
        SpoolError::NoSpool => Reason::NoSpool,
        SpoolError::OtherVersion => Reason::OtherVersion,
        SpoolError::Damaged(what) => Reason::Damaged(what),
    })
}

/// Writes the profile of what a spool and the file of its moved records hold; gives the sum of their counts.
fn write_profile(
    head: &Head,
    moved: Option<&impl Source>,
    records: &[SpooledRecord],
    mappings: &[Mapping<'_>],
    out: impl Write,
) -> Result<u64, WriteError> {
    let width = if head.word_bytes == 4 { SlotWidth::Four } else { SlotWidth::Eight };
    let mut writer = ProfileWriter::new(out, SlotLayout { width, order: ByteOrder::NATIVE });
    writer.header(head.period_micros)?;
    let mut samples = 0u64;
    let mut folding = Folding { writer: &mut writer, chains: BTreeMap::new(), words: 0 };
    let mut write_part = |records: &[SpooledRecord]| {
        samples = samples.saturating_add(sum_of(records));
        if head.is_by_thread { folding.add(records) } else { folding.write(records) }
    };
    if let Some(moved) = moved {
        for_each_moved(head, moved, |records| write_part(&records))?;
    }
    write_part(records)?;
    folding.flush()?;
    writer.trailer()?;
    for mapping in mappings {
        mapping.write_line(writer.text(), width)?;
    }
    Ok(samples)
}

fn sum_of(records: &[SpooledRecord]) -> u64 {
    records.iter().fold(0, |sum: u64, record| sum.saturating_add(record.count))
}

/// Calls `visit` with the records of the file of moved ones, a part at a time: the file of a day may be large.
fn for_each_moved<E: From<io::Error>>(
    head: &Head,
    moved: &impl Source,
    mut visit: impl FnMut(Vec<SpooledRecord>) -> Result<(), E>,
) -> Result<(), E> {
    let mut place = 0;
    let bytes_moved = head.moved.as_ref().map_or(0, |moved| moved.bytes);
    let mut part = vec![0; MOVED_PART];
    while place < bytes_moved {
        let length = usize::try_from(bytes_moved - place).unwrap_or(MOVED_PART).min(MOVED_PART);
        let got = read_fully(moved, place, part.get_mut(..length).unwrap_or_default())?;
        let (records, bytes) = head.moved_records(part.get(..got).unwrap_or_default());
        if bytes == 0 {
            // Cut, or written into by somebody else.
            break;
        }
        visit(records)?;
        place += bytes as u64;
    }
    Ok(())
}

/// Records on their way to a profile, where those of different threads with one chain become one.
struct Folding<'w, W> {
    writer: &'w mut ProfileWriter<W>,
    chains: BTreeMap<Vec<u64>, u64>,
    /// Of all chains.
    words: usize,
}

/// Words of chains that wait to be written. What comes to more has a chain several times, as a profile may.
const MOST_FOLDED: usize = if cfg!(any(test, fuzzing)) { 1 << 10 } else { 8 << 20 };

impl<W: Write> Folding<'_, W> {
    /// Writes records as they are.
    fn write(&mut self, records: &[SpooledRecord]) -> Result<(), WriteError> {
        write_records(self.writer, || {
            records.iter().map(|record| (record.count, record.pcs.iter().map(|&pc| pc as usize)))
        })
        .map(|_| ())
    }

    /// Takes records in, and writes some where there are many.
    fn add(&mut self, records: &[SpooledRecord]) -> Result<(), WriteError> {
        for record in records {
            let known = self.chains.get(&record.pcs).copied();
            let sum = known.unwrap_or(0).checked_add(record.count);
            if sum.is_none() || self.words > MOST_FOLDED {
                self.flush()?;
            }
            match self.chains.get_mut(&record.pcs) {
                Some(count) => *count = sum.unwrap_or(record.count),
                None => {
                    self.words += record.pcs.len();
                    self.chains.insert(record.pcs.clone(), record.count);
                }
            }
        }
        Ok(())
    }

    /// Writes what was taken in.
    fn flush(&mut self) -> Result<(), WriteError> {
        write_records(self.writer, || {
            self.chains.iter().map(|(pcs, count)| (*count, pcs.iter().map(|&pc| pc as usize)))
        })?;
        self.chains.clear();
        self.words = 0;
        Ok(())
    }
}

/// Bytes of moved records that are read at once: many of the longest.
const MOVED_PART: usize = 4 << 20;

/// Fills `buffer` as far as there are bytes; gives their number.
fn read_fully(source: &impl Source, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source.read_at(offset + done as u64, rest)? {
            0 => break,
            got => done += got,
        }
    }
    Ok(done)
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

/// Writes a file beside `target` and gives it that name when it is complete and on its way to the disk; only if nothing
/// has that name, unless `replaces` says so.
fn write_file(
    target: &Path,
    replaces: bool,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let temporary = target.with_file_name(format!(".sigprof-{:016x}", file::random()));
    // A name that exists is not written to, be it a link or not.
    let mut out = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&temporary)?);
    let written = fill(&mut out).and_then(|()| {
        out.flush()?;
        // Some file systems tell only now that there was no room, and the spool is about to go.
        out.get_ref().sync_all()?;
        if replaces {
            fs::rename(&temporary, target)?;
        } else {
            fs::hard_link(&temporary, target)?;
        }
        Ok(())
    });
    if written.is_err() || !replaces {
        let _ = fs::remove_file(&temporary);
    }
    written
}
