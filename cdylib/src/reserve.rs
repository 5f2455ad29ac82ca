//! Memory of last resort: where the program's heap can give none, small pieces come from a reserve.
//!
//! Rust ends the process when an allocation fails. A program may be at the end of its memory when it loads us, starts or
//! flushes, and has every right to go on; what we need then is some kilobytes. Large pieces are asked for in a way that
//! can fail, by whoever needs them. The reserve costs address space, and memory only where it is used; what is freed of
//! it stays used.
//!
//! # Safety
//! Hands out disjoint pieces of a static array, and passes everything else on to the system's allocator.
#![allow(unsafe_code)]

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};
use std::alloc::System;

const BYTES: usize = 128 << 10;

#[global_allocator]
static ALLOCATOR: Reserve =
    Reserve { bytes: Aligned(UnsafeCell::new([0; BYTES])), used: AtomicUsize::new(0) };

struct Reserve {
    bytes: Aligned,
    /// Bytes from the start that are handed out, for good.
    used: AtomicUsize,
}

// As large as the largest of ours, which keep threads out of each other's cache lines.
#[repr(C, align(128))]
struct Aligned(UnsafeCell<[u8; BYTES]>);

// SAFETY: each byte belongs to whom `take` gave it to.
unsafe impl Sync for Reserve {}

impl Reserve {
    /// A piece of the reserve, zeroed; null where too little is left.
    fn take(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.0.get().cast::<u8>();
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            // Counted from the array's start, so that an alignment above the array's own is none.
            let place = used.next_multiple_of(layout.align());
            let Some(end) = place.checked_add(layout.size()) else { return ptr::null_mut() };
            if end > BYTES || layout.align() > align_of::<Aligned>() {
                return ptr::null_mut();
            }
            // Relaxed: nobody reads what another wrote there.
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: within the array.
                Ok(_) => return unsafe { start.add(place) },
                Err(now) => used = now,
            }
        }
    }

    fn owns(&self, pointer: *mut u8) -> bool {
        let start = self.bytes.0.get() as usize;
        (start..start + BYTES).contains(&(pointer as usize))
    }
}

// SAFETY: the system's allocator is one, and a piece of the reserve is as large and as aligned as asked for, belongs to
// nobody else, and is valid for ever.
unsafe impl GlobalAlloc for Reserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's word.
        let piece = unsafe { System.alloc(layout) };
        if piece.is_null() { self.take(layout) } else { piece }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's word.
        let piece = unsafe { System.alloc_zeroed(layout) };
        if piece.is_null() { self.take(layout) } else { piece }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !self.owns(pointer) {
            // SAFETY: the caller's word; it is the system's.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.owns(pointer) {
            // SAFETY: the caller's word; it is the system's.
            let piece = unsafe { System.realloc(pointer, layout, size) };
            if !piece.is_null() {
                return piece;
            }
        }
        let Ok(larger) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        // SAFETY: the caller's word: the size is not zero.
        let piece = unsafe { self.alloc(larger) };
        if !piece.is_null() {
            // SAFETY: both are as large, and the new one is nobody else's.
            unsafe { ptr::copy_nonoverlapping(pointer, piece, layout.size().min(size)) };
            // SAFETY: the caller's word.
            unsafe { self.dealloc(pointer, layout) };
        }
        piece
    }
}
