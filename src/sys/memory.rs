//! Memory straight from the kernel, and the question whether an address can be read. By system calls, not by libc's
//! functions, which the host may have replaced by its own.
//!
//! # Safety
//! Owns mappings made here and nothing else; a probe hands the kernel an address and never dereferences it.
#![allow(unsafe_code)]

use super::{
    arch::{LARGEST_PAGE, MAP_MEMORY, call_on_stack, system_call},
    file::File,
    loader,
};
use crate::sync::{AtomicBool, Ordering};
use core::{
    ffi::CStr,
    marker::PhantomData,
    num::NonZeroUsize,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

pub(crate) use super::arch::PAGE;

/// The unit in which memory is protected: the largest page of any kernel for this machine, so that it serves all.
pub(crate) const PROTECTION_BYTES: usize = LARGEST_PAGE;

/// A mapping of our own, zeroed, kept out of core dumps and huge pages; unmapped when dropped. It is anonymous and
/// private, or, from [`of_file`](Mapping::of_file), a file's.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

/// What an anonymous mapping is made with.
const ANONYMOUS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
/// `MADV_GUARD_INSTALL` of `linux/mman.h`, which the libc crate does not have.
const GUARD_INSTALL: libc::c_int = 102;
/// In the place of a descriptor.
const NO_FILE: usize = usize::MAX;

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out only the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `length` bytes that can be read and written at once. Memory becomes resident as it is touched.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn writable(length: usize) -> Result<Self, i32> {
        Self::new(length, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// `length` bytes of address space, of which [`commit`](Self::commit) makes parts usable.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn reserved(length: usize) -> Result<Self, i32> {
        Self::new(length, libc::PROT_NONE)
    }

    /// As [`writable`](Self::writable), and zeros in every child process that gets a copy of this one's memory, however
    /// it is made (`MADV_WIPEONFORK`, Linux 4.14).
    ///
    /// # Errors
    /// The error number of `mmap(2)` or `madvise(2)`; `ENOSYS` where advice is not taken in earnest.
    pub(crate) fn zeroed_in_children(length: usize) -> Result<Self, i32> {
        let mapping = Self::writable(length)?;
        mapping.advise_verified(0, mapping.length(), libc::MADV_WIPEONFORK)?;
        Ok(mapping)
    }

    /// Gives advice on bytes `from..to` that is not a hint.
    fn advise_verified(&self, from: usize, to: usize, advice: libc::c_int) -> Result<(), i32> {
        const IMPOSSIBLE: libc::c_int = 0x7fff_ffff;
        // Most advice is a hint, so an emulator may grant all of it and follow none (qemu-user 7.2 does).
        if self.advise(from, to, IMPOSSIBLE).is_ok() {
            return Err(libc::ENOSYS);
        }
        self.advise(from, to, advice)
    }

    fn new(length: usize, protection: libc::c_int) -> Result<Self, i32> {
        let length = length
            .checked_next_multiple_of(PROTECTION_BYTES)
            .and_then(NonZeroUsize::new)
            .ok_or(libc::EINVAL)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no other memory.
        let start = check_address(unsafe {
            system_call(MAP_MEMORY, [0, length.get(), protection as usize, ANONYMOUS as usize, NO_FILE, 0])
        })?;
        let mapping = Self { start: NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)?, length };
        // No huge page fits into less than its size, 2 MiB or more.
        let advice = [libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE];
        mapping.advise_all(if length.get() < 2 << 20 { &advice[..1] } else { &advice });
        Ok(mapping)
    }

    /// The first `length` bytes of `file` (a multiple of [`PROTECTION_BYTES`]), shared with it; a forked child has no such
    /// mapping. Nothing of it can be touched before [`commit`](Self::commit), so that no `mlockall(2)` makes all of it
    /// resident, and nothing may be before [`populate`](Self::populate) has found room for it: a full file system would
    /// raise SIGBUS.
    ///
    /// # Errors
    /// The error number of `mmap(2)` or `madvise(2)`; `ENOSYS` where advice is not taken in earnest.
    pub(crate) fn of_file(file: &File, length: usize) -> Result<Self, i32> {
        let length = NonZeroUsize::new(length).ok_or(libc::EINVAL)?;
        // First without any access, and unlocked: under `mlockall(MCL_FUTURE)` all of it would become resident.
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = check_address(unsafe {
            system_call(
                MAP_MEMORY,
                [
                    0,
                    length.get(),
                    libc::PROT_NONE as usize,
                    libc::MAP_SHARED as usize,
                    file.number() as usize,
                    0,
                ],
            )
        })?;
        let mapping = Self { start: NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)?, length };
        // SAFETY: the range is the mapping just made; the call changes no contents.
        unsafe { system_call(libc::SYS_munlock, [start, length.get(), 0, 0, 0, 0]) };
        mapping.advise_verified(0, mapping.length(), libc::MADV_DONTFORK)?;
        mapping.advise_all(&[libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE]);
        Ok(mapping)
    }

    /// Gives bytes `from..to` (multiples of [`PROTECTION_BYTES`]) of a file's mapping memory and room in the file.
    ///
    /// Signal-safe: one `madvise` system call (MADV_POPULATE_WRITE, Linux 5.14), on memory of our own.
    ///
    /// # Errors
    /// The error number of `madvise(2)`: `EFAULT` where the file system is full, `EINVAL` from an older kernel.
    pub(crate) fn populate(&self, from: usize, to: usize) -> Result<(), i32> {
        const TRIES: usize = 3;
        let mut result = Ok(());
        for _ in 0..TRIES {
            result = self.advise(from, to, libc::MADV_POPULATE_WRITE);
            if !matches!(result, Err(libc::EINTR | libc::EAGAIN)) {
                break;
            }
        }
        result
    }

    /// Puts anonymous memory in the place of a file's from byte `from` (a multiple of [`PROTECTION_BYTES`]) on, zeroed and
    /// not yet usable. For who knows that nobody uses it.
    ///
    /// Signal-safe: system calls on memory of our own.
    ///
    /// # Errors
    /// The error number of `mmap(2)`; nothing behind `from` may be used then.
    ///
    /// # Safety
    /// * Nobody uses the bytes from `from` on, now or until they have been made usable again.
    pub(crate) unsafe fn detach_from_file(&self, from: usize) -> Result<(), i32> {
        let length = self.length().checked_sub(from).ok_or(libc::EINVAL)?;
        let start = self.start.as_ptr() as usize + from;
        let flags = (ANONYMOUS | libc::MAP_FIXED) as usize;
        // SAFETY: the range lies within this mapping; the caller's word that nobody uses it.
        check_address(unsafe {
            system_call(MAP_MEMORY, [start, length, libc::PROT_NONE as usize, flags, NO_FILE, 0])
        })?;
        for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE] {
            let _ = self.advise(from, self.length(), advice);
        }
        Ok(())
    }

    /// Frees the memory and the room in the file of bytes `from..to` of a file's mapping, as far as the file system can.
    ///
    /// # Safety
    /// * Nobody uses these bytes, now or later.
    pub(crate) unsafe fn punch(&self, from: usize, to: usize) {
        let _ = self.advise(from, to, libc::MADV_REMOVE);
    }

    /// Lets go of the mapping without unmapping it: in a forked child, which does not have it, something else may
    /// stand there.
    pub(crate) fn forget(self) {
        core::mem::forget(self);
    }

    /// Gives advice on the whole mapping; what the kernel refuses changes nothing.
    fn advise_all(&self, advices: &[libc::c_int]) {
        for &advice in advices {
            let _ = self.advise(0, self.length(), advice);
        }
    }

    fn advise(&self, from: usize, to: usize, advice: libc::c_int) -> Result<(), i32> {
        if from > to || to > self.length() {
            return Err(libc::EINVAL);
        }
        let start = self.start.as_ptr() as usize + from;
        // SAFETY: the range lies within this mapping. What frees contents is asked for by `punch` alone.
        check_address(unsafe {
            system_call(libc::SYS_madvise, [start, to - from, advice as usize, 0, 0, 0])
        })?;
        Ok(())
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn length(&self) -> usize {
        self.length.get()
    }

    /// Makes bytes `from..to` (multiples of [`PROTECTION_BYTES`]) readable and writable.
    ///
    /// Signal-safe: one `mprotect` system call, on memory of our own.
    ///
    /// # Errors
    /// The error number of `mprotect(2)`, or `EINVAL` for a range outside the mapping.
    pub(crate) fn commit(&self, from: usize, to: usize) -> Result<(), i32> {
        self.protect(from, to, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Makes bytes `from..to` (multiples of [`PROTECTION_BYTES`]) fault when touched: a guard below a stack.
    ///
    /// A guard region (`madvise(2)`, Linux 6.13) does not split the mapping. Protected pages do, and each start, each
    /// fork and each exit pays for the parts.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(crate) fn guard(&self, from: usize, to: usize) -> Result<(), i32> {
        self.advise_verified(from, to, GUARD_INSTALL).or_else(|_| self.protect(from, to, libc::PROT_NONE))
    }

    fn protect(&self, from: usize, to: usize, protection: libc::c_int) -> Result<(), i32> {
        if from > to || to > self.length() {
            return Err(libc::EINVAL);
        }
        let start = self.start.as_ptr() as usize + from;
        // SAFETY: the range lies within this mapping, which holds no Rust object while it is inaccessible.
        check_address(unsafe {
            system_call(libc::SYS_mprotect, [start, to - from, protection as usize, 0, 0, 0])
        })?;
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and its owner is gone.
        unsafe {
            system_call(libc::SYS_munmap, [self.start.as_ptr() as usize, self.length.get(), 0, 0, 0, 0])
        };
    }
}

fn check_address(result: isize) -> Result<usize, i32> {
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

/// Runs `function` with `stack`, which nobody else uses meanwhile, as its stack. It must not unwind.
pub(crate) fn run_on_stack<T>(stack: &Mapping, argument: &mut T, function: fn(&mut T)) {
    let mut call = (argument, function);
    // SAFETY: one past the end of the mapping.
    let top = unsafe { stack.start.add(stack.length()) };
    // SAFETY: the stack is ours for the call, ends at a page, and `enter_call` is given its own pair.
    unsafe { call_on_stack(enter_call::<T>, (&raw mut call).cast(), top.as_ptr()) };
}

/// The other side of a switch of stacks: `call` points to an argument and the function that takes it.
pub(crate) extern "C" fn enter_call<T>(call: *mut u8) {
    // SAFETY: only `run_on_stack` and `Slot::run_on_stack` name this function, with a pair of this type.
    let (argument, function) = unsafe { &mut *call.cast::<(&mut T, fn(&mut T))>() };
    function(argument);
}

/// Types whose all-zeros bytes are a value.
///
/// # Safety
/// * So it is: integers, arrays of them, and structures of these.
pub(crate) unsafe trait Zeroable {}

/// A value in a mapping of its own: for what is too large for a stack, where nothing may allocate.
pub(crate) struct MappedBox<T: Zeroable> {
    mapping: Mapping,
    value: PhantomData<T>,
}

impl<T: Zeroable> MappedBox<T> {
    /// All zeros. Memory becomes resident as it is touched.
    ///
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn zeroed() -> Result<Self, i32> {
        const { assert!(align_of::<T>() <= PAGE && !core::mem::needs_drop::<T>()) };
        Ok(Self { mapping: Mapping::writable(size_of::<T>())?, value: PhantomData })
    }
}

impl<T: Zeroable> Deref for MappedBox<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mapping is large enough, aligned to a page, and was zeroed, which is a value of `T`.
        unsafe { self.mapping.start.cast::<T>().as_ref() }
    }
}

