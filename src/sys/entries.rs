//! The names in a directory, without allocation.
//!
//! # Safety
//! System calls with a pointer to a local buffer.
#![allow(unsafe_code)]

use super::{arch::system_call, file::restart};
use core::ffi::CStr;

/// Aligned as the kernel's entries.
#[repr(C, align(8))]
struct DirentBuffer([u8; 2048]);

/// Calls `visit` with each name until it returns false. Signal-safe: system calls.
pub(super) fn for_each(descriptor: i32, mut visit: impl FnMut(&CStr) -> bool) {
    // `struct linux_dirent64`: inode and offset of 8 bytes each, length of 2, type of 1, name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let descriptor = descriptor as usize;
    // SAFETY: no pointer is passed.
    unsafe { system_call(libc::SYS_lseek, [descriptor, 0, libc::SEEK_SET as usize, 0, 0, 0]) };
    let mut entries = DirentBuffer([0; 2048]);
    loop {
        let arguments = [descriptor, entries.0.as_mut_ptr() as usize, entries.0.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most the buffer's length into it.
        let Ok(got) = restart(|| unsafe { system_call(libc::SYS_getdents64, arguments) }) else { return };
        let mut rest = entries.0.get(..got).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        while let Some(&[low, high]) = rest.get(LENGTH..LENGTH + 2) {
            let length = usize::from(u16::from_ne_bytes([low, high])).max(1);
            let name = CStr::from_bytes_until_nul(rest.get(NAME..length).unwrap_or_default());
            if name.is_ok_and(|name| !visit(name)) {
                return;
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}
