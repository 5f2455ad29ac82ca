//! Reads of the application's stack that cannot fault, whatever the registers contain.
//!
//! ```text
//! ...... | signal frame, interrupted sp | caller's frames ........ | .... | ....
//!        ^ start            (proven)                               ^ end: the next page to prove
//! ```
//!
//! Contiguous pages above the interrupted stack pointer are the interrupted thread's stack and stay
//! mapped: each is proven readable once, then read directly. The kernel's signal frame proves the
//! first. On another stack, or after a larger frame, this restarts at the new stack pointer. A word
//! elsewhere is proven before each read; another thread can still unmap it in between.
//! `process_vm_readv` could not fault, but some sandboxes kill for it (`docs/decisions.md`).
//!
//! # Safety
//! Volatile loads of aligned words in pages that the kernel has just read or written for us.
#![allow(unsafe_code)]

use crate::sys::{
    arch::is_user_address,
    memory::{PAGE, is_readable},
};

/// Words up to this many pages after the proven ones count as on the same stack. Each page costs
/// half a system call, and a frame above 256 KiB is rare.
const FARTHEST_PAGES: usize = 64;

/// Bytes that the kernel's probe reads; at a multiple of it they are in one page.
const PROBED: usize = 8;

/// A probe that starts this far before a page's end proves that page and the next.
const STRADDLE: usize = PROBED / 2;

pub(crate) struct StackReader {
    start: usize,
    end: usize,
}

impl StackReader {
    /// `written` is an address that the kernel has just written, or 0; it proves a page of `sp`.
    pub(crate) fn new(sp: usize, written: usize) -> Self {
        let start = page_of(sp);
        let end = if written != 0 && page_of(written) == start { start.wrapping_add(PAGE) } else { start };
        Self { start, end }
    }

    /// Restarts at `sp` if it is outside the proven pages and the one after them.
    #[inline]
    pub(crate) fn follow(&mut self, sp: usize) {
        if sp < self.start || page_of(sp) > self.end {
            *self = Self::new(sp, 0);
        }
    }

    /// Returns the word at `address`; None if it is not aligned or not readable.
    #[inline]
    pub(crate) fn read(&mut self, address: usize) -> Option<usize> {
        if let Some(word) = self.read_proven(address) {
            return Some(word);
        }
        self.prove_and_read(address)
    }

    /// Reads machine code at any alignment; None if a byte is not readable.
    pub(crate) fn read_bytes<const N: usize>(&mut self, address: usize) -> Option<[u8; N]> {
        const { assert!(0 < N && N < PAGE) };
        let last = address.checked_add(N - 1)?;
        let probed = if page_of(address) == page_of(last) {
            address & !(PROBED - 1)
        } else {
            page_of(last) - STRADDLE
        };
        if !is_user_address(address) || !is_user_address(last) || !is_readable(probed) {
            return None;
        }
        // SAFETY: the kernel has just read the one or two pages; bytes have no alignment.
        Some(core::array::from_fn(|i| unsafe { load((address as *const u8).wrapping_add(i)) }))
    }

    /// As [`read`](Self::read), for a guess: None if `address` is not on this stack.
    pub(crate) fn read_on_stack(&mut self, address: usize) -> Option<usize> {
        self.extend(address);
        self.read_proven(address)
    }

    #[inline(always)]
    fn read_proven(&self, address: usize) -> Option<usize> {
        let is_proven = (self.start..self.end).contains(&address) && address % size_of::<usize>() == 0;
        // SAFETY: aligned, so in one page, which the kernel read or wrote during this tick and
        // which is the interrupted thread's stack (see the module).
        is_proven.then(|| unsafe { load(address as *const usize) })
    }

    #[cold]
    #[inline(never)]
    fn prove_and_read(&mut self, address: usize) -> Option<usize> {
        if address % size_of::<usize>() != 0 {
            return None;
        }
        if self.extend(address) {
            return self.read_proven(address);
        }
        if !is_user_address(address) || !is_readable(address & !(PROBED - 1)) {
            return None;
        }
        // SAFETY: aligned, so in one page, which the kernel has just read.
        Some(unsafe { load(address as *const usize) })
    }

    fn extend(&mut self, address: usize) -> bool {
        let is_near = address >= self.start && address.wrapping_sub(self.end) / PAGE < FARTHEST_PAGES;
        if !is_near || !is_user_address(address) {
            return false;
        }
        while self.end <= address {
            let page = self.end;
            // The second page may be the stack's guard.
            if is_readable(page.wrapping_add(PAGE - STRADDLE)) {
                self.end = page.wrapping_add(2 * PAGE);
            } else if is_readable(page) {
                self.end = page.wrapping_add(PAGE);
            } else {
                return false;
            }
        }
        true
    }
}

/// Loads what the application may change at any time.
///
/// # Safety
/// * As for `read_volatile`, except that concurrent writes are allowed.
#[cfg(not(all(target_arch = "x86_64", any(fuzzing, sigprof_sanitized))))]
#[inline(always)]
unsafe fn load<T: Copy>(address: *const T) -> T {
    // SAFETY: `address` is aligned and readable, guaranteed by the caller.
    unsafe { address.read_volatile() }
}

