//! Signals: dispositions, masks, pending signals and their origins.

mod alternate_stack;
mod blocked;
mod context;
mod disposition;
mod name;
mod pending;
mod set;

pub(crate) use alternate_stack::{alternate_stack, is_large_enough};
pub(crate) use blocked::{AllBlocked, disable_cancellation};
pub(crate) use context::{interrupted_registers, last_written};
pub(crate) use disposition::{
    Disposition, HandlerStack, disposition, ignore, install, kernel_handler, real_sigaction, run_app_handler,
    run_default_action, set_real_sigaction,
};
pub(crate) use name::{number, real_time};
pub(crate) use pending::{
    Origin, discard_all_pending, discard_own_pending, discard_pending, interval_timer_info, is_pending,
    is_real_time,
};
pub(crate) use set::contains;

/// C's `struct sigaction`.
pub type CAction = libc::sigaction;

/// C's `stack_t`.
pub type AlternateStack = libc::stack_t;

/// C's `sigset_t`.
pub type SignalSet = libc::sigset_t;

/// The type of `sigaction(2)`.
pub type SigactionFunction =
    unsafe extern "C" fn(libc::c_int, *const libc::sigaction, *mut libc::sigaction) -> libc::c_int;

/// A signal's information, as the kernel passes it to a handler.
pub type SignalInfo = libc::siginfo_t;

/// The `ucontext_t` of the code that a handler interrupted.
pub(crate) type Context = libc::c_void;

/// A handler installed with `SA_SIGINFO`.
pub(crate) type Handler = extern "C" fn(libc::c_int, *mut SignalInfo, *mut Context);
