//! Reads of the host's stack that cannot fault, whatever the registers hold.
//!
//! ```text
//! ...... | signal frame, interrupted sp | caller's frames ........ | .... | ....
//!        ^ start            (proven)                               ^ end: the next page to be proven
//! ```
//!
//! Pages from the interrupted stack pointer upwards without a gap belong to the stack of the very thread that is
//! interrupted, and stay for the length of the walk: each is proven readable once and then read directly. The first
//! proof is mostly free, since the kernel has just written its signal frame there. When a walk goes on elsewhere
//! (another stack, or beyond a frame larger than the proven pages) its new stack pointer becomes the place to count
//! from.
//!
//! A rule may also name a word elsewhere: the frame of a function that switched stacks. Its page is proven anew for
//! each word, right before it is read. `process_vm_readv` would copy such a word without this last doubt, that another
//! thread unmaps the page between the proof and the read; but some sandboxes kill for it (`docs/decisions.md`).
//!
//! # Safety
//! Volatile loads of aligned words in pages that the kernel has just read or written for us.
#![allow(unsafe_code)]

use crate::sys::{
    arch::is_user_address,
    memory::{PAGE, is_readable},
};

/// How many pages beyond the proven ones a word may lie and still count as the same stack. Each costs half a system
/// call; a frame of more than a quarter of a megabyte is rare enough to be read as if it were elsewhere.
const FARTHEST_PAGES: usize = 64;

/// The kernel's probe reads so many bytes; a multiple of it lies in one page with all of them.
const PROBED: usize = 8;

/// A probe that begins so many bytes before a page's end proves that page and the next.
const STRADDLE: usize = PROBED / 2;

/// See the module.
pub(crate) struct StackReader {
    start: usize,
    end: usize,
}

impl StackReader {
    /// Counts from the stack pointer `sp`. `written` is an address that the kernel has just written for the
    /// interrupted thread, or 0: beside `sp`, it proves a page of the stack.
    pub(crate) fn new(sp: usize, written: usize) -> Self {
        let start = page_of(sp);
        let end = if written != 0 && page_of(written) == start { start.wrapping_add(PAGE) } else { start };
        Self { start, end }
    }

    /// Counts from `sp`, if the proven pages neither hold it nor end at its page.
    #[inline]
    pub(crate) fn follow(&mut self, sp: usize) {
        if sp < self.start || page_of(sp) > self.end {
            *self = Self::new(sp, 0);
        }
    }

    /// The word at `address`, or None where it is not aligned or cannot be read.
    #[inline]
    pub(crate) fn read(&mut self, address: usize) -> Option<usize> {
        if let Some(word) = self.read_proven(address) {
            return Some(word);
        }
        self.prove_and_read(address)
    }

