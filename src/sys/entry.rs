//! Directory entries, without allocation and cancellation points (see `file.rs`).
//!
//! # Safety
//! System calls with pointers to NUL-terminated names that outlive the call, or locals.
#![allow(unsafe_code)]

use super::{
    arch::system_call,
    directory::Directory,
    errno,
    file::{File, PathBuffer},
};
use core::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    SymbolicLink,
    Special,
    Socket,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) kind: FileKind,
    /// The bits of `chmod(2)`.
    pub(crate) permissions: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
    /// Hard links; 0 if it was removed.
    pub(crate) names: u64,
    pub(crate) bytes: u64,
    /// Nanoseconds since 1970, at the file system's resolution.
    pub(crate) modified: i64,
}

impl Status {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "other widths on other machines")]
    fn of(status: &libc::stat64) -> Self {
        Self {
            kind: match status.st_mode & libc::S_IFMT {
                libc::S_IFREG => FileKind::Regular,
                libc::S_IFDIR => FileKind::Directory,
                libc::S_IFLNK => FileKind::SymbolicLink,
                libc::S_IFSOCK => FileKind::Socket,
                _ => FileKind::Special,
            },
            permissions: status.st_mode & 0o7777,
            owner: status.st_uid,
            group: status.st_gid,
            identity: (status.st_dev, status.st_ino),
            names: u64::from(status.st_nlink),
            bytes: u64::try_from(status.st_size).unwrap_or(0),
            modified: (status.st_mtime as i64)
                .saturating_mul(1_000_000_000)
                .saturating_add(status.st_mtime_nsec as i64),
        }
    }

    pub(super) fn of_descriptor(descriptor: i32) -> Result<Self, i32> {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
        // SAFETY: the structure is a local.
        let result = unsafe { libc::fstat64(descriptor, &mut status) };
        if result == 0 { Ok(Self::of(&status)) } else { Err(errno::get()) }
    }

    /// Whether any user may create entries, which only their owners may remove, as in /tmp.
    pub(crate) fn is_shared_directory(&self) -> bool {
        const STICKY_AND_WRITABLE_BY_ALL: u32 = 0o1002;
        self.permissions & STICKY_AND_WRITABLE_BY_ALL == STICKY_AND_WRITABLE_BY_ALL
    }
}

/// An entry of an open directory, or a path.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'n> {
    directory: i32,
    name: &'n CStr,
}

impl<'n> Entry<'n> {
    pub(crate) fn within(directory: &'n Directory, name: &'n CStr) -> Self {
        Self { directory: directory.number(), name }
    }

    pub(crate) fn at(path: &'n CStr) -> Self {
        Self { directory: libc::AT_FDCWD, name: path }
    }

    /// # Errors
    /// The error number of `lstat(2)`.
    pub(crate) fn status(&self) -> Result<Status, i32> {
        self.stat(libc::AT_SYMLINK_NOFOLLOW)
    }

    /// # Errors
    /// The error number of `stat(2)`.
    pub(crate) fn status_following_links(&self) -> Result<Status, i32> {
        self.stat(0)
    }

    /// By `fstatat64`, which supports 64-bit inode numbers on every machine.
    fn stat(&self, flags: i32) -> Result<Status, i32> {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
        // SAFETY: the name is NUL-terminated and outlives the call; the structure is a local.
        let result = unsafe { libc::fstatat64(self.directory, self.name.as_ptr(), &mut status, flags) };
        if result == 0 { Ok(Status::of(&status)) } else { Err(errno::get()) }
    }

    /// # Errors
    /// The error number of `access(2)`, by effective IDs.
    pub(crate) fn ensure_writable(&self) -> Result<(), i32> {
        let (directory, flags) = (self.directory, libc::AT_EACCESS);
        // SAFETY: the name is NUL-terminated and outlives the call.
        let result = unsafe { libc::faccessat(directory, self.name.as_ptr(), libc::W_OK, flags) };
        if result == 0 { Ok(()) } else { Err(errno::get()) }
    }

    /// # Errors
    /// The error number of `open(2)`: `EEXIST` if the entry exists.
    pub(crate) fn create(&self) -> Result<File, i32> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        File::open_at(self.directory, self.name, flags)
    }

    /// Opens an existing file without making it the controlling terminal or waiting for a pipe's
    /// reader. With `follows`, for /proc and /dev, symbolic links are followed.
    ///
    /// # Errors
    /// The error number of `open(2)`; `ENXIO` for a pipe without a reader.
    pub(crate) fn open_for_writing(&self, follows: bool) -> Result<File, i32> {
        let flags = libc::O_WRONLY | libc::O_NOCTTY | libc::O_NONBLOCK;
        File::open_at(self.directory, self.name, if follows { flags } else { flags | libc::O_NOFOLLOW })
    }

    /// # Errors
    /// The error number of `rename(2)`.
    pub(crate) fn rename(&self, to: Entry<'_>) -> Result<(), i32> {
        let (from_name, to_name) = (self.name.as_ptr() as usize, to.name.as_ptr() as usize);
        let arguments = [self.directory as usize, from_name, to.directory as usize, to_name, 0, 0];
        // SAFETY: both names are NUL-terminated and outlive the call.
        let result = unsafe { system_call(libc::SYS_renameat, arguments) };
        if result < 0 { Err(-result as i32) } else { Ok(()) }
    }

    /// # Errors
    /// The error number of `unlink(2)`.
    pub(crate) fn unlink(&self) -> Result<(), i32> {
        let arguments = [self.directory as usize, self.name.as_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: the name is NUL-terminated and outlives the call.
        let result = unsafe { system_call(libc::SYS_unlinkat, arguments) };
        if result < 0 { Err(-result as i32) } else { Ok(()) }
    }

    /// # Errors
    /// The error number of `readlink(2)`.
    pub(crate) fn read_link(&self, target: &mut PathBuffer) -> Result<(), i32> {
        let name = self.name.as_ptr() as usize;
        target.fill(|room| {
            let arguments = [self.directory as usize, name, room.as_mut_ptr() as usize, room.len(), 0, 0];
            // SAFETY: the name is NUL-terminated; the kernel writes at most `room.len()` bytes.
            unsafe { system_call(libc::SYS_readlinkat, arguments) }
        })
    }
}

impl File {
    /// # Errors
    /// The error number of `fstat(2)`.
    pub(crate) fn status(&self) -> Result<Status, i32> {
        Status::of_descriptor(self.number())
    }
}

/// Whether `path` is missing or not executable, by effective IDs. Signal-safe, as `access(2)`.
///
/// # Safety
/// * `path` must be NUL-terminated; the kernel checks its memory.
pub(crate) unsafe fn is_not_executable(path: *const core::ffi::c_char) -> bool {
    // SAFETY: the kernel reads the path, and returns `EFAULT` if it cannot.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, path, libc::X_OK, libc::AT_EACCESS) };
    // Other errors are not about the file: sandboxes may refuse faccessat2(2) with EPERM.
    result != 0
        && matches!(
            errno::get(),
            libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP | libc::ENAMETOOLONG | libc::EFAULT
        )
}
