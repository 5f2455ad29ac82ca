//! The end of a spool: its profile is made, or it is thrown away.

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
    /// Writes the profile to the file that it was meant for, and removes the spool.
    ///
    /// If that file was written again since the session began, it stays, and the recovered profile is
    /// `NAME.recovered-PID`.
    ///
    /// # Errors
    /// If the process is running, or may be; if another process recovers the spool, or has; if the profile cannot be
    /// written. The spool then stays.
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

    /// Writes the profile to `path`, which is replaced if it exists, and removes the spool. For a process of another
    /// container ([`Owner::Elsewhere`]) the caller must know that it has exited. A process that is still running is not
    /// harmed, but a later kill loses its samples.
    ///
    /// # Errors
    /// If the process is running; if the profile cannot be written. The spool then stays.
    pub fn recover_to(&self, path: &Path) -> Result<Recovered, RecoverError> {
        self.ensure_not_running()?;
        let claim = self.claim()?;
        self.renewed(&claim)?.write(path, true)
    }

    /// Removes the spool with its samples. As for [`recover_to`](Self::recover_to), the process must have exited.
    ///
    /// # Errors
    /// If the process is running, or the spool cannot be removed.
    pub fn discard(&self) -> Result<(), RecoverError> {
        self.ensure_not_running()?;
        let _claim = self.claim()?;
        self.remove_moved();
        fs::remove_file(&self.path).map_err(|error| self.fails(Reason::Io("remove the spool", error)))
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
        Ok(Recovered { path, samples, lost, is_truncated: self.head.is_truncated })
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
        Ok(Recovered { path: None, samples: 0, lost: self.head.lost, is_truncated: self.head.is_truncated })
    }
}

/// The result of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Path of the profile; None if there were no samples, or if the process had written it itself.
    pub path: Option<PathBuf>,
    /// Sum of the weights: a number of periods.
    pub samples: u64,
    /// Lost periods, without those for which no scratch slot was free.
    pub lost: u64,
    /// The spool was full: call stacks that came first after that are missing.
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
                        ", without call chains that were first met when the spool's file system was full",
                    )?;
                }
                Ok(())
            }
        }
    }
}
