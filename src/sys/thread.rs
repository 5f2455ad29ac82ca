//! The calling thread.
//!
//! # Safety
//! System calls with a pointer to a local.
#![allow(unsafe_code)]

use super::arch::system_call;
use core::ffi::c_long;

/// A time as system calls without a "64" in their names take it, whatever libc's `timespec` is.
#[repr(C)]
pub(crate) struct Time {
    pub(crate) seconds: c_long,
    pub(crate) nanos: c_long,
}

/// Lets other threads run for about a millisecond, while ordinary context waits for them. No cancellation point.
pub(crate) fn pause() {
    let time = Time { seconds: 0, nanos: 1_000_000 };
    // SAFETY: the time is a local; no remainder is asked for.
    unsafe { system_call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// Pages that the calling thread has touched for the first time. Signal-safe: one system call.
#[cfg(sigprof_stamps)]
pub(crate) fn minor_faults() -> u64 {
    // SAFETY: all fields are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    let arguments = [libc::RUSAGE_THREAD as usize, &raw mut usage as usize, 0, 0, 0, 0];
    // SAFETY: the structure is a local.
    unsafe { system_call(libc::SYS_getrusage, arguments) };
    usage.ru_minflt as u64
}

/// How many processors the calling thread may run on, at least 1.
pub(crate) fn processors() -> usize {
    use nix::{
        sched::{CpuSet, sched_getaffinity},
        unistd::Pid,
    };
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return 1 };
    (0..CpuSet::count()).filter(|&processor| set.is_set(processor) == Ok(true)).count().max(1)
}
