//! The right to end a spool, which one at a time has: two that made its profile at once would both write one, the second
//! of records that the first one is removing.

use crate::sys::file;
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// Held by who makes a profile of a spool, or discards it.
pub(super) enum Claim {
    Locked(Flock<File>),
    /// Its file system knows no locks.
    Free(File),
}

/// Why it is not to be had.
pub(super) enum Refusal {
    Taken,
    Io(io::Error),
}

impl Claim {
    /// Claims the spool at `path`, which has been opened as `opened`.
    ///
    /// # Errors
    /// Where another has it; where the path cannot be opened, or leads to another file by now.
    pub(super) fn of(path: &Path, opened: &File) -> Result<Self, Refusal> {
        // Opened anew, since a lock belongs to an open file, and this one may be shared by threads.
        let file = file::open_unfollowed(path).map_err(Refusal::Io)?;
        let claim = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => Self::Locked(locked),
            Err((_, Errno::EWOULDBLOCK)) => return Err(Refusal::Taken),
            Err((file, _)) => Self::Free(file),
        };
        // Who had it before may have removed the file, and its name may be another's by now.
        let identity = |status: fs::Metadata| (status.dev(), status.ino());
        let named = fs::symlink_metadata(path).map(identity).map_err(Refusal::Io)?;
        let is_same = |file: &File| file.metadata().is_ok_and(|status| identity(status) == named);
        if is_same(claim.file()) && is_same(opened) {
            Ok(claim)
        } else {
            Err(Refusal::Io(io::ErrorKind::NotFound.into()))
        }
    }

    pub(super) fn file(&self) -> &File {
        match self {
            Self::Locked(file) => file,
            Self::Free(file) => file,
        }
    }
}
