//! A file of the profiler that stays open while the application runs. It is used only while its
//! descriptor still refers to it. Signal-safe: system calls, one by
//! `fstatfs64`, which is only that in glibc.
//!
//! # Safety
//! System calls on descriptors, with borrowed buffers and locals.
#![allow(unsafe_code)]

use super::{
    arch::system_call,
    directory::Directory,
    entry::Status,
    errno,
    file::{self, File, restart},
    signal,
};
use core::{ffi::CStr, mem};

pub(crate) struct CheckedFile {
    descriptor: i32,
    /// Device and inode.
    identity: (u64, u64),
}

impl CheckedFile {
    /// Creates a new file with mode 0600.
    ///
    /// # Errors
    /// The error number of `open(2)` or `fstat(2)`.
    pub(crate) fn create(directory: &Directory, name: &CStr) -> Result<Self, i32> {
        let file = Self::open(directory, name, libc::O_CREAT | libc::O_EXCL)?;
        // By system call: fakeroot's `fchmod` takes locks. Despite the umask, for `reopen`.
        // SAFETY: an owned descriptor, no pointer; if it fails, the umask's permissions remain.
        unsafe { system_call(libc::SYS_fchmod, [file.number() as usize, 0o600, 0, 0, 0, 0]) };
        Self::from_file(file)
    }

    /// Opens the file again after the application closed it.
    ///
    /// # Errors
    /// The error number of `open(2)`; `ESTALE` if another file has the name.
    pub(crate) fn reopen(&mut self, directory: &Directory, name: &CStr) -> Result<(), i32> {
        let kept = Self::from_file(Self::open(directory, name, 0)?)?;
        if kept.identity != self.identity {
            return Err(errno::ESTALE);
        }
        *self = kept;
        Ok(())
    }

    fn open(directory: &Directory, name: &CStr, flags: i32) -> Result<File, i32> {
        if !directory.is_still_open() {
            return Err(libc::EBADF);
        }
        File::open_with_mode(directory.number(), name, libc::O_RDWR | libc::O_NOFOLLOW | flags, 0o600)
    }

    /// Uses a high number if one is free, because programs rely on low ones.
    fn from_file(file: File) -> Result<Self, i32> {
        let identity = file::try_identity(file.number())?;
        if let Some(descriptor) = file::duplicate_high(file.number()) {
            return Ok(Self { descriptor, identity });
        }
        let descriptor = file.number();
        mem::forget(file);
        Ok(Self { descriptor, identity })
    }

    pub(crate) fn is(&self, status: &Status) -> bool {
        status.identity == self.identity
    }

    pub(crate) fn is_still_open(&self) -> bool {
        file::identity(self.descriptor) == Some(self.identity)
    }

    /// # Errors
    /// The error number of `fstatfs(2)`.
    pub(crate) fn free_bytes(&self) -> Result<u64, i32> {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut status: libc::statfs64 = unsafe { mem::zeroed() };
        // SAFETY: the structure is a local.
        if unsafe { libc::fstatfs64(self.descriptor, &mut status) } != 0 {
            return Err(errno::get());
        }
        Ok((status.f_bavail as u64).saturating_mul(status.f_bsize as u64))
    }

    /// Writes `bytes`. The caller must block all signals.
    ///
    /// # Errors
    /// The error number of `pwrite(2)`. SIGXFSZ of the failed call is discarded.
    pub(crate) fn write_at(&self, offset: u64, mut bytes: &[u8]) -> Result<(), i32> {
        let mut offset = offset;
        while !bytes.is_empty() {
            let (start, length) = (bytes.as_ptr() as usize, bytes.len());
            let arguments = at(self.descriptor, start, length, offset);
            // SAFETY: the kernel reads the borrowed bytes.
            match restart(|| unsafe { system_call(libc::SYS_pwrite64, arguments) }) {
                Ok(0) => return Err(libc::EIO),
                Ok(written) => {
                    bytes = bytes.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(error) => {
                    if error == libc::EFBIG {
                        signal::discard_pending(libc::SIGXFSZ);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// # Errors
    /// The error number of `pread(2)`; `EIO` if the file is shorter.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), i32> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let arguments = at(self.descriptor, rest.as_mut_ptr() as usize, rest.len(), offset + done as u64);
            // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
            match restart(|| unsafe { system_call(libc::SYS_pread64, arguments) })? {
                0 => return Err(libc::EIO),
                read => done += read,
            }
        }
        Ok(())
    }
}

/// Returns arguments of `pread64(2)` and `pwrite64(2)`: a 32-bit machine splits the offset.
fn at(descriptor: i32, start: usize, length: usize, offset: u64) -> [usize; 6] {
    let high = if cfg!(target_pointer_width = "32") { (offset >> 32) as usize } else { 0 };
    [descriptor as usize, start, length, offset as usize, high, 0]
}

impl Drop for CheckedFile {
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

    fn directory(path: &std::path::Path) -> Directory {
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        Directory::open(&path).unwrap()
    }

    #[test]
    fn reads_what_it_wrote_at_an_offset() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = directory(scratch.path());
        let kept = CheckedFile::create(&directory, c"file").unwrap();
        assert!(kept.descriptor >= 20, "{}", kept.descriptor);
        kept.write_at(5 << 30, b"far away").unwrap();
        kept.write_at(1, b"near").unwrap();
        let mut bytes = [0; 4];
        kept.read_at((5 << 30) + 4, &mut bytes).unwrap();
        assert_eq!(&bytes, b"away");
        kept.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0nea");
        assert_eq!(kept.read_at((5 << 30) + 5, &mut bytes), Err(libc::EIO), "behind the end");
        assert_eq!(CheckedFile::create(&directory, c"file").err(), Some(libc::EEXIST));
        let (number, own) = (kept.descriptor, kept.identity);
        drop(kept);
        // Another test may have reused the number.
        assert_ne!(file::identity(number), Some(own), "it was not closed");
    }

    #[test]
    fn reopens_a_file_that_the_application_closed() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = directory(scratch.path());
        let mut kept = CheckedFile::create(&directory, c"file").unwrap();
        kept.write_at(0, b"kept").unwrap();
        // The application reuses the number.
        let other = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: both are open; `kept` is not used before it is reopened.
        assert!(unsafe { libc::dup2(other.as_raw_fd(), kept.descriptor) } >= 0);
        assert!(!kept.is_still_open());
        let taken = kept.descriptor;
        kept.reopen(&directory, c"file").unwrap();
        assert!(
            kept.is_still_open() && file::identity(taken).is_some(),
            "the descriptor of the other file was closed"
        );
        let mut bytes = [0; 4];
        kept.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
        file::close(taken).unwrap();
        std::fs::remove_file(scratch.path().join("file")).unwrap();
        std::fs::write(scratch.path().join("file"), "another").unwrap();
        assert_eq!(kept.reopen(&directory, c"file"), Err(errno::ESTALE));
    }
}
