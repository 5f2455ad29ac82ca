//! Reads of the host's stack that cannot fault, whatever the registers hold.
//!
//! Pages beside the interrupted stack pointer, and from there upwards without a gap, belong to the stack of the very
//! thread that is interrupted, and stay for the length of the walk: there each page is proven readable once and then
//! read directly. Any other address may lie in memory that another thread is about to unmap: such a word is fetched
//! by the kernel, which copies it or fails. When a walk really goes on elsewhere (another stack, or beyond a frame
//! larger than a page) its new stack pointer becomes the place to count from.
//!
//! # Safety
//! One volatile load, of an aligned word in a page that the kernel has just read for us.
#![allow(unsafe_code)]

use crate::sys::{
    arch::is_user_address,
    memory::{PAGE, fetch_word, is_readable},
};

/// See the module.
pub(crate) struct StackReader {
    proven_start: usize,
    proven_end: usize,
}

impl StackReader {
    /// Counts from the stack pointer `sp`.
    pub(crate) fn new(sp: usize) -> Self {
        let page = sp & !(PAGE - 1);
        Self { proven_start: page, proven_end: page }
    }

    /// Counts from `sp`, if the proven pages neither hold it nor end at its page.
    #[inline]
    pub(crate) fn follow(&mut self, sp: usize) {
        let page = sp & !(PAGE - 1);
        if page < self.proven_start || page > self.proven_end {
            *self = Self::new(sp);
        }
    }

    /// The word at `address`, or None where it is not aligned or cannot be read.
    #[inline]
    pub(crate) fn read(&mut self, address: usize) -> Option<usize> {
        if address % size_of::<usize>() != 0 {
            return None;
        }
        let proven = (self.proven_start..self.proven_end).contains(&address);
        if !proven && !self.prove(address) {
            return fetch_word(address).filter(|_| is_user_address(address));
        }
        // SAFETY: aligned, so within one page, and that page was read by the kernel during this walk; it belongs to
        // the interrupted thread's stack (see the module). Volatile: the host's memory may change at any time.
        Some(unsafe { (address as *const usize).read_volatile() })
    }

    /// Proves the page that follows the proven ones, if `address` lies there.
    #[cold]
    fn prove(&mut self, address: usize) -> bool {
        let is_next = address & !(PAGE - 1) == self.proven_end;
        if !is_next || !is_user_address(address) || !is_readable(address) {
            return false;
        }
        self.proven_end += PAGE;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Mapping;

    #[test]
    fn words_are_read_up_to_the_guard_and_not_beyond() {
        let mapping = Mapping::writable(4 * PAGE).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(2 * PAGE, 3 * PAGE).unwrap();
        for place in [start + PAGE, start + 3 * PAGE] {
            // SAFETY: the second and the fourth page are ours and writable.
            unsafe { (place as *mut usize).write(place) };
        }
        let mut reader = StackReader::new(start + 100);
        assert_eq!(reader.read(start + PAGE - 8), Some(0));
        assert_eq!(reader.read(start + PAGE), Some(start + PAGE));
        assert_eq!((reader.proven_start, reader.proven_end), (start, start + 2 * PAGE));
        assert_eq!(reader.read(start + 2 * PAGE), None);
        assert_eq!(reader.read(start + 3 * PAGE), Some(start + 3 * PAGE), "behind a gap, by the kernel");
        assert_eq!(reader.proven_end, start + 2 * PAGE, "and not remembered");
        assert_eq!(reader.read(start + 1), None, "not aligned");
        reader.follow(start + 3 * PAGE + 8);
        assert_eq!(reader.read(start + 3 * PAGE), Some(start + 3 * PAGE));
        assert_eq!(reader.proven_start, start + 3 * PAGE);
    }

    #[test]
    fn garbage_addresses_are_refused() {
        for address in [0, 8, 0xff8, 1 << 47, 1 << 62, usize::MAX - 7, usize::MAX & !7, 0xffff_8000_0000_0000]
        {
            let mut reader = StackReader::new(address);
            assert_eq!(reader.read(address), None, "{address:#x}");
        }
    }
}
