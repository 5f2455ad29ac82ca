//! Reads of the host's stack that cannot fault, whatever the registers hold.
//!
//! # Safety
//! One volatile load, of an aligned word in a page that the kernel has just read for us.
#![allow(unsafe_code)]

use crate::sys::{
    arch::is_user_address,
    memory::{PAGE, is_readable},
};

/// Reads words of memory that it proves readable first, one page at a time.
///
/// A stack is read upwards, so the proven pages are one range that grows. Pages stay readable for the length of a
/// walk: they belong to the stack of the very thread that is interrupted.
pub(crate) struct StackReader {
    proven_start: usize,
    proven_end: usize,
}

impl StackReader {
    pub(crate) fn new() -> Self {
        Self { proven_start: 0, proven_end: 0 }
    }

    /// The word at `address`, or None where it is not aligned or cannot be read.
    #[inline]
    pub(crate) fn read(&mut self, address: usize) -> Option<usize> {
        if address % size_of::<usize>() != 0 {
            return None;
        }
        let proven = (self.proven_start..self.proven_end).contains(&address);
        if !proven && !self.prove(address) {
            return None;
        }
        // SAFETY: aligned, so within one page, and that page was read by the kernel during this walk. Volatile:
        // the host's memory may change at any time.
        Some(unsafe { (address as *const usize).read_volatile() })
    }

    #[cold]
    fn prove(&mut self, address: usize) -> bool {
        let page = address & !(PAGE - 1);
        if !is_user_address(address) || !is_readable(address) {
            return false;
        }
        if page == self.proven_end {
            self.proven_end += PAGE;
        } else if page + PAGE == self.proven_start {
            self.proven_start = page;
        } else {
            (self.proven_start, self.proven_end) = (page, page + PAGE);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Mapping;

    #[test]
    fn words_are_read_up_to_the_guard_and_not_beyond() {
        let mapping = Mapping::writable(3 * PAGE).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(2 * PAGE, 3 * PAGE).unwrap();
        // SAFETY: the second page is ours and writable.
        unsafe { ((start + PAGE) as *mut usize).write(77) };
        let mut reader = StackReader::new();
        assert_eq!(reader.read(start + PAGE - 8), Some(0));
        assert_eq!(reader.read(start + PAGE), Some(77));
        assert_eq!((reader.proven_start, reader.proven_end), (start, start + 2 * PAGE));
        assert_eq!(reader.read(start + 2 * PAGE), None);
        assert_eq!(reader.read(start + 1), None, "not aligned");
        assert_eq!(reader.read(start), Some(0));
    }

    #[test]
    fn garbage_addresses_are_refused() {
        let mut reader = StackReader::new();
        for address in [0, 8, 0xff8, 1 << 47, 1 << 62, usize::MAX - 7, usize::MAX & !7, 0xffff_8000_0000_0000]
        {
            assert_eq!(reader.read(address), None, "{address:#x}");
        }
    }
}
