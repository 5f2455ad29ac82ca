//! Memory mappings and tests of addresses, by system call: libc's functions may be interposed.
//!
//! # Safety
//! Owns only mappings made here; a probe passes an address to the kernel and never dereferences it.
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

/// The unit of protection: the largest page of any kernel for this machine.
pub(crate) const PROTECTION_BYTES: usize = LARGEST_PAGE;

/// An owned, zeroed mapping without core dumps and huge pages: anonymous and private, or of a file.
pub(crate) struct OwnedMapping {
    start: NonNull<u8>,
    length: NonZeroUsize,
}

const ANONYMOUS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
/// `MADV_GUARD_INSTALL` of `linux/mman.h`, which the libc crate lacks.
const GUARD_INSTALL: libc::c_int = 102;
const NO_FILE: usize = usize::MAX;

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for OwnedMapping {}
// SAFETY: `&OwnedMapping` returns only the address.
unsafe impl Sync for OwnedMapping {}

impl OwnedMapping {
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn writable(length: usize) -> Result<Self, i32> {
        Self::new(length, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn reserved(length: usize) -> Result<Self, i32> {
        Self::new(length, libc::PROT_NONE)
    }

    /// Maps memory that is zero in every child process (`MADV_WIPEONFORK`, Linux 4.14).
    ///
    /// # Errors
    /// The error number of `mmap(2)` or `madvise(2)`; `ENOSYS` if advice is ignored.
    pub(crate) fn zeroed_in_children(length: usize) -> Result<Self, i32> {
        let mapping = Self::writable(length)?;
        mapping.advise_verified(0, mapping.length(), libc::MADV_WIPEONFORK)?;
        Ok(mapping)
    }

    /// Gives advice that must take effect.
    fn advise_verified(&self, from: usize, to: usize, advice: libc::c_int) -> Result<(), i32> {
        const IMPOSSIBLE: libc::c_int = 0x7fff_ffff;
        // An emulator may accept all advice and ignore it (qemu-user 7.2).
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
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = check_address(unsafe {
            system_call(MAP_MEMORY, [0, length.get(), protection as usize, ANONYMOUS as usize, NO_FILE, 0])
        })?;
        let mapping = Self { start: NonNull::new(start as *mut u8).ok_or(libc::ENOMEM)?, length };
        // A huge page has 2 MiB or more.
        let advice = [libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE];
        mapping.advise_all(if length.get() < 2 << 20 { &advice[..1] } else { &advice });
        Ok(mapping)
    }

    /// Shares `length` bytes of `file` (a multiple of [`PROTECTION_BYTES`]), except with forked
    /// children. [`commit`](Self::commit) makes bytes accessible, so that `mlockall(2)` does not
    /// populate all. Call [`populate`](Self::populate) before access: a full file system raises
    /// SIGBUS.
    ///
    /// # Errors
    /// The error number of `mmap(2)` or `madvise(2)`; `ENOSYS` if advice is ignored.
    pub(crate) fn of_file(file: &File, length: usize) -> Result<Self, i32> {
        let length = NonZeroUsize::new(length).ok_or(libc::EINVAL)?;
        // Inaccessible, then unlocked: `mlockall(MCL_FUTURE)` would make all of it resident.
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

    /// Allocates memory and blocks of a file mapping for bytes `from..to` (multiples of
    /// [`PROTECTION_BYTES`]). Signal-safe: one `madvise` call (`MADV_POPULATE_WRITE`, Linux 5.14).
    ///
    /// # Errors
    /// The error number of `madvise(2)`: `EFAULT` on a full file system, `EINVAL` before 5.14.
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

    /// Replaces a file mapping from byte `from` (a multiple of [`PROTECTION_BYTES`]) on by zeroed
    /// anonymous memory, which is not accessible yet. Signal-safe: system calls.
    ///
    /// # Errors
    /// The error number of `mmap(2)`; the bytes from `from` on must then not be used.
    ///
    /// # Safety
    /// * No thread may use the bytes from `from` on, until they are committed again.
    pub(crate) unsafe fn detach_from_file(&self, from: usize) -> Result<(), i32> {
        let length = self.length().checked_sub(from).ok_or(libc::EINVAL)?;
        let start = self.start.as_ptr() as usize + from;
        let flags = (ANONYMOUS | libc::MAP_FIXED) as usize;
        // SAFETY: the range is in this mapping and unused, by this function's contract.
        check_address(unsafe {
            system_call(MAP_MEMORY, [start, length, libc::PROT_NONE as usize, flags, NO_FILE, 0])
        })?;
        for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE] {
            let _ = self.advise(from, self.length(), advice);
        }
        Ok(())
    }

    /// Frees memory and blocks of a file mapping, if the file system can.
    ///
    /// # Safety
    /// * No thread may use bytes `from..to`, now or later.
    pub(crate) unsafe fn punch(&self, from: usize, to: usize) {
        let _ = self.advise(from, to, libc::MADV_REMOVE);
    }

    /// Does not unmap: a forked child does not have the mapping, and may have another there.
    pub(crate) fn forget(self) {
        core::mem::forget(self);
    }

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
        // SAFETY: the range is in this mapping. Only `punch` and its contract free contents.
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

    /// Makes bytes (multiples of [`PROTECTION_BYTES`]) accessible. Signal-safe: a system call.
    ///
    /// # Errors
    /// The error number of `mprotect(2)`, or `EINVAL` for a range outside the mapping.
    pub(crate) fn commit(&self, from: usize, to: usize) -> Result<(), i32> {
        self.protect(from, to, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Makes bytes (multiples of [`PROTECTION_BYTES`]) inaccessible. A guard region (`madvise(2)`,
    /// Linux 6.13) does not split the mapping; protected pages do, and slow forks and exits.
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
        // SAFETY: the range is in this mapping; inaccessible bytes hold no Rust object.
        check_address(unsafe {
            system_call(libc::SYS_mprotect, [start, to - from, protection as usize, 0, 0, 0])
        })?;
        Ok(())
    }
}

impl Drop for OwnedMapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, which is not used again.
        unsafe {
            system_call(libc::SYS_munmap, [self.start.as_ptr() as usize, self.length.get(), 0, 0, 0, 0])
        };
    }
}

fn check_address(result: isize) -> Result<usize, i32> {
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

/// Runs `function`, which must not unwind, on `stack`, which no other code may use at the time.
pub(crate) fn run_on_stack<T>(stack: &OwnedMapping, argument: &mut T, function: fn(&mut T)) {
    let mut call = (argument, function);
    // SAFETY: one past the end of the mapping.
    let top = unsafe { stack.start.add(stack.length()) };
    // SAFETY: the stack is unused, its end is page-aligned, and `enter_call` gets its pair.
    unsafe { call_on_stack(enter_call::<T>, (&raw mut call).cast(), top.as_ptr()) };
}

/// Entry on the new stack: `call` points to an argument and its function.
pub(crate) extern "C" fn enter_call<T>(call: *mut u8) {
    // SAFETY: only `run_on_stack` and `Slot::run_on_stack` use this function, with such a pair.
    let (argument, function) = unsafe { &mut *call.cast::<(&mut T, fn(&mut T))>() };
    function(argument);
}

/// Types for which all-zero bytes are a value.
///
/// # Safety
/// * The type must be such: integers, arrays of them, and structures of these.
pub(crate) unsafe trait Zeroable {}

/// A value in its own mapping: too large for a stack, if nothing may allocate.
pub(crate) struct MappedBox<T: Zeroable> {
    mapping: OwnedMapping,
    value: PhantomData<T>,
}

impl<T: Zeroable> MappedBox<T> {
    /// # Errors
    /// The error number of `mmap(2)`.
    pub(crate) fn zeroed() -> Result<Self, i32> {
        const { assert!(align_of::<T>() <= PAGE && !core::mem::needs_drop::<T>()) };
        Ok(Self { mapping: OwnedMapping::writable(size_of::<T>())?, value: PhantomData })
    }
}

impl<T: Zeroable> Deref for MappedBox<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mapping is large enough, page-aligned and zeroed, which is a value of `T`.
        unsafe { self.mapping.start.cast::<T>().as_ref() }
    }
}

impl<T: Zeroable> DerefMut for MappedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { self.mapping.start.cast::<T>().as_mut() }
    }
}

