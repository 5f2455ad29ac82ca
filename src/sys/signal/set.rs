//! Signal sets as libc's type and as a word: bit n - 1 for signal n.
//!
//! # Safety
//! Sets are read and written as their first eight bytes.
#![allow(unsafe_code)]

use core::{mem, ptr};

pub(crate) fn contains(set: &libc::sigset_t, signal: i32) -> bool {
    mask_bits(set) >> (signal - 1) & 1 == 1
}

pub(super) fn set_mask(bits: u64) {
    let set = mask_set(bits);
    // SAFETY: the set is a local; a null old set is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut()) };
}

/// The first eight bytes of libc's set are the kernel's 64 signals.
pub(super) fn mask_bits(set: &libc::sigset_t) -> u64 {
    // SAFETY: a `sigset_t` is an array of integers, at least eight bytes long.
    unsafe { ptr::from_ref(set).cast::<u64>().read_unaligned() }
}

pub(super) fn mask_set(bits: u64) -> libc::sigset_t {
    // SAFETY: a `sigset_t` is an array of integers, for which zero is a value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a `sigset_t` is at least eight bytes long.
    unsafe { ptr::from_mut(&mut set).cast::<u64>().write_unaligned(bits) };
    set
}
