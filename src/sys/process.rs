//! The process: its id, its privileges, fork hooks.
//!
//! # Safety
//! Calls of `getauxval` and `pthread_atfork`, which take no pointer to memory of ours.
#![allow(unsafe_code)]

/// The process id.
///
/// Signal-safe: `getpid` is on the list of `signal-safety(7)`.
pub(crate) fn id() -> u32 {
    std::process::id()
}

/// True when the program runs with more rights than who started it (`AT_SECURE`, or real and effective ids that
/// differ): its environment is then not to be trusted.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: no precondition.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) };
    secure != 0
        || nix::unistd::getuid() != nix::unistd::geteuid()
        || nix::unistd::getgid() != nix::unistd::getegid()
}

/// Bytes of address space that the process may use (RLIMIT_AS), or None for no limit.
pub(crate) fn address_space_limit() -> Option<usize> {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_AS).ok()?;
    usize::try_from(soft).ok().filter(|_| soft != libc::RLIM_INFINITY)
}

/// Registers functions to run before a fork, and after it in the parent and in the child (`pthread_atfork(3)`).
///
/// # Errors
/// The error number, which is `ENOMEM`.
pub(crate) fn at_fork(
    prepare: Option<unsafe extern "C" fn()>,
    parent: Option<unsafe extern "C" fn()>,
    child: Option<unsafe extern "C" fn()>,
) -> Result<(), i32> {
    // SAFETY: the three functions live as long as the program text; none takes an argument.
    match unsafe { libc::pthread_atfork(prepare, parent, child) } {
        0 => Ok(()),
        error => Err(error),
    }
}
