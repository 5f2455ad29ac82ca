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
mod end;
mod error;
mod moved;
mod profile;
mod recovery;
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
