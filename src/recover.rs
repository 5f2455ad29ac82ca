//! Profiles of processes that were killed or crashed.
//!
//! While a session that writes a file runs, its samples are in a *spool*: a file in
//! `/dev/shm/sigprof-UID`, or in the directory of `CPUPROFILE_SPOOL` or
//! [`Builder::spool_directory`], which belongs to the user. At its end the session writes its
//! profile and removes the spool. If the process is killed, this module writes the profile from the
//! spool. Only ticks that were being recorded at that moment are missing, and stacks that were
//! first sampled when the spool was full.
//! ```no_run
//! for spool in sigprof::recover::spools(&sigprof::recover::default_directory())?.spools {
//!     if spool.owner() == sigprof::recover::Owner::Gone {
//!         println!("{}: {}", spool.program().display(), spool.recover()?);
//!     }
//! }
//! # Ok::<(), sigprof::recover::RecoverError>(())
//! ```
//!
//! Spools are not trusted. A damaged one is refused, or read as far as it is valid. Only the user's
//! own spools are read, because a spool names the file to write.
//!
//! [`Builder::spool_directory`]: crate::Builder::spool_directory

mod claim;
mod end;
mod error;
mod profile;
mod recovery;
mod spill_file;
mod spool;
#[cfg(any(test, fuzzing))]
pub(crate) mod trial;

pub use end::SessionEnd;
pub use error::RecoverError;
pub use recovery::Recovered;
pub use spool::{Owner, Spool, SpooledSample};

use crate::{
    control::{DEFAULT_DIRECTORY, SUFFIX},
    sys::process,
};
use error::Reason;
use std::{
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Returns the default directory of this user's spools: `/dev/shm/sigprof-UID`.
pub fn default_directory() -> PathBuf {
    PathBuf::from(format!("{DEFAULT_DIRECTORY}-{}", process::effective_user()))
}

/// The spools in a directory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Spools {
    /// Spools of running and of exited processes, the oldest first.
    pub spools: Vec<Spool>,
    /// Files with a spool's name that are damaged, of another user or of another version.
    pub unusable: Vec<RecoverError>,
}

/// Finds the spools in `directory`. If it does not exist, there are none.
///
/// # Errors
/// If the directory cannot be read.
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
            // Its session has just ended.
            Err(error) if error.is_missing() => {}
            Err(error) => found.unusable.push(error),
        }
    }
    // The last program of a process was not replaced by `exec`.
    fn order(spool: &Spool) -> (u64, u32, bool, &Path) {
        (spool.head.started, spool.head.process, !spool.head.is_replaced, &spool.path)
    }
    found.spools.sort_by(|a, b| order(a).cmp(&order(b)));
    found.unusable.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
