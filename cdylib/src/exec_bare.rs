//! What stands in for libc's `exec` functions in a static program, where ours took their names: there is no next
//! definition to call. They do what `exec(3)` says, by system calls, and allocate nothing.
//!
//! # Safety
//! Hands the caller's pointers to the kernel, and reads strings of the caller's and of the environment to their ends.
#![allow(unsafe_code)]

use crate::exec::Strings;
use core::{
    ffi::{CStr, c_char, c_int},
    ptr,
};

/// Where programs are looked for when the environment does not say (`exec(3)`).
const DEFAULT_PATH: &CStr = c"/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";
/// Longest name of a file, and of a directory.
const NAME_BYTES: usize = 255;
const PATH_BYTES: usize = 4096;
/// Arguments that a script can have which says nothing of its interpreter; with more it is not run.
const SCRIPT_ARGUMENTS: usize = 512;

/// # Safety
/// * As for `execve(2)`.
pub(crate) unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { libc::syscall(libc::SYS_execve, path, arguments, environment) as c_int }
}

/// # Safety
/// * As for `execveat(2)`.
pub(crate) unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { libc::syscall(libc::SYS_execveat, directory, path, arguments, environment, flags) as c_int }
}

/// # Safety
/// * As for `fexecve(3)`.
pub(crate) unsafe extern "C" fn fexecve(
    descriptor: c_int,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { execveat(descriptor, c"".as_ptr(), arguments, environment, libc::AT_EMPTY_PATH) }
}

/// # Safety
/// * As for `execv(3)`.
pub(crate) unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: a plain read of libc's variable, as libc's own function does.
    let environment = unsafe { libc::environ }.cast_const().cast();
    // SAFETY: the caller's word.
    unsafe { execve(path, arguments, environment) }
}

/// # Safety
/// * As for `execvp(3)`.
pub(crate) unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: as in `execv`.
    let environment = unsafe { libc::environ }.cast_const().cast();
    // SAFETY: the caller's word.
    unsafe { execvpe(file, arguments, environment) }
}

/// # Safety
/// * As for `execvpe(3)`.
pub(crate) unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's word.
    let name = unsafe { CStr::from_ptr(file) }.to_bytes();
    if name.contains(&b'/') {
        // SAFETY: the caller's word.
        return unsafe { program_or_script(file, arguments, environment) };
    }
    if name.is_empty() || name.len() > NAME_BYTES {
        return fail(if name.is_empty() { libc::ENOENT } else { libc::ENAMETOOLONG });
    }
    // SAFETY: the name is NUL-terminated.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
    // SAFETY: the environment's strings are NUL-terminated.
    let path = if path.is_null() { DEFAULT_PATH } else { unsafe { CStr::from_ptr(path) } };
    let mut is_forbidden = false;
    for directory in path.to_bytes().split(|&byte| byte == b':') {
        let mut candidate = [0u8; PATH_BYTES + NAME_BYTES + 2];
        let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        // The last byte stays zero.
        let Some(room) = candidate.get_mut(..directory.len() + slash.len() + name.len()) else { continue };
        room.iter_mut().zip(directory.iter().chain(slash).chain(name)).for_each(|(to, from)| *to = *from);
        // SAFETY: the candidate is a local, and ends in a zero; the rest is the caller's word.
        unsafe { program_or_script(candidate.as_ptr().cast(), arguments, environment) };
        match errno() {
            libc::EACCES => is_forbidden = true,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
            _ => return -1,
        }
    }
    // A program that may not be run tells more than that others do not exist.
    if is_forbidden { fail(libc::EACCES) } else { -1 }
}

/// Replaces the program; a file that no interpreter is known for is given to the shell.
///
/// # Safety
/// * As for `execve(2)`.
unsafe fn program_or_script(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the caller's word.
    let result = unsafe { execve(path, arguments, environment) };
    if errno() != libc::ENOEXEC {
        return result;
    }
    let mut script = [ptr::null::<c_char>(); SCRIPT_ARGUMENTS + 3];
    let mut next = arguments;
    // SAFETY: the caller's word: the array ends in a null pointer.
    if !unsafe { *next }.is_null() {
        // The script's own name takes the first one's place.
        // SAFETY: not yet its end.
        next = unsafe { next.add(1) };
    }
    for (i, place) in script.iter_mut().enumerate() {
        *place = match i {
            0 => SHELL.as_ptr(),
            1 => path,
            _ => {
                // SAFETY: `next` does not move beyond the null pointer.
                let argument = unsafe { *next };
                if argument.is_null() {
                    break;
                }
                // SAFETY: not yet its end.
                next = unsafe { next.add(1) };
                argument
            }
        };
    }
    if script.last().is_some_and(|last| !last.is_null()) {
        return fail(libc::E2BIG);
    }
    // SAFETY: an array of strings that ends in a null pointer; the environment is the caller's.
    unsafe { execve(SHELL.as_ptr(), script.as_ptr(), environment) }
}

fn errno() -> c_int {
    // SAFETY: no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's own.
    unsafe { *errno }
}

fn fail(error: c_int) -> c_int {
    // SAFETY: no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's own.
    unsafe { *errno = error };
    -1
}