/// In assembly, hidden from the sanitizer: the address may have no shadow, or be freed memory.
///
/// # Safety
/// * As above.
#[cfg(all(target_arch = "x86_64", any(fuzzing, sigprof_sanitized)))]
unsafe fn load<T: Copy>(address: *const T) -> T {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: writes only `value`; `address` is readable, guaranteed by the caller.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") size_of::<T>() => _,
            inout("rsi") address => _,
            inout("rdi") value.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: all bytes were just copied from a `T`.
    unsafe { value.assume_init() }
}

#[inline]
fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::{OwnedMapping, choose_probe};

    #[test]
    fn reads_words_up_to_the_guard_page() {
        choose_probe().unwrap();
        let mapping = OwnedMapping::writable(5 * PAGE).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(3 * PAGE, 4 * PAGE).unwrap();
        for place in [start + PAGE, start + 2 * PAGE, start + 4 * PAGE] {
            // SAFETY: the pages belong to this test's mapping and are writable.
            unsafe { (place as *mut usize).write(place) };
        }
        let mut reader = StackReader::new(start + 100, 0);
        assert_eq!(reader.read(start + PAGE - 8), Some(0));
        let last = start + 3 * PAGE - size_of::<usize>();
        assert_eq!(StackReader::new(start + 4 * PAGE, 0).read(last), Some(0));
        assert_eq!((reader.start, reader.end), (start, start + 2 * PAGE), "two pages with one probe");
        assert_eq!(reader.read(start + PAGE), Some(start + PAGE));
        assert_eq!(reader.read(start + 2 * PAGE), Some(start + 2 * PAGE));
        assert_eq!((reader.start, reader.end), (start, start + 3 * PAGE), "up to the guard");
        assert_eq!(reader.read(start + 3 * PAGE), None);
        assert_eq!(reader.read_on_stack(start + 4 * PAGE), None, "behind a gap");
        assert_eq!(
            reader.read(start + 4 * PAGE),
            Some(start + 4 * PAGE),
            "behind a gap, by a proof of its own"
        );
        assert_eq!(reader.end, start + 3 * PAGE, "and not remembered");
        assert_eq!(reader.read(start + 1), None, "not aligned");
        assert_eq!(reader.read(start + 3 * PAGE + 1), None, "not aligned");
        reader.follow(start + 4 * PAGE + 8);
        assert_eq!(reader.read(start + 4 * PAGE), Some(start + 4 * PAGE));
        assert_eq!(reader.start, start + 4 * PAGE);
    }

    #[test]
    fn reads_bytes_at_any_alignment() {
        choose_probe().unwrap();
        let bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
        let mut reader = StackReader::new(0, 0);
        for from in 0..48 {
            let read: [u8; 9] = reader.read_bytes(bytes.as_ptr() as usize + from).unwrap();
            assert_eq!(read, bytes[from..from + 9]);
        }
        let mapping = OwnedMapping::writable(2 * PAGE).unwrap();
        mapping.guard(PAGE, 2 * PAGE).unwrap();
        let end = mapping.start().as_ptr() as usize + PAGE;
        assert_eq!(reader.read_bytes(end - 9), Some([0; 9]));
        assert_eq!(reader.read_bytes::<9>(end - 8), None);
        assert_eq!(reader.read_bytes::<9>(usize::MAX - 3), None);
    }

    #[test]
    fn counts_a_page_that_the_kernel_wrote_as_proven() {
        // Reads no memory.
        let reader = StackReader::new(0x7000_1100, 0x7000_1040);
        assert_eq!((reader.start, reader.end), (0x7000_1000, 0x7000_2000));
        for written in [0, 0x7000_0ff8, 0x7000_2000, 0x1040] {
            let reader = StackReader::new(0x7000_1100, written);
            assert_eq!((reader.start, reader.end), (0x7000_1000, 0x7000_1000), "{written:#x}");
        }
    }

    #[test]
    fn reads_a_far_word_without_probing_pages_between() {
        choose_probe().unwrap();
        let pages = 2 * FARTHEST_PAGES;
        let mapping = OwnedMapping::writable(pages * PAGE).unwrap();
        let start = mapping.start().as_ptr() as usize;
        let mut reader = StackReader::new(start, 0);
        assert_eq!(reader.read(start + (pages - 1) * PAGE), Some(0));
        assert_eq!(reader.end, start);
        assert_eq!(reader.read(start + (FARTHEST_PAGES - 1) * PAGE), Some(0));
        assert_eq!(reader.end, start + FARTHEST_PAGES * PAGE);
        assert_eq!(StackReader::new(start + PAGE, 0).read_on_stack(start), None, "below is elsewhere");
    }

    #[test]
    fn refuses_garbage_addresses() {
        choose_probe().unwrap();
        let garbage = [0, 8, 0xff8, 1 << 47, 1 << 62, u64::MAX - 7, !0xfff, 0xffff_8000_0000_0000];
        for address in garbage.map(|address: u64| address as usize) {
            let mut reader = StackReader::new(address, 0);
            assert_eq!(reader.read(address), None, "{address:#x}");
            assert_eq!(reader.read_on_stack(address), None, "{address:#x}");
        }
    }
}