/// Whether to use `probe_by_mask`, see [`choose_probe`].
static CHEAP_PROBE: AtomicBool = AtomicBool::new(false);

/// A function in valgrind's preloaded object (`vgpreload_core`).
const VALGRIND_SYMBOL: &CStr = c"_vgnU_freeres";

/// Uses the slower probe if the cheap one does not work as on Linux (emulations may check arguments
/// in another order), and under valgrind, which prints two lines per probe. Ordinary context.
///
/// # Errors
/// The error number of `mmap(2)`; `ENOSYS` if neither probe works: no stack could be read safely.
pub(crate) fn choose_probe() -> Result<(), i32> {
    let pages = OwnedMapping::writable(2 * PROTECTION_BYTES)?;
    pages.guard(PROTECTION_BYTES, 2 * PROTECTION_BYTES)?;
    let (readable, guarded) =
        (pages.start().as_ptr() as usize, pages.start().as_ptr() as usize + PROTECTION_BYTES);
    let answers = |probe: fn(usize) -> bool| probe(readable) && !probe(guarded);
    let cheap = loader::symbol(VALGRIND_SYMBOL).is_null() && answers(probe_by_mask);
    CHEAP_PROBE.store(cheap, Ordering::Relaxed);
    if cheap || answers(|address| fetch_word(address).is_some()) { Ok(()) } else { Err(libc::ENOSYS) }
}

