//! One spool: its owner, its state and its samples.

use super::{
    claim::{Claim, Refusal},
    end::SessionEnd,
    error::{Reason, RecoverError},
    profile::sum_of,
    spill_file::for_each_spilled,
};
use crate::{
    format::{
        Mapping,
        spool::{Head, SpoolError, SpoolSource, SpooledRecord, thread_of},
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

/// State of the process to which a spool belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Owner {
    /// The process runs and uses the spool.
    Running,
    /// The process has exited, or the session has ended.
    Gone,
    /// The process is or was in another PID namespace (a container), or /proc is not usable.
    Elsewhere,
}

/// A session's spool file.
#[derive(Debug)]
pub struct Spool {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) head: Head,
    /// The caller has stated that no process writes to it.
    is_over: bool,
}

impl Spool {
    /// Opens the spool at `path`.
    ///
    /// # Errors
    /// If it cannot be read, belongs to another user, or is not a spool of this version.
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

    /// Treats the spool as unused, because the caller has found that the program was
    /// [replaced](Self::is_replaced). If it was not, samples that the process adds are not read.
    #[must_use]
    pub fn known_to_be_over(mut self) -> Self {
        self.is_over = true;
        self
    }

    /// Returns the path of the spool.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the process ID.
    pub fn process(&self) -> u32 {
        self.head.process
    }

    /// Returns the path of the program; empty if it is unknown.
    pub fn program(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.head.program))
    }

    /// Returns the absolute path of the profile.
    pub fn target(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.head.target))
    }

    /// Returns the start time of the session.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.head.started)).unwrap_or(UNIX_EPOCH)
    }

    /// True if the profile was written, but the spool was not removed (after `chroot` or `setuid`).
    pub fn is_complete(&self) -> bool {
        self.head.is_complete
    }

    /// True if the spool was full: call stacks that were first sampled after that are missing.
    pub fn is_truncated(&self) -> bool {
        self.head.is_truncated
    }

    /// True if the samples have threads ([`Builder::by_thread`](crate::Builder::by_thread)).
    pub fn is_by_thread(&self) -> bool {
        self.head.is_by_thread
    }

    /// True if the process was about to replace its program (`exec`). If it has a newer spool, the
    /// program was replaced; otherwise the call may have failed.
    pub fn is_replaced(&self) -> bool {
        self.head.is_replaced
    }

    /// Returns the process's start time in clock ticks since boot. It is unique with the ID.
    pub fn process_start(&self) -> u64 {
        self.head.process_start
    }

    /// Returns the IDs of the processes from which this one was forked since its `exec`, the
    /// nearest first, at most four. This process has their code, including JIT-compiled code.
    pub fn ancestors(&self) -> impl Iterator<Item = u32> {
        self.head.ancestors.0.into_iter().take_while(|&process| process > 0)
    }

    /// Returns the lost periods that were counted while the process ran, without those of ticks
    /// that found no free scratch slot.
    pub fn lost(&self) -> u64 {
        self.head.lost
    }

    /// Returns the figures of the session's end; None if the process was killed before.
    pub fn end(&self) -> Option<SessionEnd> {
        self.head.figures.map(SessionEnd::of)
    }

    /// Returns the sum of the counts until now, for a process that runs or has exited.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub fn samples_so_far(&self) -> Result<u64, RecoverError> {
        let fails = |error| self.fails(Reason::Io("read the spool", error));
        let head = read_head(&self.file).map_err(|reason| self.fails(reason))?;
        let spilled = head.spilled.as_ref().map_or(0, |spilled| spilled.periods);
        Ok(spilled.saturating_add(sum_of(&head.records(&self.file).map_err(fails)?)))
    }

    /// Returns the time that a count of 1 represents.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.head.period_micros)
    }

    /// Reads the samples, with threads if the spool [has them](Self::is_by_thread). A call stack
    /// may occur several times. The spool is not changed.
    ///
    /// # Errors
    /// If the process runs, or the spool is being recovered, or a file cannot be read.
    pub fn samples(&self) -> Result<Vec<SpooledSample>, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.samples_now()
    }

    /// Reads the list of mapped objects at the session's start (at its end if it wrote one), and
    /// the objects that were sampled later. The spool is not changed.
    ///
    /// # Errors
    /// Those of [`samples`](Self::samples).
    pub fn mappings(&self) -> Result<Vec<Mapping<'static>>, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        let now = self.renewed(&claim)?;
        now.head.mappings(&now.file).map_err(|error| self.fails(Reason::Io("read the spool", error)))
    }

    /// Like [`mappings`](Self::mappings), while the process runs. An object that is being added may
    /// be missing, and lines may be wrong while the session ends.
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
        if let Some(spilled) = self.spilled()? {
            for_each_spilled(&self.head, &spilled, |records| {
                take(records);
                Ok::<_, io::Error>(())
            })
            .map_err(fails)?;
        }
        Ok(samples)
    }

    /// Returns the state of the session's process.
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
                // A zombie has one thread. If only the first thread has exited, there are more.
                let line = fs::read(format!("/proc/{}/stat", head.process)).unwrap_or_default();
                let threads = || fs::read_dir(format!("/proc/{}/task", head.process)).map(Iterator::count);
                let is_over = process::is_zombie_in(&line) && threads().is_ok_and(|threads| threads < 2);
                if is_over { Owner::Gone } else { Owner::Running }
            }
        }
    }

    /// Claims the right to recover or discard the spool.
    ///
    /// # Errors
    /// If another process has it, or the spool was removed.
    pub(super) fn claim(&self) -> Result<Claim, RecoverError> {
        Claim::of(&self.path, &self.file).map_err(|refusal| {
            self.fails(match refusal {
                Refusal::Taken => Reason::Claimed,
                Refusal::Io(error) => Reason::Io("open the spool", error),
            })
        })
    }

    /// Reads the spool again: it may have been opened while its process ran.
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

/// A call stack of a thread, with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpooledSample {
    /// The weight: a number of periods, at least 1.
    pub count: u64,
    /// The call stack, innermost first, at least one: addresses in the exited process.
    pub pcs: Vec<u64>,
    /// The thread; None if it is unknown.
    pub thread: Option<Thread>,
}

fn read_head(file: &File) -> Result<Head, Reason> {
    Head::read(file).map_err(|error| match error {
        SpoolError::Io(error) => Reason::Io("read the spool", error),
        SpoolError::NoSpool => Reason::NoSpool,
        SpoolError::OtherVersion => Reason::OtherVersion,
        SpoolError::Damaged(what) => Reason::Damaged(what),
    })
}

impl SpoolSource for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}
