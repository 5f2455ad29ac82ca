//! The calling thread's `errno`.
//!
//! # Safety
//! Dereferences the pointer of `__errno_location`, which is valid for the calling thread's life.
#![allow(unsafe_code)]

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

/// Describes an error number by a static string: no allocation, no translation.
pub(crate) fn description(number: i32) -> &'static str {
    match number {
        // The words of strerror(3), if nix's differ.
        libc::ENFILE => "Too many open files in system",
        libc::ENOMEM => "Cannot allocate memory",
        libc::EBADF => "Bad file descriptor",
        libc::ELOOP => "Too many levels of symbolic links",
        libc::EIO => "Input/output error",
        libc::EDQUOT => "Disk quota exceeded",
        libc::ESTALE => "Stale file handle",
        // nix: "Connection timed out". Here it is a pipe.
        libc::ETIMEDOUT => "Timed out",
        _ => nix::errno::Errno::from_raw(number).desc(),
    }
}

/// Returns advice for an error number of a profile's file.
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
        // EBUSY, ETXTBSY, and those that no file system is known to return.
        _ => "name another file",
    }
}

/// Restores `errno` when dropped. Signal-safe: `__errno_location` returns a thread-local's address.
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

pub(crate) fn get() -> i32 {
    // SAFETY: no precondition.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's `errno`, which lives as long as the thread.
    unsafe { *location }
}

pub(crate) fn set(value: i32) {
    // SAFETY: no precondition.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: as in `get`; no reference to it exists.
    unsafe { *location = value };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_errors_of_files() {
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