/// Whether eight bytes are readable. Signal-safe: one system call.
pub(crate) fn is_readable(address: usize) -> bool {
    if CHEAP_PROBE.load(Ordering::Relaxed) { probe_by_mask(address) } else { fetch_word(address).is_some() }
}

/// `rt_sigprocmask` reads the new mask before it checks `how`. With an invalid `how` it returns
/// `EFAULT` for unreadable memory, otherwise `EINVAL`, and changes nothing. It is cheaper than a
/// pipe, `process_vm_readv` or `MADV_POPULATE_READ`, and sandboxes permit it (`docs/decisions.md`).
fn probe_by_mask(address: usize) -> bool {
    const IMPOSSIBLE: usize = 0x7fff_ffff;
    const MASK_BYTES: usize = 8;
    // SAFETY: the kernel checks the address, writes nothing and refuses `how`.
    let result = unsafe { system_call(libc::SYS_rt_sigprocmask, [IMPOSSIBLE, address, 0, MASK_BYTES, 0, 0]) };
    result == -(libc::EINVAL as isize)
}

/// Reads a word, if it is readable and `process_vm_readv` permitted. Signal-safe: system calls.
pub(crate) fn fetch_word(address: usize) -> Option<usize> {
    let mut word = 0usize;
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<usize>() };
    let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: size_of::<usize>() };
    let process = super::process::id() as usize;
    // SAFETY: the kernel writes into `word` and checks the other address.
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
    fn distinguishes_readable_memory() {
        let mapping = OwnedMapping::writable(2 * PROTECTION_BYTES).unwrap();
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
    fn probes_without_changing_the_signal_mask() {
        let before = nix::sys::signal::SigSet::thread_get_mask().unwrap();
        let blocked = u64::MAX;
        assert!(is_readable(&raw const blocked as usize));
        assert_eq!(before, nix::sys::signal::SigSet::thread_get_mask().unwrap());
    }

    #[test]
    fn guards_a_locked_mapping() {
        let mapping = OwnedMapping::writable(2 * PROTECTION_BYTES).unwrap();
        let start = mapping.start();
        // SAFETY: the range is in the mapping; the call changes no contents.
        assert_eq!(unsafe { libc::mlock(start.as_ptr().cast(), PROTECTION_BYTES) }, 0);
        mapping.guard(0, PROTECTION_BYTES).unwrap();
        choose_probe().unwrap();
        assert!(!is_readable(start.as_ptr() as usize));
        assert!(is_readable(start.as_ptr() as usize + PROTECTION_BYTES));
    }

    #[test]
    fn guards_in_a_forked_child() {
        let mapping = OwnedMapping::writable(2 * PROTECTION_BYTES).unwrap();
        let start = mapping.start().as_ptr() as usize;
        mapping.guard(0, PROTECTION_BYTES).unwrap();
        choose_probe().unwrap();
        // SAFETY: the child only makes system calls.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_guarded = !is_readable(start) && is_readable(start + PROTECTION_BYTES);
            // SAFETY: terminates the child; no destructor runs.
            unsafe { libc::_exit(i32::from(!is_guarded)) };
        }
        let mut status = -1;
        // SAFETY: the status is a local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn refuses_a_range_outside_the_mapping() {
        let mapping = OwnedMapping::reserved(PROTECTION_BYTES).unwrap();
        assert_eq!(mapping.commit(0, 2 * PROTECTION_BYTES), Err(libc::EINVAL));
        assert!(!is_readable(mapping.start().as_ptr() as usize));
        mapping.commit(0, PROTECTION_BYTES).unwrap();
        assert!(is_readable(mapping.start().as_ptr() as usize));
    }
}
