//! Memory that stands for a stack, between pages that fault.
//!
//! # Safety
//! Writes into a mapping of its own, at addresses that it has checked.
#![allow(unsafe_code)]

use crate::sys::memory::{Mapping, PAGE};
use core::ops::Range;

/// See the module.
pub(super) struct MadeStack {
    mapping: Mapping,
    /// Bytes of the first page and of those that can be used; the mapping may be longer.
    end: usize,
}

impl MadeStack {
    /// So many pages that can be used.
    pub(super) fn new(pages: usize) -> Self {
        let mapping = Mapping::reserved((pages + 2) * PAGE).unwrap();
        let end = (pages + 1) * PAGE;
        mapping.commit(PAGE, end).unwrap();
        Self { mapping, end }
    }

    /// The addresses that can be used; the page on either side cannot.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.mapping.start().as_ptr() as usize;
        start + PAGE..start + self.end
    }

    /// Stores a word at an aligned address.
    #[track_caller]
    pub(super) fn write(&self, address: usize, word: usize) {
        assert!(self.range().contains(&address) && address % size_of::<usize>() == 0, "{address:#x}");
        // SAFETY: the word lies in the mapping, which is writable there, and nothing else uses it.
        unsafe { (address as *mut usize).write_volatile(word) };
    }

    /// Takes all pages away, or gives them back, with what was in them.
    pub(super) fn set_readable(&self, is_readable: bool) {
        let (mapping, end) = (&self.mapping, self.end);
        let result = if is_readable { mapping.commit(PAGE, end) } else { mapping.guard(PAGE, end) };
        result.unwrap();
    }
}
