//! Open directories, in which files are named later, even if paths have changed. A descriptor is
//! used, and closed, only while it refers to the same directory: the application may reuse its
//! number. Without allocation.
//!
//! # Safety
//! System calls on descriptors, without pointers.
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

/// A directory opened with O_PATH.
pub(crate) struct Directory {
    descriptor: i32,
    /// Device and inode.
    identity: (u64, u64),
}

impl Directory {
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn open(path: &CStr) -> Result<Self, i32> {
        let file = File::open_at(libc::AT_FDCWD, path, libc::O_PATH | libc::O_DIRECTORY)?;
        let identity = file::try_identity(file.number())?;
        let descriptor = file.number();
        mem::forget(file);
        Ok(Self { descriptor, identity })
    }

    /// See [`file::duplicate_high`].
    pub(crate) fn duplicate_high(&self) -> Option<Self> {
        if !self.is_still_open() {
            return None;
        }
        file::duplicate_high(self.descriptor).map(|descriptor| Self { descriptor, identity: self.identity })
    }

    /// Returns the same descriptor, not to be closed; usable while this one is open.
    pub(crate) fn borrowed(&self) -> BorrowedDirectory {
        ManuallyDrop::new(Self { descriptor: self.descriptor, identity: self.identity })
    }

    /// Whether it is the same directory. The application's own descriptors lack `O_PATH`.
    pub(crate) fn is_still_open(&self) -> bool {
        // SAFETY: reads a descriptor's flags; no pointer is passed.
        let flags = unsafe { libc::fcntl(self.descriptor, libc::F_GETFL) };
        flags >= 0 && flags & libc::O_PATH != 0 && file::identity(self.descriptor) == Some(self.identity)
    }

    /// Returns None if the descriptor refers to another file.
    pub(crate) fn status(&self) -> Option<Status> {
        if self.is_still_open() { Status::of_descriptor(self.descriptor).ok() } else { None }
    }

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
    fn duplicates_to_a_high_number() {
        let scratch = tempfile::tempdir().unwrap();
        let low = open(scratch.path());
        let high = low.duplicate_high().unwrap();
        assert!(high.number() >= 20 && high.is_still_open());
        let (number, own) = (high.number(), high.identity());
        drop(high);
        // Another test may have reused the number.
        assert_ne!(file::identity(number), Some(own), "it was not closed");
    }

    #[test]
    fn does_not_close_a_reused_number() {
        let scratch = tempfile::tempdir().unwrap();
        let ours = open(scratch.path());
        // The application's descriptor of the same directory.
        let other = std::fs::File::open(scratch.path()).unwrap();
        // SAFETY: both are open; `ours` is not used again.
        assert!(unsafe { libc::dup2(other.as_raw_fd(), ours.number()) } >= 0);
        assert!(!ours.is_still_open());
        let number = ours.number();
        drop(ours);
        assert!(file::identity(number).is_some(), "the descriptor of the other file was closed");
        file::close(number).unwrap();
    }
}
