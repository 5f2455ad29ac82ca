//! Lines on the application's descriptors and in the user's files.

use crate::sys::file;
use core::ffi::{CStr, c_int};

/// Writes a line to a descriptor, if it is still this file and does not block.
pub fn write_line(descriptor: c_int, identity: (u64, u64), line: &[u8]) -> bool {
    let is_same = file::identity(descriptor) == Some(identity);
    if is_same {
        file::write_line(descriptor, line);
    }
    is_same
}

/// Appends a line to the file at `path`, or creates it. Does nothing if it is not writable, a
/// symbolic link, or a pipe without a reader. Signal-safe: system calls.
pub fn append_line(path: &CStr, line: &[u8]) {
    file::append_line(path, line);
}

/// Device and inode.
pub fn identity(descriptor: c_int) -> Option<(u64, u64)> {
    file::identity(descriptor)
}
