//! A reserve of memory for small allocations when the program's heap is exhausted.
//!
//! Rust aborts when an allocation fails. A program that has no memory left when it loads, starts or
//! flushes the profiler may continue, and the profiler then needs some kilobytes. Large allocations
//! handle failure themselves. The reserve costs memory only when it is used; it is not reused.
//!
//! # Safety
//! Returns disjoint pieces of a static array, and passes everything else to the system's allocator.
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
    /// Used bytes; never fewer.
    used: AtomicUsize,
}

// The largest alignment of our types, which separates cache lines.
#[repr(C, align(128))]
struct Aligned(UnsafeCell<[u8; BYTES]>);

// SAFETY: each byte is used only by the caller that `take` returned it to.
unsafe impl Sync for Reserve {}

impl Reserve {
    /// A zeroed piece, or null.
    fn take(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.0.get().cast::<u8>();
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            // Alignment within the array, which is enough up to the array's own.
            let place = used.next_multiple_of(layout.align());
            let Some(end) = place.checked_add(layout.size()) else { return ptr::null_mut() };
            if end > BYTES || layout.align() > align_of::<Aligned>() {
                return ptr::null_mut();
            }
            // Relaxed: no thread reads another's writes there.
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: `place` is within the array.
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

// SAFETY: the system's allocator is valid; pieces fit their layouts, are not shared, and stay
// valid.
unsafe impl GlobalAlloc for Reserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout's size is not zero, guaranteed by the caller.
        let piece = unsafe { System.alloc(layout) };
        if piece.is_null() { self.take(layout) } else { piece }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout's size is not zero, guaranteed by the caller.
        let piece = unsafe { System.alloc_zeroed(layout) };
        if piece.is_null() { self.take(layout) } else { piece }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !self.owns(pointer) {
            // SAFETY: the system allocated `pointer` with this layout, guaranteed by the caller.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.owns(pointer) {
            // SAFETY: as in `dealloc`; `size` is valid, guaranteed by the caller.
            let piece = unsafe { System.realloc(pointer, layout, size) };
            if !piece.is_null() {
                return piece;
            }
        }
        let Ok(larger) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        // SAFETY: `size` is not zero, guaranteed by the caller.
        let piece = unsafe { self.alloc(larger) };
        if !piece.is_null() {
            // SAFETY: both have at least this size, and the new piece is not shared.
            unsafe { ptr::copy_nonoverlapping(pointer, piece, layout.size().min(size)) };
            // SAFETY: `pointer` has this layout, guaranteed by the caller.
            unsafe { self.dealloc(pointer, layout) };
        }
        piece
    }
}
