//! Signals, handlers and timers, from the application's side.
//!
//! # Safety
//! Calls the C library with pointers to locals or null pointers.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::process::Command;
use std::ptr;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Sends the calling thread profiling signals one by one, all from one place.
#[inline(never)]
pub(crate) fn raise_ticks(number: u64) {
    for _ in 0..number {
        raise_tick();
    }
}

/// Sends the calling thread a profiling signal, which was handled when this returns.
#[inline(never)]
pub(crate) fn raise_tick() {
    nix::sys::signal::raise(Signal::SIGPROF).expect("a signal can be sent to oneself");
}

/// Sends the calling thread a signal; it may be a real-time signal.
pub(crate) fn send_to_self(signal: i32) {
    // SAFETY: takes an integer.
    assert_eq!(unsafe { libc::raise(signal) }, 0, "a signal can be sent to oneself");
}

pub(crate) fn tick_main_thread() {
    let process = std::process::id();
    // SAFETY: `tgkill` takes three integers.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, process, libc::SIGPROF) };
    assert_eq!(result, 0, "a signal can be sent to the main thread");
}

/// True if this process has no such thread. A joined one may still exist in the kernel.
pub(crate) fn is_gone(thread: i32) -> bool {
    const NO_SIGNAL: i32 = 0;
    // SAFETY: `tgkill` takes three integers, and sends nothing here.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, NO_SIGNAL) };
    result != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Returns SIGPROF's handler: an address, `SIG_DFL` or `SIG_IGN`.
pub(crate) fn profiling_handler() -> usize {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: changes nothing, and the answer goes into a local.
    let result = unsafe { libc::sigaction(libc::SIGPROF, ptr::null(), action.as_mut_ptr()) };
    assert_eq!(result, 0);
    // SAFETY: the call has filled it.
    unsafe { action.assume_init() }.sa_sigaction
}

/// Sets the disposition of `signal`.
///
/// # Safety
/// * A handler can safely run in any thread at any instruction.
pub(crate) unsafe fn set_handler(signal: Signal, handler: SigHandler, flags: SaFlags) {
    let action = SigAction::new(handler, flags, SigSet::empty());
    // SAFETY: the handler is safe to run anywhere, guaranteed by the caller.
    unsafe { sigaction(signal, &action) }.expect("the signal can be handled");
}

/// A builder for tests that send the ticks themselves. Timer ticks come after a second of CPU time,
/// and none after `set_profiling_timer(0)`: there are no per-thread timers.
pub(crate) fn quiet_builder() -> sigprof::Builder {
    sigprof::Profiler::builder().clock(sigprof::Clock::Itimer).frequency(1)
}

/// Sets the process's profiling timer, in microseconds; 0 disarms it.
pub(crate) fn set_profiling_timer(period_micros: i32) {
    let (seconds, micros) = (period_micros / 1_000_000, period_micros % 1_000_000);
    let interval = libc::timeval { tv_sec: seconds.into(), tv_usec: micros.into() };
    let value = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the value is a local, and a null old value is allowed.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &value, ptr::null_mut()) }, 0);
}

/// Returns the period of the process's profiling timer, in microseconds; 0 if it is disarmed.
pub(crate) fn profiling_timer() -> i32 {
    let mut value = MaybeUninit::<libc::itimerval>::zeroed();
    // SAFETY: the answer goes into a local.
    assert_eq!(unsafe { libc::getitimer(libc::ITIMER_PROF, value.as_mut_ptr()) }, 0);
    // SAFETY: the call has filled it.
    let interval = unsafe { value.assume_init() }.it_interval;
    i32::try_from(interval.tv_sec * 1_000_000 + interval.tv_usec)
        .expect("the period is a few seconds at most")
}

/// Makes `command` start with the profiling signal blocked.
pub(crate) fn block_profiling_signal(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let block = || {
        let mut set = SigSet::empty();
        set.add(Signal::SIGPROF);
        Ok(set.thread_block()?)
    };
    // SAFETY: between fork and exec the closure only makes a system call.
    unsafe { command.pre_exec(block) };
}