impl<T: Zeroable> DerefMut for MappedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the box is borrowed alone.
        unsafe { self.mapping.start.cast::<T>().as_mut() }
    }
}

/// Whether the cheap probe answers as it should, see [`choose_probe`].
static CHEAP_PROBE: AtomicBool = AtomicBool::new(false);

/// A function of the object that valgrind loads into each program (`vgpreload_core`).
const VALGRIND_SYMBOL: &CStr = c"_vgnU_freeres";

/// Finds out whether this kernel answers the cheap probe as Linux does, and uses the slower one where it does not
/// (another system's emulation of Linux may look at the arguments in another order), and under valgrind, which prints
/// two lines for each cheap probe. For ordinary context.
///
/// # Errors
/// The error number of `mmap(2)`; or `ENOSYS` where neither probe works, so that no stack could be read safely.
pub(crate) fn choose_probe() -> Result<(), i32> {
    let pages = Mapping::writable(2 * PROTECTION_BYTES)?;
    pages.guard(PROTECTION_BYTES, 2 * PROTECTION_BYTES)?;
    let (readable, guarded) =
        (pages.start().as_ptr() as usize, pages.start().as_ptr() as usize + PROTECTION_BYTES);
    let answers = |probe: fn(usize) -> bool| probe(readable) && !probe(guarded);
    let cheap = loader::symbol(VALGRIND_SYMBOL).is_null() && answers(probe_by_mask);
    CHEAP_PROBE.store(cheap, Ordering::Relaxed);
    if cheap || answers(|address| fetch_word(address).is_some()) { Ok(()) } else { Err(libc::ENOSYS) }
}

