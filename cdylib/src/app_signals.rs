//! The functions that set a signal's disposition: `sigaction`, and libc's functions that use it.
//!
//! For the profiling signal, the application's disposition is stored, reported and run; the
//! profiler's handler stays. libc's functions call its own `sigaction` directly, so they are
//! implemented here, for all signals, as `signal(2)`, `sysv_signal(3)`, `sigset(3)`,
//! `siginterrupt(3)` and `sigvec(3)` specify. `sighold`, `sigrelse`, `sigpause` and functions of
//! masks are libc's: the application can block ticks.
//!
//! # Safety
//! Accesses structures of the caller, and calls `sigaction` with its handlers.
#![allow(unsafe_code)]

use crate::interpose;
use core::{
    ffi::c_int,
    mem,
    sync::atomic::{AtomicU64, Ordering},
};
use sigprof::interface;

/// The last signal's number plus 1 (`NSIG`).
const SIGNALS: c_int = 65;
/// `SIG_HOLD` of `<signal.h>`.
const SIG_HOLD: libc::sighandler_t = 2;

/// Signals for which `signal` sets no `SA_RESTART`, after `siginterrupt`: bit n - 1 for signal n.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// # Safety
/// * As for `sigaction(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaction(
    number: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    interpose::ensure_resolved();
    // SAFETY: the pointers are as for `sigaction(2)`, guaranteed by the caller.
    unsafe { interface::app_sigaction(number, new, old) }
}

/// # Safety
/// * As for `signal(2)` of BSD: the handler stays, and interrupted calls are restarted.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    if handler == libc::SIG_ERR || !is_signal(number) {
        return refuse();
    }
    let flags = if INTERRUPTS.load(Ordering::Relaxed) & bit(number) == 0 { libc::SA_RESTART } else { 0 };
    // SAFETY: the handler is the caller's.
    unsafe { set(number, handler, flags, bit(number)) }.map_or(libc::SIG_ERR, |old| old.sa_sigaction)
}

/// # Safety
/// * As for [`signal`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn bsd_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the precondition is the same.
    unsafe { signal(number, handler) }
}

/// # Safety
/// * As for [`signal`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ssignal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the precondition is the same.
    unsafe { signal(number, handler) }
}

/// # Safety
/// * As for `sysv_signal(3)`: the handler runs once and unblocked, and calls are interrupted.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __sysv_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    if handler == libc::SIG_ERR || !is_signal(number) {
        return refuse();
    }
    let flags = libc::SA_RESETHAND | libc::SA_NODEFER;
    // SAFETY: the handler is the caller's.
    unsafe { set(number, handler, flags, 0) }.map_or(libc::SIG_ERR, |old| old.sa_sigaction)
}

/// # Safety
/// * As for [`__sysv_signal`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sysv_signal(
    number: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the precondition is the same.
    unsafe { __sysv_signal(number, handler) }
}

/// # Safety
/// * As for `sigset(3)`: sets the disposition and unblocks the signal, or blocks it.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigset(number: c_int, disposition: libc::sighandler_t) -> libc::sighandler_t {
    if !is_signal(number) {
        return refuse();
    }
    let before = if disposition == SIG_HOLD {
        // SAFETY: zeros are valid: integers and an optional function pointer.
        let mut old: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: only reads the disposition, into a local.
        match unsafe { sigaction(number, core::ptr::null(), &mut old) } {
            0 => Some(old),
            _ => None,
        }
    } else {
        // SAFETY: the handler is the caller's.
        unsafe { set(number, disposition, 0, 0) }
    };
    let Some(before) = before else { return libc::SIG_ERR };
    let how = if disposition == SIG_HOLD { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    if change_mask(how, number) { SIG_HOLD } else { before.sa_sigaction }
}

/// # Safety
/// * As for `sigset(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigignore(number: c_int) -> c_int {
    // SAFETY: no handler.
    if unsafe { set(number, libc::SIG_IGN, 0, 0) }.is_some() { 0 } else { -1 }
}

/// # Safety
/// * As for `siginterrupt(3)`: for the current handler, and for those that `signal` will set.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn siginterrupt(number: c_int, interrupts: c_int) -> c_int {
    // SAFETY: zeros are valid: integers and an optional function pointer.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: only reads the disposition, into a local.
    if unsafe { sigaction(number, core::ptr::null(), &mut action) } != 0 {
        return -1;
    }
    if interrupts != 0 {
        INTERRUPTS.fetch_or(bit(number), Ordering::Relaxed);
        action.sa_flags &= !libc::SA_RESTART;
    } else {
        INTERRUPTS.fetch_and(!bit(number), Ordering::Relaxed);
        action.sa_flags |= libc::SA_RESTART;
    }
    // SAFETY: the application's own handler, with only a flag changed.
    unsafe { sigaction(number, &action, core::ptr::null_mut()) }
}

