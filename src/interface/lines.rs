//! Lines on descriptors of the host's and in files of the user's.

use crate::sys::file;
use core::ffi::{CStr, c_int};

/// Writes a line to a descriptor of the host's, if it takes it at once and is the file that `identity` names.
pub fn write_line(descriptor: c_int, identity: (u64, u64), line: &[u8]) -> bool {
    let is_same = file::identity(descriptor) == Some(identity);
    if is_same {
        file::write_line(descriptor, line);
    }
    is_same
}

/// Adds a line to the file at `path`, which is made where there is none; signal-safe. A file that cannot be written to, a
/// link, and a pipe without a reader are left as they are.
pub fn append_line(path: &CStr, line: &[u8]) {
    file::append_line(path, line);
}

/// Device and inode of an open descriptor.
pub fn identity(descriptor: c_int) -> Option<(u64, u64)> {
    file::identity(descriptor)
}
