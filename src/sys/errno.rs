//! The calling thread's `errno`.
//!
//! # Safety
//! This file dereferences the pointer of `__errno_location`, which is valid for the calling thread's life.
#![allow(unsafe_code)]

/// Error numbers that callers tell apart.
pub(crate) const NO_SUCH_FILE: i32 = libc::ENOENT;
pub(crate) const IS_DIRECTORY: i32 = libc::EISDIR;
pub(crate) const NO_ACCESS: i32 = libc::EACCES;
pub(crate) const EXISTS: i32 = libc::EEXIST;
pub(crate) const NOT_PERMITTED: i32 = libc::EPERM;
pub(crate) const BUSY: i32 = libc::EBUSY;
pub(crate) const INVALID: i32 = libc::EINVAL;
pub(crate) const NO_SPACE: i32 = libc::ENOSPC;
pub(crate) const TOO_LARGE: i32 = libc::EFBIG;
pub(crate) const NOT_SUPPORTED: i32 = libc::EOPNOTSUPP;
pub(crate) const IO: i32 = libc::EIO;
pub(crate) const NOT_A_DIRECTORY: i32 = libc::ENOTDIR;
pub(crate) const TOO_MANY_LINKS: i32 = libc::ELOOP;
pub(crate) const READ_ONLY: i32 = libc::EROFS;
pub(crate) const STALE: i32 = libc::ESTALE;
pub(crate) const OPEN_FILES: i32 = libc::EMFILE;
pub(crate) const OPEN_FILES_OF_ALL: i32 = libc::ENFILE;

/// What an error number means, as a sentence that is part of the program: nothing is allocated or translated.
pub(crate) fn description(number: i32) -> &'static str {
    nix::errno::Errno::from_raw(number).desc()
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