    /// The `N` bytes at any `address`, at most a page of them, or None where one cannot be read: machine code.
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
        // SAFETY: the one or two pages were just read by the kernel; bytes have no alignment.
        Some(core::array::from_fn(|i| unsafe { load((address as *const u8).wrapping_add(i)) }))
    }

    /// As [`read`](Self::read), for an address that is only a guess: None where it is not on this stack.
    pub(crate) fn read_on_stack(&mut self, address: usize) -> Option<usize> {
        self.extend(address);
        self.read_proven(address)
    }

    /// The word at `address`, where its page is proven already.
    #[inline(always)]
    fn read_proven(&self, address: usize) -> Option<usize> {
        let is_proven = (self.start..self.end).contains(&address) && address % size_of::<usize>() == 0;
        // SAFETY: aligned, so within one page, and that page was read or written by the kernel during this tick; it
        // belongs to the interrupted thread's stack (see the module). Volatile: the host may change it at any time.
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
        // SAFETY: aligned, so within one page, which the kernel has just read (see the module).
        Some(unsafe { load(address as *const usize) })
    }

    /// Proves the pages from the proven ones to the one of `address`, if that is not far.
    fn extend(&mut self, address: usize) -> bool {
        let is_near = address >= self.start && address.wrapping_sub(self.end) / PAGE < FARTHEST_PAGES;
        if !is_near || !is_user_address(address) {
            return false;
        }
        while self.end <= address {
            let page = self.end;
            // The page after the next may be the stack's guard.
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

/// Loads what the host may change at any time.
///
/// # Safety
/// * As for `read_volatile`, but that whoever writes meanwhile need not be in order with it.
#[cfg(not(all(target_arch = "x86_64", any(fuzzing, sigprof_sanitized))))]
#[inline(always)]
unsafe fn load<T: Copy>(address: *const T) -> T {
    // SAFETY: the caller's word.
    unsafe { address.read_volatile() }
}

/// The same in a build with a sanitizer, which would look up what it knows of the address: an unwinder may be led into
/// its shadow memory, which has no shadow, or to what the host calls freed. A load in assembly it does not see.
///
/// # Safety
/// * As above.
#[cfg(all(target_arch = "x86_64", any(fuzzing, sigprof_sanitized)))]
unsafe fn load<T: Copy>(address: *const T) -> T {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    // SAFETY: copies as many bytes as there are in `value`; the source is the caller's word.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") size_of::<T>() => _,
            inout("rsi") address => _,
            inout("rdi") value.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: all of its bytes have just been written, by those of a `T`.
    unsafe { value.assume_init() }
}

#[inline]
fn page_of(address: usize) -> usize {
    address & !(PAGE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::{Mapping, choose_probe};

    #[test]
    fn words_are_read_up_to_the_guard_and_not_beyond() {
        choose_probe().unwrap();
        let mapping = Mapping::writable(5 * PAGE).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(3 * PAGE, 4 * PAGE).unwrap();
        for place in [start + PAGE, start + 2 * PAGE, start + 4 * PAGE] {
            // SAFETY: these pages are ours and writable.
            unsafe { (place as *mut usize).write(place) };
        }
        let mut reader = StackReader::new(start + 100, 0);
        assert_eq!(reader.read(start + PAGE - 8), Some(0));
        // The last word before a page that cannot be read, of eight bytes or four.
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
    fn bytes_are_read_at_any_address() {
        choose_probe().unwrap();
        let bytes: [u8; 64] = core::array::from_fn(|i| i as u8);
        let mut reader = StackReader::new(0, 0);
        for from in 0..48 {
            let read: [u8; 9] = reader.read_bytes(bytes.as_ptr() as usize + from).unwrap();
            assert_eq!(read, bytes[from..from + 9]);
        }
        let mapping = Mapping::writable(2 * PAGE).unwrap();
        mapping.guard(PAGE, 2 * PAGE).unwrap();
        let end = mapping.start().as_ptr() as usize + PAGE;
        assert_eq!(reader.read_bytes(end - 9), Some([0; 9]));
        assert_eq!(reader.read_bytes::<9>(end - 8), None);
        assert_eq!(reader.read_bytes::<9>(usize::MAX - 3), None);
    }

    #[test]
    fn what_the_kernel_wrote_beside_the_stack_pointer_is_a_proof() {
        // No memory is touched: only what counts as proven is looked at.
        let reader = StackReader::new(0x7000_1100, 0x7000_1040);
        assert_eq!((reader.start, reader.end), (0x7000_1000, 0x7000_2000));
        for written in [0, 0x7000_0ff8, 0x7000_2000, 0x1040] {
            let reader = StackReader::new(0x7000_1100, written);
            assert_eq!((reader.start, reader.end), (0x7000_1000, 0x7000_1000), "{written:#x}");
        }
    }

    #[test]
    fn a_far_word_is_read_and_no_page_between_is_probed() {
        choose_probe().unwrap();
        let pages = 2 * FARTHEST_PAGES;
        let mapping = Mapping::writable(pages * PAGE).unwrap();
        let start = mapping.start().as_ptr() as usize;
        let mut reader = StackReader::new(start, 0);
        assert_eq!(reader.read(start + (pages - 1) * PAGE), Some(0));
        assert_eq!(reader.end, start);
        assert_eq!(reader.read(start + (FARTHEST_PAGES - 1) * PAGE), Some(0));
        assert_eq!(reader.end, start + FARTHEST_PAGES * PAGE);
        assert_eq!(StackReader::new(start + PAGE, 0).read_on_stack(start), None, "below is elsewhere");
    }

    #[test]
    fn garbage_addresses_are_refused() {
        choose_probe().unwrap();
        let garbage = [0, 8, 0xff8, 1 << 47, 1 << 62, u64::MAX - 7, !0xfff, 0xffff_8000_0000_0000];
        for address in garbage.map(|address: u64| address as usize) {
            let mut reader = StackReader::new(address, 0);
            assert_eq!(reader.read(address), None, "{address:#x}");
            assert_eq!(reader.read_on_stack(address), None, "{address:#x}");
        }
    }
}
