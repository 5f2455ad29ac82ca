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

/// Registers functions to run before a fork, and after it in the parent and in the child (`pthread_atfork(3)`).
///
/// # Errors
/// The error number, which is `ENOMEM`.
pub(crate) fn at_fork(
    prepare: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> Result<(), i32> {
    // SAFETY: the three functions live as long as the program text; none takes an argument.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        error => Err(error),
    }
}
