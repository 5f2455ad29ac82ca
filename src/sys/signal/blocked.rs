//! Periods in which no signal and no cancellation interrupts a thread.
//!
//! # Safety
//! System calls and `pthread_setcancelstate` with pointers to locals.
#![allow(unsafe_code)]

use crate::sys::arch::system_call;

/// A guard that blocks all signals and disables cancellation in the calling thread. Signal-safe: a
/// system call, and `pthread_setcancelstate` (glibc's manual, "POSIX Thread Cancelability"). It
/// uses little stack: a handler on an alternate stack may have little.
pub(crate) struct AllBlocked {
    mask: u64,
    cancel_state: libc::c_int,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc's `<pthread.h>`.
const CANCEL_DISABLE: libc::c_int = 1;

/// All signals except glibc's internal ones: 32 for cancellation, 33 for `setuid` in all threads.
const ALL: u64 = !(1 << 31 | 1 << 32);

impl AllBlocked {
    pub(crate) fn new() -> Self {
        // Miri supports neither call.
        if cfg!(miri) {
            return Self { mask: 0, cancel_state: 0 };
        }
        // `SIG_BLOCK`, because the application may have blocked glibc's two by a system call.
        let mask = exchange_mask(libc::SIG_BLOCK, ALL);
        let mut cancel_state = 0;
        // SAFETY: the state is valid; the old one is written into a local.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut cancel_state) };
        Self { mask, cancel_state }
    }

    #[cfg(test)]
    pub(crate) fn had_blocked(&self, signal: i32) -> bool {
        self.mask >> (signal - 1) & 1 == 1
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        if cfg!(miri) {
            return;
        }
        let mut unused = 0;
        // SAFETY: `pthread_setcancelstate` returned this state in `new`.
        unsafe { pthread_setcancelstate(self.cancel_state, &mut unused) };
        exchange_mask(libc::SIG_SETMASK, self.mask);
    }
}

/// Disables cancellation of the calling thread permanently. Signal-safe, as [`AllBlocked`].
pub(crate) fn disable_cancellation() {
    let mut unused = 0;
    // SAFETY: the state is valid; the old one is written into a local.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut unused) };
}

/// Changes the mask as `rt_sigprocmask(2)`; returns the old one: bit n - 1 for signal n.
fn exchange_mask(how: libc::c_int, new: u64) -> u64 {
    let mut old = 0u64;
    let arguments = [how as usize, &raw const new as usize, &raw mut old as usize, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads eight bytes of one local and writes eight bytes of another.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_all_signals_and_restores_the_mask() {
        let outer = AllBlocked::new();
        assert!(!outer.had_blocked(libc::SIGUSR1));
        let inner = AllBlocked::new();
        assert!(inner.had_blocked(libc::SIGUSR1));
        drop(inner);
        assert!(AllBlocked::new().had_blocked(libc::SIGUSR1));
        drop(outer);
        assert!(!AllBlocked::new().had_blocked(libc::SIGUSR1));
    }
}