/// True when the eight bytes at `address` can be read. Signal-safe: one system call.
pub(crate) fn is_readable(address: usize) -> bool {
    if CHEAP_PROBE.load(Ordering::Relaxed) { probe_by_mask(address) } else { fetch_word(address).is_some() }
}

/// `rt_sigprocmask` copies the new mask from user memory before it looks at `how`: with an impossible `how` it
/// fails with `EFAULT` for memory that cannot be read and with `EINVAL` for memory that can, and changes nothing.
/// It is cheaper than a pipe, `process_vm_readv` or `MADV_POPULATE_READ`, and no sandbox that lets a C library
/// run forbids it (`docs/decisions.md`).
fn probe_by_mask(address: usize) -> bool {
    const IMPOSSIBLE: usize = 0x7fff_ffff;
    const MASK_BYTES: usize = 8;
    // SAFETY: the kernel checks the address itself, writes nowhere and rejects `how`.
    let result = unsafe { system_call(libc::SYS_rt_sigprocmask, [IMPOSSIBLE, address, 0, MASK_BYTES, 0, 0]) };
    result == -(libc::EINVAL as isize)
}

/// The word at `address`, copied by the kernel; None where it cannot be read. Where a sandbox forbids
/// `process_vm_readv`, no word is given. Signal-safe: two system calls.
pub(crate) fn fetch_word(address: usize) -> Option<usize> {
    let mut word = 0usize;
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<usize>() };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: size_of::<usize>() };
    let process = super::process::id() as usize;
    // SAFETY: the kernel writes into `word` and checks the other address itself.
    let copied = unsafe {
        system_call(
            libc::SYS_process_vm_readv,
            [process, &raw const to as usize, 1, &raw const from as usize, 1, 0],
        )
    };
    (copied == size_of::<usize>() as isize).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_probes_work_here() {
        choose_probe().unwrap();
        assert!(CHEAP_PROBE.load(Ordering::Relaxed));
        let word = 0x1234_5678_usize;
        assert_eq!(fetch_word(&raw const word as usize), Some(word));
        assert_eq!(fetch_word(8), None);
    }

    #[test]
    fn readable_memory_is_told_from_unreadable() {
        let mapping = Mapping::writable(2 * PROTECTION_BYTES).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(PROTECTION_BYTES, 2 * PROTECTION_BYTES).unwrap();
        choose_probe().unwrap();
        assert!(is_readable(start));
        assert!(is_readable(start + PROTECTION_BYTES - 8));
        assert!(!is_readable(start + PROTECTION_BYTES));
        assert!(!is_readable(start + PROTECTION_BYTES - 4), "half of it cannot be read");
        assert!(!is_readable(0));
        assert!(!is_readable(usize::MAX - 7));
        assert!(!is_readable(1 << (usize::BITS - 4) | usize::MAX << (usize::BITS - 1)));
    }

    #[test]
    fn the_probe_leaves_the_signal_mask_alone() {
        let before = nix::sys::signal::SigSet::thread_get_mask().unwrap();
        let blocked = u64::MAX;
        assert!(is_readable(&raw const blocked as usize));
        assert_eq!(before, nix::sys::signal::SigSet::thread_get_mask().unwrap());
    }

    #[test]
    fn a_locked_mapping_is_guarded() {
        let mapping = Mapping::writable(2 * PROTECTION_BYTES).unwrap();
        let start = mapping.start();
        // SAFETY: the range is the first half of the mapping; the call changes no contents.
        assert_eq!(unsafe { libc::mlock(start.as_ptr().cast(), PROTECTION_BYTES) }, 0);
        mapping.guard(0, PROTECTION_BYTES).unwrap();
        choose_probe().unwrap();
        assert!(!is_readable(start.as_ptr() as usize));
        assert!(is_readable(start.as_ptr() as usize + PROTECTION_BYTES));
    }

    #[test]
    fn a_guard_holds_in_a_child() {
        let mapping = Mapping::writable(2 * PROTECTION_BYTES).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(0, PROTECTION_BYTES).unwrap();
        choose_probe().unwrap();
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_guarded = !is_readable(start) && is_readable(start + PROTECTION_BYTES);
            // SAFETY: it ends the child, and runs no code of this process.
            unsafe { libc::_exit(i32::from(!is_guarded)) };
        }
        let mut status = -1;
        // SAFETY: the status is written to a variable of that type.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn a_range_outside_the_mapping_is_refused() {
        let mapping = Mapping::reserved(PROTECTION_BYTES).unwrap();
        assert_eq!(mapping.commit(0, 2 * PROTECTION_BYTES), Err(libc::EINVAL));
        assert!(!is_readable(mapping.start().as_ptr() as usize));
        mapping.commit(0, PROTECTION_BYTES).unwrap();
        assert!(is_readable(mapping.start().as_ptr() as usize));
    }
}
