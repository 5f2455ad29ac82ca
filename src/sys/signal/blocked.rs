//! Threads that nothing interrupts for a while.
//!
//! # Safety
//! System calls on locals, and a function of libc's that takes one.
#![allow(unsafe_code)]

use crate::sys::arch::system_call;

/// Keeps the calling thread from being interrupted, until it is dropped: every signal is blocked, and a request to
/// cancel the thread waits.
///
/// Signal-safe: a system call, and `pthread_setcancelstate`, which glibc's manual (section "POSIX Thread Cancelability")
/// calls async-signal-safe. It takes a few bytes of the stack, of which a handler on an alternate stack may have no more.
pub(crate) struct AllBlocked {
    mask: u64,
    cancel_state: libc::c_int,
}

unsafe extern "C" {
    /// `pthread_setcancelstate(3)`.
    fn pthread_setcancelstate(state: libc::c_int, old: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc's `<pthread.h>`.
const CANCEL_DISABLE: libc::c_int = 1;

/// All signals but the two that glibc keeps to itself, 32 and 33: for cancellation, and for `setuid` in all threads.
const ALL: u64 = !(1 << 31 | 1 << 32);

impl AllBlocked {
    pub(crate) fn new() -> Self {
        // Miri has no signals, and knows neither call.
        if cfg!(miri) {
            return Self { mask: 0, cancel_state: 0 };
        }
        // Added to what is blocked: the host may have blocked glibc's two by a system call.
        let mask = exchange_mask(libc::SIG_BLOCK, ALL);
        let mut cancel_state = 0;
        // SAFETY: the state is a known one, the old one is written into a local.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut cancel_state) };
        Self { mask, cancel_state }
    }

    /// True when the thread had `signal` blocked before.
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
        // SAFETY: the state is the one that was found.
        unsafe { pthread_setcancelstate(self.cancel_state, &mut unused) };
        exchange_mask(libc::SIG_SETMASK, self.mask);
    }
}

/// Lets no request to cancel the calling thread be fulfilled any more. Signal-safe, as [`AllBlocked`].
pub(crate) fn disable_cancellation() {
    let mut unused = 0;
    // SAFETY: the state is a known one, the old one is written into a local.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut unused) };
}

/// Changes the calling thread's mask as `rt_sigprocmask(2)` does, and gives the one before: bit n - 1 for signal n.
fn exchange_mask(how: libc::c_int, new: u64) -> u64 {
    let mut old = 0u64;
    let arguments = [how as usize, &raw const new as usize, &raw mut old as usize, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads and writes eight bytes each, of two locals.
    unsafe { system_call(libc::SYS_rt_sigprocmask, arguments) };
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_signals_are_blocked_and_put_back() {
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
