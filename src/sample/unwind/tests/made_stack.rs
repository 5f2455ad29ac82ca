//! Memory that serves as a stack, between pages that fault.
//!
//! # Safety
//! Writes into its own mapping, at checked addresses.
#![allow(unsafe_code)]

use crate::sys::memory::{OwnedMapping, PAGE};
use core::ops::Range;

pub(super) struct MadeStack {
    mapping: OwnedMapping,
    /// End of the usable pages; the mapping may be longer.
    end: usize,
}

impl MadeStack {
    pub(super) fn new(pages: usize) -> Self {
        let mapping = OwnedMapping::reserved((pages + 2) * PAGE).unwrap();
        let end = (pages + 1) * PAGE;
        mapping.commit(PAGE, end).unwrap();
        Self { mapping, end }
    }

    /// The page on either side is not usable.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.mapping.start().as_ptr() as usize;
        start + PAGE..start + self.end
    }

    #[track_caller]
    pub(super) fn write(&self, address: usize, word: usize) {
        assert!(self.range().contains(&address) && address % size_of::<usize>() == 0, "{address:#x}");
        // SAFETY: the word is in the mapping, writable, and not used otherwise.
        unsafe { (address as *mut usize).write_volatile(word) };
    }

    /// Makes all pages unusable or usable; their contents stay.
    pub(super) fn set_readable(&self, is_readable: bool) {
        let (mapping, end) = (&self.mapping, self.end);
        let result = if is_readable { mapping.commit(PAGE, end) } else { mapping.guard(PAGE, end) };
        result.unwrap();
    }
}