/// `struct sigvec` of 4.2BSD; only programs linked before glibc 2.21 call `sigvec`.
#[repr(C)]
pub(crate) struct Vector {
    handler: libc::sighandler_t,
    /// Signals 1 to 32.
    mask: c_int,
    flags: c_int,
}

const SV_ONSTACK: c_int = 1;
const SV_INTERRUPT: c_int = 2;
const SV_RESETHAND: c_int = 4;

/// # Safety
/// * As for `sigvec(3)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigvec(number: c_int, new: *const Vector, old: *mut Vector) -> c_int {
    // SAFETY: zeros are valid: integers and an optional function pointer.
    let mut before: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `new` is null or valid, guaranteed by the caller.
    let result = match unsafe { new.as_ref() } {
        // SAFETY: only reads the disposition, into a local.
        None => unsafe { sigaction(number, core::ptr::null(), &mut before) },
        Some(new) => {
            let mut flags = 0;
            for (is_asked, flag) in [
                (new.flags & SV_ONSTACK != 0, libc::SA_ONSTACK),
                (new.flags & SV_INTERRUPT == 0, libc::SA_RESTART),
                (new.flags & SV_RESETHAND != 0, libc::SA_RESETHAND),
            ] {
                flags |= if is_asked { flag } else { 0 };
            }
            let mut action = before;
            action.sa_sigaction = new.handler;
            action.sa_flags = flags;
            put_mask(&mut action.sa_mask, u64::from(new.mask as u32));
            // SAFETY: both structures are locals; the handler is the caller's.
            unsafe { sigaction(number, &action, &mut before) }
        }
    };
    if result != 0 {
        return -1;
    }
    let mut flags = 0;
    for (is_set, flag) in [
        (before.sa_flags & libc::SA_ONSTACK != 0, SV_ONSTACK),
        (before.sa_flags & libc::SA_RESTART == 0, SV_INTERRUPT),
        (before.sa_flags & libc::SA_RESETHAND != 0, SV_RESETHAND),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    if !old.is_null() {
        let mask = mask_bits(&before.sa_mask) as u32 as c_int;
        // SAFETY: `old` is writable, guaranteed by the caller.
        unsafe { old.write(Vector { handler: before.sa_sigaction, mask, flags }) };
    }
    0
}

/// Sets a disposition. Returns the one before, or None with errno set.
///
/// # Safety
/// * A handler is the caller's own.
unsafe fn set(
    number: c_int,
    handler: libc::sighandler_t,
    flags: c_int,
    mask: u64,
) -> Option<libc::sigaction> {
    // SAFETY: zeros are valid: integers and an optional function pointer.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    let mut old = new;
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    put_mask(&mut new.sa_mask, mask);
    // SAFETY: both structures are locals; the handler is the caller's.
    (unsafe { sigaction(number, &new, &mut old) } == 0).then_some(old)
}

/// Blocks or unblocks a signal for the calling thread. Returns whether it was blocked.
fn change_mask(how: c_int, number: c_int) -> bool {
    // SAFETY: zeros are valid: an array of integers.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    let mut before = set;
    put_mask(&mut set, bit(number));
    // SAFETY: both sets are locals.
    unsafe { libc::pthread_sigmask(how, &set, &mut before) };
    mask_bits(&before) & bit(number) != 0
}

fn is_signal(number: c_int) -> bool {
    (1..SIGNALS).contains(&number)
}

fn bit(number: c_int) -> u64 {
    1u64.wrapping_shl(number.wrapping_sub(1) as u32)
}

/// The kernel's 64 signals are the first eight bytes of libc's set.
fn put_mask(set: &mut libc::sigset_t, bits: u64) {
    // SAFETY: a `sigset_t` is an array of integers, at least eight bytes long.
    unsafe { core::ptr::from_mut(set).cast::<u64>().write_unaligned(bits) };
}

fn mask_bits(set: &libc::sigset_t) -> u64 {
    // SAFETY: as above.
    unsafe { core::ptr::from_ref(set).cast::<u64>().read_unaligned() }
}

fn refuse() -> libc::sighandler_t {
    // SAFETY: the function has no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: `errno` is a variable of this thread.
    unsafe { *errno = libc::EINVAL };
    libc::SIG_ERR
}
