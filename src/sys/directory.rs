//! Directories that stay open: for files that are named there later, whatever became of paths meanwhile.
//!
//! The host may close any descriptor, and open something of its own under the same number. So what the descriptor was
//! opened for is noted, and it is used, and closed, only while it still is that. Nothing here allocates.
//!
//! # Safety
//! Calls on descriptors.
#![allow(unsafe_code)]

use super::{
    entry::Status,
    file::{self, File},
};
use core::{
    ffi::CStr,
    mem::{self, ManuallyDrop},
};

/// A directory that another value closes.
pub(crate) type BorrowedDirectory = ManuallyDrop<Directory>;

/// A directory that is open, for nothing but to name files in it.
pub(crate) struct Directory {
    descriptor: i32,
    /// Device and inode.
    identity: (u64, u64),
}

impl Directory {
    /// Opens a directory; no right to read it is needed.
    ///
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn open(path: &CStr) -> Result<Self, i32> {
        let file = File::open_at(libc::AT_FDCWD, path, libc::O_PATH | libc::O_DIRECTORY)?;
        let identity = file::try_identity(file.number())?;
        let descriptor = file.number();
        mem::forget(file);
        Ok(Self { descriptor, identity })
    }

    /// Opens it once more under a high number, where it is in nobody's way: programs count on low ones. None where
    /// the limit on open files leaves no room.
    pub(crate) fn duplicate_high(&self) -> Option<Self> {
        if !self.is_still_open() {
            return None;
        }
        file::duplicate_high(self.descriptor).map(|descriptor| Self { descriptor, identity: self.identity })
    }

    /// The same descriptor, for who does not close it; of use as long as this one is open.
    pub(crate) fn borrowed(&self) -> BorrowedDirectory {
        ManuallyDrop::new(Self { descriptor: self.descriptor, identity: self.identity })
    }

    /// True while the descriptor is what it was opened as. `O_PATH` tells it from one that the host has opened for
    /// the same directory.
    pub(crate) fn is_still_open(&self) -> bool {
        // SAFETY: the flags of a descriptor, whatever it is.
        let flags = unsafe { libc::fcntl(self.descriptor, libc::F_GETFL) };
        flags >= 0 && flags & libc::O_PATH != 0 && file::identity(self.descriptor) == Some(self.identity)
    }

    /// What the system knows of it; None where the descriptor is another's now.
    pub(crate) fn status(&self) -> Option<Status> {
        if self.is_still_open() { Status::of_descriptor(self.descriptor).ok() } else { None }
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    pub(super) fn number(&self) -> i32 {
        self.descriptor
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_still_open() {
            let _ = file::close(self.descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{fd::AsRawFd, unix::ffi::OsStrExt};

    fn open(path: &std::path::Path) -> Directory {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        Directory::open(&path).unwrap()
    }

    #[test]
    fn a_directory_is_kept_under_a_high_number() {
        let scratch = tempfile::tempdir().unwrap();
        let low = open(scratch.path());
        let high = low.duplicate_high().unwrap();
        assert!(high.number() >= 20 && high.is_still_open());
        let (number, own) = (high.number(), high.identity());
        drop(high);
        // Another test may have taken the number meanwhile.
        assert_ne!(file::identity(number), Some(own), "it was not closed");
    }

    #[test]
    fn a_number_that_the_host_has_taken_over_is_left_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let ours = open(scratch.path());
        // The host's own descriptor of the very same directory.
        let host = std::fs::File::open(scratch.path()).unwrap();
        // SAFETY: both are open; what ours was is closed by it, and is not used again.
        assert!(unsafe { libc::dup2(host.as_raw_fd(), ours.number()) } >= 0);
        assert!(!ours.is_still_open());
        let number = ours.number();
        drop(ours);
        assert!(file::identity(number).is_some(), "the host's descriptor was closed");
        file::close(number).unwrap();
    }
}
