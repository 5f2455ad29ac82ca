//! What becomes of a signal: its disposition, ours and the host's.
//!
//! # Safety
//! Calls of `sigaction` with borrowed structures, and calls of handlers that the host registered for just that.
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

/// The C library's own `sigaction`. The shared library interposes the name, and stores here what is behind it before our
/// handler is installed, which therefore never comes to the name itself.
static REAL_SIGACTION: AtomicPtr<()> = AtomicPtr::new(libc::sigaction as *mut ());

/// Tells which function is the C library's own `sigaction`; for the shared library, which interposes the name.
pub(crate) fn set_real_sigaction(function: SigactionFunction) {
    REAL_SIGACTION.store(function as *mut (), Ordering::Release);
}

/// A signal's disposition, as the kernel keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disposition {
    /// The handler's address, or `SIG_DFL`, or `SIG_IGN`.
    pub(crate) handler: usize,
    /// `SA_*` flags.
    pub(crate) flags: i32,
    /// Signals blocked while the handler runs: bit n - 1 for signal n.
    pub(crate) mask: u64,
}

impl Disposition {
    /// The disposition of a signal that nobody touched.
    pub(crate) const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, mask: 0 };

    /// The handler that ignores a signal.
    pub(crate) const IGNORED: usize = libc::SIG_IGN;

    /// Neither default nor ignored.
    pub(crate) fn is_handler(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// True when the handler is to run once only.
    pub(crate) fn is_one_shot(&self) -> bool {
        self.flags & libc::SA_RESETHAND != 0
    }

    pub(crate) fn from_c(action: &libc::sigaction) -> Self {
        Self { handler: action.sa_sigaction, flags: action.sa_flags, mask: mask_bits(&action.sa_mask) }
    }

    /// What the kernel makes of it: these two signals are never blocked.
    pub(crate) fn without_unblockable(self) -> Self {
        Self { mask: self.mask & !(1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1)), ..self }
    }

    pub(crate) fn to_c(self) -> libc::sigaction {
        // SAFETY: all fields are integers or an optional function pointer, for which zero is a value.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        action.sa_mask = mask_set(self.mask);
        action
    }
}

/// The present disposition of `signal`. Signal-safe: `sigaction` is on the list of `signal-safety(7)`.
///
/// # Errors
/// `EINVAL` for a number that is no signal.
pub(crate) fn disposition(signal: i32) -> Result<Disposition, i32> {
    let mut old = Disposition::DEFAULT.to_c();
    // SAFETY: a null new action changes nothing; the old one is written into a local.
    if unsafe { real_sigaction()(signal, ptr::null(), &mut old) } == 0 {
        Ok(Disposition::from_c(&old))
    } else {
        Err(errno::get())
    }
}

/// The handler of `signal` that the kernel calls, or `SIG_DFL`, or `SIG_IGN`, whatever stands between us and the C
/// library's `sigaction`. Signal-safe: one system call.
pub(crate) fn kernel_handler(signal: i32) -> usize {
    // The kernel's structure begins with the handler everywhere, and none of ours is larger (sigaction(2)).
    let mut action = [libc::SIG_DFL; 8];
    let arguments = [signal as usize, 0, action.as_mut_ptr() as usize, size_of::<u64>(), 0, 0];
    // SAFETY: a null new action changes nothing; the old one is written into a local.
    unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
    let [handler, ..] = action;
    handler
}

/// Changes the disposition of `signal`, and gives the one before. Signal-safe, as [`disposition`].
///
/// # Errors
/// `EINVAL` for a number that is no signal, or one that cannot be handled.
///
/// # Safety
/// * The action's handler, if it is one, must be sound to run in any thread at any instruction.
unsafe fn set_disposition(signal: i32, action: Disposition) -> Result<Disposition, i32> {
    let new = action.to_c();
    let mut old = Disposition::DEFAULT.to_c();
    // SAFETY: both structures are locals; the handler is the caller's word.
    if unsafe { real_sigaction()(signal, &new, &mut old) } == 0 {
        Ok(Disposition::from_c(&old))
    } else {
        Err(errno::get())
    }
}

/// The C library's own `sigaction`.
pub(crate) fn real_sigaction() -> SigactionFunction {
    let function = REAL_SIGACTION.load(Ordering::Acquire);
    // SAFETY: `libc::sigaction` has this type, and so has what `set_real_sigaction` stores.
    unsafe { mem::transmute::<*mut (), SigactionFunction>(function) }
}

/// Installs `handler` for `signal`: with every signal blocked while it runs, restarting the system calls that it
/// interrupts, and on the alternate stack if `stack` says so. Signal-safe, as [`disposition`].
///
/// # Errors
/// `EINVAL` for a number that is no signal, or one that cannot be handled.
pub(crate) fn install(signal: i32, handler: Handler, stack: HandlerStack) -> Result<(), i32> {
    let on_stack = if stack == HandlerStack::Alternate { libc::SA_ONSTACK } else { 0 };
    let action = Disposition {
        handler: handler as *const () as usize,
        flags: libc::SA_SIGINFO | libc::SA_RESTART | on_stack,
        mask: u64::MAX,
    };
    // SAFETY: the handlers of this crate keep the contract of signal context.
    unsafe { set_disposition(signal, action) }.map(|_| ())
}

/// Ignores `signal`, as the next program of this process then does. Signal-safe: one system call, which takes less stack than
/// libc's function, for who has little.
pub(crate) fn ignore(signal: i32) {
    // The kernel's structure begins with the handler on every machine; no flag, and no signal in the mask.
    let action: [usize; 6] = [Disposition::IGNORED, 0, 0, 0, 0, 0];
    let arguments = [signal as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the structure is a local, and longer than the kernel's; there is no handler.
    unsafe { system_call(libc::SYS_rt_sigaction, arguments) };
}

/// Where a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerStack {
    /// On the interrupted thread's stack.
    Interrupted,
    /// On the thread's alternate stack, where it has one: threads of Go programs have little else.
    Alternate,
}

/// Runs `action`'s handler for a signal that was delivered to us, under the mask the host asked for.
///
/// The present mask is not put back: the return from our own handler does that. Not inlined: its sets of signals would lie on
/// the stack of each tick.
///
/// # Safety
/// * `action.is_handler()`, and the action was registered by the host for `signal`.
/// * The pointers are those that the kernel gave to our handler for this delivery.
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

/// Lets the default action of `signal` happen now, as if nobody had ever handled it. Not inlined, as above.
///
/// # Safety
/// * The host must have asked for the default action: for most signals it ends the process.
#[inline(never)]
pub(crate) unsafe fn run_default_action(signal: i32) {
    // SAFETY: SIG_DFL is no handler.
    let _ = unsafe { set_disposition(signal, Disposition::DEFAULT) };
    // SAFETY: `raise` is on the list of `signal-safety(7)`.
    unsafe { libc::raise(signal) };
    let set = mask_set(1 << (signal - 1));
    // SAFETY: the set is a local; a null old set is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_survives_the_way_through_c() {
        let action = Disposition { handler: 0x1234, flags: libc::SA_RESTART, mask: 1 << 40 | 5 };
        assert_eq!(Disposition::from_c(&action.to_c()), action);
    }
}
