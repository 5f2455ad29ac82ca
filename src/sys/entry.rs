//! Entries of directories: asked about, created, opened, renamed, removed. Nothing here allocates, and nothing is a
//! cancellation point (see `file.rs`).
//!
//! # Safety
//! System calls whose pointers are NUL-terminated names that outlive the call, or locals.
#![allow(unsafe_code)]

use super::{
    arch::system_call,
    directory::Directory,
    errno,
    file::{File, PathBuffer},
};
use core::ffi::CStr;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    SymbolicLink,
    /// A device or a pipe.
    Special,
    /// It cannot be opened.
    Socket,
}

/// What the system knows of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) kind: FileKind,
    /// The bits of `chmod(2)`.
    pub(crate) permissions: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
    /// Names that it has; 0 when it was removed.
    pub(crate) names: u64,
    pub(crate) bytes: u64,
    /// When its contents changed last, in nanoseconds since 1970, as exact as its file system is.
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

    /// Of an open file.
    pub(super) fn of_descriptor(descriptor: i32) -> Result<Self, i32> {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
        // SAFETY: the structure is a local.
        let result = unsafe { libc::fstat64(descriptor, &mut status) };
        if result == 0 { Ok(Self::of(&status)) } else { Err(errno::get()) }
    }

    /// Anybody may make entries in this directory, and only their owners may remove them, as in /tmp.
    pub(crate) fn is_shared_directory(&self) -> bool {
        const STICKY_AND_WRITABLE_BY_ALL: u32 = 0o1002;
        self.permissions & STICKY_AND_WRITABLE_BY_ALL == STICKY_AND_WRITABLE_BY_ALL
    }
}

/// An entry of a directory that is open, or a path of its own.
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

    /// What stands there itself.
    ///
    /// # Errors
    /// The error number of `lstat(2)`.
    pub(crate) fn status(&self) -> Result<Status, i32> {
        self.stat(libc::AT_SYMLINK_NOFOLLOW)
    }

    /// What stands there, or where the symbolic link leads that stands there.
    ///
    /// # Errors
    /// The error number of `stat(2)`.
    pub(crate) fn status_following_links(&self) -> Result<Status, i32> {
        self.stat(0)
    }

    /// By the call that knows inode numbers of 64 bits on every machine.
    fn stat(&self, flags: i32) -> Result<Status, i32> {
        // SAFETY: all fields are integers, for which zero is a value.
        let mut status: libc::stat64 = unsafe { core::mem::zeroed() };
        // SAFETY: the name is NUL-terminated, the structure a local, and both outlive the call.
        let result = unsafe { libc::fstatat64(self.directory, self.name.as_ptr(), &mut status, flags) };
        if result == 0 { Ok(Status::of(&status)) } else { Err(errno::get()) }
    }

    /// Finds out whether the process may write the existing file, by its effective ids.
    ///
    /// # Errors
    /// The error number of `access(2)`.
    pub(crate) fn ensure_writable(&self) -> Result<(), i32> {
        let (directory, flags) = (self.directory, libc::AT_EACCESS);
        // SAFETY: the name is NUL-terminated and outlives the call.
        let result = unsafe { libc::faccessat(directory, self.name.as_ptr(), libc::W_OK, flags) };
        if result == 0 { Ok(()) } else { Err(errno::get()) }
    }

    /// Creates a file that must not exist yet, with the process's umask.
    ///
    /// # Errors
    /// The error number of `open(2)`.
    pub(crate) fn create(&self) -> Result<File, i32> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        File::open_at(self.directory, self.name, flags)
    }

    /// Opens what exists for writing, as it is. No link is followed but, where `follows` says so, those of /proc and
    /// /dev; neither does a terminal become ours, nor is a pipe without reader waited for.
    ///
    /// # Errors
    /// The error number of `open(2)`; `ENXIO` for a pipe that nobody reads.
    pub(crate) fn open_for_writing(&self, follows: bool) -> Result<File, i32> {
        let flags = libc::O_WRONLY | libc::O_NOCTTY | libc::O_NONBLOCK;
        File::open_at(self.directory, self.name, if follows { flags } else { flags | libc::O_NOFOLLOW })
    }

    /// Renames it, replacing what stands at `to`.
    ///
    /// # Errors
    /// The error number of `rename(2)`.
    pub(crate) fn rename(&self, to: Entry<'_>) -> Result<(), i32> {
        let (from_name, to_name) = (self.name.as_ptr() as usize, to.name.as_ptr() as usize);
        let arguments = [self.directory as usize, from_name, to.directory as usize, to_name, 0, 0];
        // SAFETY: both names are NUL-terminated and outlive the call.
        let result = unsafe { system_call(libc::SYS_renameat, arguments) };
        if result < 0 { Err(-result as i32) } else { Ok(()) }
    }

    /// Removes it.
    ///
    /// # Errors
    /// The error number of `unlink(2)`.
    pub(crate) fn unlink(&self) -> Result<(), i32> {
        let arguments = [self.directory as usize, self.name.as_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: the name is NUL-terminated and outlives the call.
        let result = unsafe { system_call(libc::SYS_unlinkat, arguments) };
        if result < 0 { Err(-result as i32) } else { Ok(()) }
    }

    /// Sets `target` to where the symbolic link leads, as it is written in it.
    ///
    /// # Errors
    /// The error number of `readlink(2)`.
    pub(crate) fn read_link(&self, target: &mut PathBuffer) -> Result<(), i32> {
        let name = self.name.as_ptr() as usize;
        target.fill(|room| {
            let arguments = [self.directory as usize, name, room.as_mut_ptr() as usize, room.len(), 0, 0];
            // SAFETY: the name is NUL-terminated; the kernel writes at most the room's bytes into it.
            unsafe { system_call(libc::SYS_readlinkat, arguments) }
        })
    }
}

impl File {
    /// What the system knows of the open file.
    ///
    /// # Errors
    /// The error number of `fstat(2)`.
    pub(crate) fn status(&self) -> Result<Status, i32> {
        Status::of_descriptor(self.number())
    }
}

/// True if no program can be started from `path`, by the process's effective ids: it is missing, or may not be executed.
/// Signal-safe, as `access(2)` is.
///
/// # Safety
/// * `path` is a NUL-terminated string, or points where the kernel finds that it is none.
pub(crate) unsafe fn is_not_executable(path: *const core::ffi::c_char) -> bool {
    // SAFETY: the kernel reads the path, and answers for one that cannot be read.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, path, libc::X_OK, libc::AT_EACCESS) };
    // Other errors are those of the question: sandboxes that do not know faccessat2(2) refuse it with EPERM.
    result != 0
        && matches!(
            errno::get(),
            libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP | libc::ENAMETOOLONG | libc::EFAULT
        )
}
