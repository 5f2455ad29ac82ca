//! The kernel's task clock (`perf_event_open(2)`, `PERF_COUNT_SW_TASK_CLOCK`): signals by a
//! high-resolution timer, not at the kernel's ticks. Signal-safe: system calls.
//!
//! # Safety
//! Pointers to locals. The application may close a descriptor and reuse its number: see `is_open`.
#![allow(unsafe_code)]

use super::{
    arch::system_call,
    file::{check, close, duplicate_high},
};
use core::mem;

/// `struct perf_event_attr`, first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `struct f_owner_ex` of `fcntl(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FOwnerEx {
    kind: i32,
    id: i32,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
const PERF_FLAG_FD_CLOEXEC: usize = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

// <linux/perf_event.h>; the second request reads a `u64`.
const PERF_EVENT_IOC_DISABLE: usize = 0x2401;
const PERF_EVENT_IOC_PERIOD: usize = 0x4008_2404;

// <asm-generic/fcntl.h>.
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const F_OWNER_TID: i32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All. Not permitted if `kernel.perf_event_paranoid` is above 1, without `CAP_PERFMON`.
    WithKernel,
    /// All if permitted. Otherwise no ticks in the kernel; the next tick has their weight.
    KernelIfPermitted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskClock(pub(crate) i32);

impl TaskClock {
    /// Opens an unarmed event of the thread. execve(2) closes it; a forked child has a copy.
    ///
    /// # Errors
    /// The error number of `fcntl(2)` or `perf_event_open(2)`: `EACCES` if
    /// `kernel.perf_event_paranoid` is above 2 ([`Scope::WithKernel`]: 1), `ENOENT`, `ENOSYS` or
    /// `EPERM` if it is not supported.
    pub(crate) fn open(thread: u32, signal: i32, scope: Scope) -> Result<Self, i32> {
        let low = Self::open_low(thread, 0).or_else(|errno| match (scope, errno) {
            (Scope::KernelIfPermitted, libc::EACCES | libc::EPERM) => {
                Self::open_low(thread, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR)
            }
            (_, errno) => Err(errno),
        })?;
        let event = Self(low);
        event.set_owner(thread, signal).inspect_err(|_| {
            let _ = close(low);
        })?;
        let event = match duplicate_high(low) {
            Some(high) => {
                // Owner and signal apply to both. Checked: the application may have closed `low`.
                event.close_copy(thread, signal);
                Self(high)
            }
            None => event,
        };
        // The descriptor of this call is the signal's `si_fd`.
        event.fcntl(libc::F_SETFL, libc::O_ASYNC as usize).map(|_| event).inspect_err(|_| {
            event.close_copy(thread, signal);
        })
    }

    fn open_low(thread: u32, excluded: u64) -> Result<i32, i32> {
        let attributes = Attributes {
            kind: PERF_TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: PERF_COUNT_SW_TASK_CLOCK,
            // An hour: `arm` sets the period earlier.
            sample_period: 3_600_000_000_000,
            sample_type: 0,
            read_format: 0,
            flags: excluded,
            wakeup_events: 1,
            breakpoint_type: 0,
            breakpoint_address: 0,
        };
        const ANY_PROCESSOR: usize = usize::MAX;
        const NO_GROUP: usize = usize::MAX;
        let arguments = [
            &raw const attributes as usize,
            thread as usize,
            ANY_PROCESSOR,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC,
            0,
        ];
        // SAFETY: the attributes are a local.
        check(unsafe { system_call(libc::SYS_perf_event_open, arguments) })
            .map(|descriptor| descriptor as i32)
    }

    fn set_owner(self, thread: u32, signal: i32) -> Result<(), i32> {
        let owner = FOwnerEx { kind: F_OWNER_TID, id: thread as i32 };
        self.fcntl(F_SETOWN_EX, &raw const owner as usize)?;
        self.fcntl(F_SETSIG, signal as usize).map(|_| ())
    }

    /// Arms the event to expire every `nanos`.
    pub(crate) fn arm(self, nanos: u64) {
        let period = nanos.max(1);
        let arguments = [self.0 as usize, PERF_EVENT_IOC_PERIOD, &raw const period as usize, 0, 0, 0];
        // SAFETY: the period is a local; descriptors other than perf events refuse the request.
        unsafe { system_call(libc::SYS_ioctl, arguments) };
    }

    /// Disables the event, for forked copies too, and closes it, if it is still open.
    pub(crate) fn disable_and_close(self, thread: u32, signal: i32) {
        if self.is_open(thread, signal) {
            // SAFETY: no pointer is passed.
            unsafe { system_call(libc::SYS_ioctl, [self.0 as usize, PERF_EVENT_IOC_DISABLE, 0, 0, 0, 0]) };
            let _ = close(self.0);
        }
    }

    /// Closes a forked child's copy, if it is still open; the parent's event continues.
    pub(crate) fn close_copy(self, thread: u32, signal: i32) {
        if self.is_open(thread, signal) {
            let _ = close(self.0);
        }
    }

    /// True unless the application has closed the descriptor, or reused its number.
    pub(crate) fn is_open(self, thread: u32, signal: i32) -> bool {
        let mut owner = FOwnerEx { kind: -1, id: 0 };
        self.fcntl(F_GETSIG, 0) == Ok(signal as usize)
            && self.fcntl(F_GETOWN_EX, &raw mut owner as usize).is_ok()
            && owner.kind == F_OWNER_TID
            // 0 after the thread has exited, and in a child in another PID namespace.
            && (owner.id == thread as i32 || owner.id == 0)
    }

    fn fcntl(self, command: i32, argument: usize) -> Result<usize, i32> {
        // SAFETY: commands that take a pointer are passed one to a local of the right type.
        check(unsafe { system_call(libc::SYS_fcntl, [self.0 as usize, command as usize, argument, 0, 0, 0]) })
    }
}

// The kernel determines the version by the size.
const _: () = assert!(mem::size_of::<Attributes>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_an_event_and_no_other_file() {
        let thread = crate::sys::thread::id();
        // The kernel may not support it, or forbid it.
        if let Ok(event) = TaskClock::open(thread, libc::SIGURG, Scope::KernelIfPermitted) {
            assert!(event.0 >= 20, "{event:?}");
            assert!(event.is_open(thread, libc::SIGURG));
            event.disable_and_close(thread, libc::SIGUSR1);
            event.disable_and_close(thread + 1, libc::SIGURG);
            assert_eq!(event.fcntl(F_GETSIG, 0), Ok(libc::SIGURG as usize), "closed though it is another's");
            event.disable_and_close(thread, libc::SIGURG);
            // Another test may have reused the number, for a file without a signal.
            assert_ne!(event.fcntl(F_GETSIG, 0), Ok(libc::SIGURG as usize), "it was not closed");
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        let other = TaskClock(std::os::fd::AsRawFd::as_raw_fd(&file));
        other.arm(1_000_000);
        other.disable_and_close(thread, libc::SIGURG);
        assert_eq!(other.fcntl(F_GETSIG, 0), Ok(0));
    }
}
