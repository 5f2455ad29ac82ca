//! One spool: whose it is, how it is, and what it holds.

use super::{
    claim::{Claim, Refusal},
    end::SessionEnd,
    error::{Reason, RecoverError},
    moved::for_each_moved,
    profile::sum_of,
};
use crate::{
    format::{
        Mapping,
        spool::{Head, Source, SpoolError, SpooledRecord, thread_of},
    },
    sys::{
        file,
        process::{self, Liveness},
    },
    thread::Thread,
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt, MetadataExt as _},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

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
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) head: Head,
    /// The caller knows that nobody writes to it.
    is_over: bool,
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
        Ok(Self { path: path.into(), file, head, is_over: false })
    }

    /// The same, of a program that the caller knows to have been [replaced](Self::is_replaced), though its process runs. Where it
    /// was not, the process comes to no harm, but what it adds is read by nobody.
    #[must_use]
    pub fn known_to_be_over(mut self) -> Self {
        self.is_over = true;
        self
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
    pub fn is_truncated(&self) -> bool {
        self.head.is_truncated
    }

    /// True when its samples say whose they are ([`Builder::by_thread`](crate::Builder::by_thread)).
    pub fn is_by_thread(&self) -> bool {
        self.head.is_by_thread
    }

    /// True when the process's program was about to be replaced (`exec`). It was, where the process has a younger spool; it
    /// may not have been, where it has none.
    pub fn is_replaced(&self) -> bool {
        self.head.is_replaced
    }

    /// When the process began, in clock ticks since boot: with its id this names a process of this machine.
    pub fn process_start(&self) -> u64 {
        self.head.process_start
    }

    /// Ids of the processes that this one was forked from since its program was started, the nearest first; the nearest four
    /// if there are more. Their code, also what a just-in-time compiler made of it, is this one's.
    pub fn ancestors(&self) -> impl Iterator<Item = u32> {
        self.head.ancestors.0.into_iter().take_while(|&process| process > 0)
    }

    /// Periods that are missing in the samples, as far as they were noted while the process ran.
    pub fn lost(&self) -> u64 {
        self.head.lost
    }

    /// What the session said of itself at its end; None where the process was killed before.
    pub fn end(&self) -> Option<SessionEnd> {
        self.head.figures.map(SessionEnd::of)
    }

    /// The sum of the counts so far, of a process that runs or is gone.
    ///
    /// # Errors
    /// Where the spool cannot be read.
    pub fn samples_so_far(&self) -> Result<u64, RecoverError> {
        let fails = |error| self.fails(Reason::Io("read the spool", error));
        let head = read_head(&self.file).map_err(|reason| self.fails(reason))?;
        let moved = head.moved.as_ref().map_or(0, |moved| moved.periods);
        Ok(moved.saturating_add(sum_of(&head.records(&self.file).map_err(fails)?)))
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

    /// The same while the session's process runs. An object that is being added at this moment may be missing, and lines may be
    /// wrong at the moment when the session ends.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub fn mappings_so_far(&self) -> Result<Vec<Mapping<'static>>, RecoverError> {
        self.head.mappings(&self.file).map_err(|error| self.fails(Reason::Io("read the spool", error)))
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
        if head.is_ended || self.is_over {
            return Owner::Gone;
        }
        if Some(head.namespace) != process::namespace() {
            return Owner::Elsewhere;
        }
        match process::liveness(head.process, head.process_start) {
            Liveness::Gone => Owner::Gone,
            Liveness::Unknown => Owner::Elsewhere,
            Liveness::Exists => {
                // One that was killed and not yet waited for has one thread; where only the first has ended there are more.
                let line = fs::read(format!("/proc/{}/stat", head.process)).unwrap_or_default();
                let threads = || fs::read_dir(format!("/proc/{}/task", head.process)).map(Iterator::count);
                let is_over = process::is_zombie_in(&line) && threads().is_ok_and(|threads| threads < 2);
                if is_over { Owner::Gone } else { Owner::Running }
            }
        }
    }

    /// The right to end the spool.
    ///
    /// # Errors
    /// Where another has it, or the spool is gone.
    pub(super) fn claim(&self) -> Result<Claim, RecoverError> {
        Claim::of(&self.path, &self.file).map_err(|refusal| {
            self.fails(match refusal {
                Refusal::Taken => Reason::Claimed,
                Refusal::Io(error) => Reason::Io("open the spool", error),
            })
        })
    }

    /// The spool as it is now: it may have been opened while its process still ran.
    pub(super) fn renewed(&self, claim: &Claim) -> Result<Self, RecoverError> {
        let fails = |error| self.fails(Reason::Io("read the spool", error));
        let file = claim.file().try_clone().map_err(fails)?;
        let head = read_head(&file).map_err(|reason| self.fails(reason))?;
        Ok(Self { path: self.path.clone(), file, head, is_over: self.is_over })
    }

    pub(super) fn ensure_not_running(&self) -> Result<(), RecoverError> {
        match self.owner() {
            Owner::Running => Err(self.fails(Reason::Running(self.head.process))),
            Owner::Gone | Owner::Elsewhere => Ok(()),
        }
    }

    pub(super) fn fails(&self, reason: Reason) -> RecoverError {
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

/// Reads the head of a spool.
fn read_head(file: &File) -> Result<Head, Reason> {
    Head::read(file).map_err(|error| match error {
        SpoolError::Io(error) => Reason::Io("read the spool", error),
        SpoolError::NoSpool => Reason::NoSpool,
        SpoolError::OtherVersion => Reason::OtherVersion,
        SpoolError::Damaged(what) => Reason::Damaged(what),
    })
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}
