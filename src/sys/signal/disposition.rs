//! Dispositions of signals: the profiler's and the application's. Signal-safe: system calls and
//! `sigaction`, which is listed in `signal-safety(7)`.
//!
//! # Safety
//! Calls of `sigaction` with borrowed structures, and of handlers that the application registered.
#![allow(unsafe_code)]

use super::{
    Context, Handler, SigactionFunction, SignalInfo,
    set::{mask_bits, mask_set, set_mask},
};
use crate::{
    sync::{AtomicPtr, Ordering},
    sys::{arch::system_call, errno},
};
use core::{mem, ptr};

/// The C library's `sigaction`: the shared library interposes the name.
static REAL_SIGACTION: AtomicPtr<()> = AtomicPtr::new(libc::sigaction as *mut ());

pub(crate) fn set_real_sigaction(function: SigactionFunction) {
    REAL_SIGACTION.store(function as *mut (), Ordering::Release);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disposition {
    /// The handler's address, `SIG_DFL` or `SIG_IGN`.
    pub(crate) handler: usize,
    pub(crate) flags: i32,
    /// Signals blocked while the handler runs: bit n - 1 for signal n.
    pub(crate) mask: u64,
}

impl Disposition {
    pub(crate) const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, mask: 0 };

    pub(crate) const IGNORED: usize = libc::SIG_IGN;

    pub(crate) fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    pub(crate) fn is_one_shot(&self) -> bool {
        self.flags & libc::SA_RESETHAND != 0
    }

    pub(crate) fn from_c(action: &libc::sigaction) -> Self {
        Self { handler: action.sa_sigaction, flags: action.sa_flags, mask: mask_bits(&action.sa_mask) }
    }

    /// Returns it as the kernel stores it: SIGKILL and SIGSTOP cannot be blocked.
    pub(crate) fn without_unblockable(self) -> Self {
        Self { mask: self.mask & !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1)), ..self }
    }

    pub(crate) fn to_c(self) -> libc::sigaction {
        // SAFETY: all fields are integers or an optional function pointer, which may be zero.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        action.sa_mask = mask_set(self.mask);
        action
    }
}

/// # Errors
/// `EINVAL` for a number that is not a signal.
pub(crate) fn disposition(signal: i32) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT.to_c();
    // SAFETY: a null new action changes nothing; the old one is written into a local.
    if unsafe { real_sigaction()(signal, ptr::null(), &mut old) } == 0 {
        Ok(Disposition::from_c(&old))
    } else {
        Err(errno::get())
    }
}

/// Returns the kernel's handler, `SIG_DFL` or `SIG_IGN`, even if `sigaction` is interposed.
pub(crate) fn kernel_handler(signal: i32) -> usize {
    // The kernel's structure begins with the handler on every machine, and is not larger.
    let mut action = [libc::SIG_DFL; 8];
    let arguments = [signal as usize, 0, action.as_mut_ptr() as usize, size_of::<u64>(), 0, 0];
    // SAFETY: a null new action changes nothing; the old one is written into a local.
    unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
    let [handler, ..] = action;
    handler
}

/// Changes the disposition of `signal`; returns the old one.
///
/// # Errors
/// `EINVAL` for a number that is not a signal, or one that cannot be handled.
///
/// # Safety
/// * The action's handler, if any, must be sound to run in any thread at any instruction.
unsafe fn set_disposition(signal: i32, action: Disposition) -> Result<Disposition, i32> {
    let new = action.to_c();
    let mut old = Disposition::DEFAULT.to_c();
    // SAFETY: both structures are locals; the handler is sound, by this function's contract.
    if unsafe { real_sigaction()(signal, &new, &mut old) } == 0 {
        Ok(Disposition::from_c(&old))
    } else {
        Err(errno::get())
    }
}

pub(crate) fn real_sigaction() -> SigactionFunction {
    let function = REAL_SIGACTION.load(Ordering::Acquire);
    // SAFETY: `libc::sigaction` and the function of `set_real_sigaction` have this type.
    unsafe { mem::transmute::<*mut (), SigactionFunction>(function) }
}

/// Installs `handler` for `signal`, with `SA_RESTART` and every signal blocked while it runs.
///
/// # Errors
/// `EINVAL` for a number that is not a signal, or one that cannot be handled.
pub(crate) fn install(signal: i32, handler: Handler, stack: HandlerStack) -> Result<(), i32> {
    let on_stack = if stack == HandlerStack::Alternate { libc::SA_ONSTACK } else { 0 };
    let action = Disposition {
        handler: handler as *const () as usize,
        flags: libc::SA_SIGINFO | libc::SA_RESTART | on_stack,
        mask: u64::MAX,
    };
    // SAFETY: this crate's handlers are sound to run in any thread at any instruction.
    unsafe { set_disposition(signal, action) }.map(|_| ())
}

/// Ignores `signal`, also after execve(2). By system call, which uses less stack than libc.
pub(crate) fn ignore(signal: i32) {
    // The kernel's structure begins with the handler on every machine.
    let action: [usize; 6] = [Disposition::IGNORED, 0, 0, 0, 0, 0];
    let arguments = [signal as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the structure is a local, longer than the kernel's, and names no handler.
    unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerStack {
    Interrupted,
    /// The alternate stack, if there is one: threads of Go programs have little other stack.
    Alternate,
}

/// Runs `action`'s handler for a signal delivered to the profiler, under its mask; the profiler's
/// handler restores the mask on return. Not inlined: the signal sets would use stack in each tick.
///
/// # Safety
/// * `action.is_handler()`, and the application registered the action for `signal`.
/// * The pointers are those that the kernel passed to the profiler's handler for this delivery.
#[inline(never)]
pub(crate) unsafe fn run_app_handler(
    action: Disposition,
    signal: i32,
    info: *mut SignalInfo,
    context: *mut Context,
) {
    // SAFETY: the kernel's context is valid while the handler runs.
    let interrupted = unsafe { &*context.cast::<libc::ucontext_t>() };
    let own = if action.flags & libc::SA_NODEFER == 0 { 1 << (signal - 1) } else { 0 };
    set_mask(mask_bits(&interrupted.uc_sigmask) | action.mask | own);
    if action.flags & libc::SA_SIGINFO != 0 {
        // SAFETY: with SA_SIGINFO the registered address is a function of this type.
        let handler = unsafe { mem::transmute::<usize, Handler>(action.handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without SA_SIGINFO the registered address is a function of this type.
        let handler = unsafe { mem::transmute::<usize, extern "C" fn(libc::c_int)>(action.handler) };
        handler(signal);
    }
}

/// Performs the default action of `signal`. Not inlined, as [`run_app_handler`].
///
/// # Safety
/// * The application requested the default action, which for most signals kills the process.
#[inline(never)]
pub(crate) unsafe fn run_default_action(signal: i32) {
    // SAFETY: SIG_DFL is not a handler.
    let _ = unsafe { set_disposition(signal, Disposition::DEFAULT) };
    // SAFETY: `raise` is listed in `signal-safety(7)`.
    unsafe { libc::raise(signal) };
    let set = mask_set(1 << (signal - 1));
    // SAFETY: the set is a local; a null old set is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_to_c_and_back() {
        let action = Disposition { handler: 0x1234, flags: libc::SA_RESTART, mask: 1 << 40 | 5 };
        assert_eq!(Disposition::from_c(&action.to_c()), action);
    }
}
