//! Recovery and removal of a spool.

use super::{
    error::{Reason, RecoverError},
    profile::{sum_of, write_file, write_profile},
    spool::{Owner, Spool},
};
use crate::format::spool::FileStamp;
use std::{
    fmt,
    fs::{self, File},
    io::BufWriter,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

impl Spool {
    /// Writes the profile to its target, and removes the spool. If the target file was written
    /// again since the session began, it is kept, and the recovered profile is
    /// `NAME.recovered-PID`.
    ///
    /// # Errors
    /// If the process is or may be running; if another process recovers the spool, or has recovered
    /// it; if the profile cannot be written. The spool is then kept.
    pub fn recover(&self) -> Result<Recovered, RecoverError> {
        if self.owner() == Owner::Elsewhere {
            return Err(self.fails(Reason::Elsewhere(self.head.process)));
        }
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.recover_now()
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

    /// Writes the profile to `path`, which is replaced if it exists, and removes the spool. For a
    /// process of another container ([`Owner::Elsewhere`]) the caller must know that it has exited.
    /// A process that still runs is not harmed, but a later kill loses its samples.
    ///
    /// # Errors
    /// If the process is running, or the profile cannot be written. The spool is then kept.
    pub fn recover_to(&self, path: &Path) -> Result<Recovered, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.write(path, true)
    }

    /// Removes the spool with its samples. The process must have exited, as for
    /// [`recover_to`](Self::recover_to).
    ///
    /// # Errors
    /// If the process is running, or the spool cannot be removed.
    pub fn discard(&self) -> Result<(), RecoverError> {
        self.ensure_not_running()?;
        let _claim = self.claim()?;
        self.remove_spill_file();
        fs::remove_file(&self.path).map_err(|error| self.fails(Reason::Io("remove the spool", error)))
    }

    /// Whether the target is missing, as before the session, or as the session wrote it.
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

    /// The `n`th name of a profile if its own name is in use.
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
        let spilled = self.spilled()?;
        if records.is_empty() && spilled.is_none() {
            return self.without_file();
        }
        let mappings = self.head.mappings(&self.file).map_err(fails)?;
        let mut samples = 0;
        let fill = |out: &mut BufWriter<File>| {
            samples = write_profile(&self.head, spilled.as_ref(), &records, &mappings, out)?;
            Ok(())
        };
        let written = write_file(target, replaces, fill);
        written.map_err(|error| RecoverError::new(target, Reason::Write(error)))?;
        let in_spool = sum_of(&records);
        // The spill file may be missing or damaged.
        let periods = self.head.spilled.as_ref().map_or(0, |spilled| spilled.periods);
        let missing = periods.saturating_sub(samples.saturating_sub(in_spool));
        self.remove_files();
        let path = Some(target.into());
        let lost = self.head.lost.saturating_add(missing);
        Ok(Recovered { path, samples, lost, is_truncated: self.head.is_truncated })
    }

    /// Removes the spill file and the spool. A spool that remains is only recovered again.
    fn remove_files(&self) {
        // The spool has the name of the spill file.
        self.remove_spill_file();
        let _ = fs::remove_file(&self.path);
    }

    fn without_file(&self) -> Result<Recovered, RecoverError> {
        self.remove_files();
        Ok(Recovered { path: None, samples: 0, lost: self.head.lost, is_truncated: self.head.is_truncated })
    }
}

/// The result of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Path of the profile; None if there were no samples, or the process had written the profile.
    pub path: Option<PathBuf>,
    /// Sum of the weights: a number of periods.
    pub samples: u64,
    /// Lost periods, except those without a free scratch slot.
    pub lost: u64,
    /// The spool was full: call stacks that were first sampled after that are missing.
    pub is_truncated: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            None => f.write_str("nothing to recover"),
            Some(path) => {
                write!(f, "{} samples recovered to {}", self.samples, path.display())?;
                if self.is_truncated {
                    f.write_str(
                        ", without call chains that were first sampled when the spool's file system was full",
                    )?;
                }
                Ok(())
            }
        }
    }
}
