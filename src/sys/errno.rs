//! The calling thread's `errno`.
//!
//! # Safety
//! This file dereferences the pointer of `__errno_location`, which is valid for the calling thread's life.
#![allow(unsafe_code)]

/// Error numbers that callers tell apart.
pub(crate) const ENOENT: i32 = libc::ENOENT;
pub(crate) const EISDIR: i32 = libc::EISDIR;
pub(crate) const EACCES: i32 = libc::EACCES;
pub(crate) const EEXIST: i32 = libc::EEXIST;
pub(crate) const EPERM: i32 = libc::EPERM;
pub(crate) const EAGAIN: i32 = libc::EAGAIN;
pub(crate) const EBUSY: i32 = libc::EBUSY;
pub(crate) const EINVAL: i32 = libc::EINVAL;
pub(crate) const ENOSPC: i32 = libc::ENOSPC;
pub(crate) const EFBIG: i32 = libc::EFBIG;
pub(crate) const EOPNOTSUPP: i32 = libc::EOPNOTSUPP;
pub(crate) const EIO: i32 = libc::EIO;
pub(crate) const ENOTDIR: i32 = libc::ENOTDIR;
pub(crate) const ELOOP: i32 = libc::ELOOP;
pub(crate) const EROFS: i32 = libc::EROFS;
pub(crate) const ESTALE: i32 = libc::ESTALE;
pub(crate) const ENXIO: i32 = libc::ENXIO;
pub(crate) const EMFILE: i32 = libc::EMFILE;
pub(crate) const ENFILE: i32 = libc::ENFILE;
pub(crate) const ENOMEM: i32 = libc::ENOMEM;

/// What an error number means, as a sentence that is part of the program: nothing is allocated or translated.
pub(crate) fn description(number: i32) -> &'static str {
    match number {
        // In the words that users know from strerror(3), where those of nix say something else.
        libc::ENFILE => "Too many open files in system",
        libc::ENOMEM => "Cannot allocate memory",
        libc::EBADF => "Bad file descriptor",
        libc::ELOOP => "Too many levels of symbolic links",
        libc::EIO => "Input/output error",
        libc::EDQUOT => "Disk quota exceeded",
        libc::ESTALE => "Stale file handle",
        // Of a pipe, not of a connection.
        libc::ETIMEDOUT => "Timed out",
        _ => nix::errno::Errno::from_raw(number).desc(),
    }
}

/// What the user can do about an error number that a profile's file met.
pub(crate) fn advice(number: i32) -> &'static str {
    match number {
        libc::EACCES | libc::EPERM => "name a file in a directory where the program's user may create files",
        libc::EROFS => "name a file on a writable file system",
        libc::ENOENT => "name a file in an existing directory",
        libc::ENOTDIR | libc::EISDIR => "name a file in a directory",
        libc::ENOSPC => "free some space, or name a file on another file system",
        libc::EDQUOT => "free some of the user's quota, or name a file on another file system",
        libc::EFBIG => "raise the limit on the size of files (ulimit -f)",
        libc::EMFILE => "raise the limit on open files (ulimit -n)",
        libc::ENFILE => "raise the system's limit on open files (sysctl fs.file-max)",
        libc::ENOMEM => "raise the limit on memory (ulimit -v)",
        libc::ELOOP => "name the file without so many symbolic links",
        libc::ENAMETOOLONG => "name a file with a shorter path",
        libc::ENXIO => "keep a reader connected to the pipe until the program has exited, or name a file",
        libc::EPIPE => "keep a reader connected until the program has exited",
        libc::ETIMEDOUT => "use a faster reader",
        libc::EIO => "check the device in the kernel log (dmesg)",
        libc::ESTALE => "do not replace the file before the program has exited",
        libc::EEXIST => "remove older profiles, or name another file",
        // EBUSY, ETXTBSY, and what no file system is known to answer.
        _ => "name another file",
    }
}

/// Restores the `errno` of its creation when it is dropped.
///
/// Signal-safe: `__errno_location` returns the address of a thread-local of libc itself and does nothing else.
pub(crate) struct ErrnoGuard(i32);

impl ErrnoGuard {
    pub(crate) fn new() -> Self {
        Self(get())
    }
}

impl Drop for ErrnoGuard {
    fn drop(&mut self) {
        set(self.0);
    }
}

/// The calling thread's `errno`.
pub(crate) fn get() -> i32 {
    // SAFETY: no precondition.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: the location is this thread's own and lives as long as the thread.
    unsafe { *location }
}

/// Sets the calling thread's `errno`.
pub(crate) fn set(value: i32) {
    // SAFETY: no precondition.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: as in `get`; nobody holds a reference to it.
    unsafe { *location = value };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_can_meet_has_a_reason() {
        let numbers = [
            (libc::EACCES, "Permission denied"),
            (libc::EPERM, "Operation not permitted"),
            (libc::EROFS, "Read-only file system"),
            (libc::ENOENT, "No such file or directory"),
            (libc::ENOTDIR, "Not a directory"),
            (libc::EISDIR, "Is a directory"),
            (libc::ENOSPC, "No space left on device"),
            (libc::EDQUOT, "Disk quota exceeded"),
            (libc::EFBIG, "File too large"),
            (libc::EMFILE, "Too many open files"),
            (libc::ENFILE, "Too many open files in system"),
            (libc::ENOMEM, "Cannot allocate memory"),
            (libc::ELOOP, "Too many levels of symbolic links"),
            (libc::ENAMETOOLONG, "File name too long"),
            (libc::EPIPE, "Broken pipe"),
            (libc::ENXIO, "No such device or address"),
            (libc::ETIMEDOUT, "Timed out"),
            (libc::EIO, "Input/output error"),
            (libc::ESTALE, "Stale file handle"),
            (libc::EEXIST, "File exists"),
            (libc::EBUSY, "Device or resource busy"),
            (libc::ETXTBSY, "Text file busy"),
            (libc::EBADF, "Bad file descriptor"),
        ];
        for (number, expected) in numbers {
            assert_eq!(description(number), expected);
        }
    }
}
