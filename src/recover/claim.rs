//! The exclusive right to recover or discard a spool: while one process removes the records,
//! another must not write a profile from them.

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

pub(super) enum Claim {
    Locked(Flock<File>),
    /// The file system does not support locks.
    Free(File),
}

pub(super) enum Refusal {
    Taken,
    Io(io::Error),
}

impl Claim {
    /// Claims the spool at `path`, which is open as `opened`.
    ///
    /// # Errors
    /// If another process or thread has it, or the path cannot be opened or is now another file.
    pub(super) fn of(path: &Path, opened: &File) -> Result<Self, Refusal> {
        // A lock belongs to an open file description (flock(2)), and threads may share `opened`.
        let file = file::open_unfollowed(path).map_err(Refusal::Io)?;
        let claim = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => Self::Locked(locked),
            Err((_, Errno::EWOULDBLOCK)) => return Err(Refusal::Taken),
            Err((file, _)) => Self::Free(file),
        };
        // The previous holder may have removed the file, and another file may have its name.
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
