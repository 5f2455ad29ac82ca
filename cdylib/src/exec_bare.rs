//! Replacements of libc's `exec` functions in a static program, which has no next definitions. They
//! make the system calls that `exec(3)` specifies, and do not allocate.
//!
//! # Safety
//! Passes the caller's pointers to the kernel; reads null-terminated strings and arrays.
#![allow(unsafe_code)]

use crate::exec::Strings;
use core::{
    ffi::{CStr, c_char, c_int},
    ptr,
};

/// The search path without `PATH` (`exec(3)`).
const DEFAULT_PATH: &CStr = c"/bin:/usr/bin";
const SHELL: &CStr = c"/bin/sh";
const NAME_BYTES: usize = 255;
const PATH_BYTES: usize = 4096;
/// Maximum arguments of a script without an interpreter line.
const SCRIPT_ARGUMENTS: usize = 512;

/// # Safety
/// * As for `execve(2)`.
pub(crate) unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the pointers are as for `execve(2)`, guaranteed by the caller.
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
    // SAFETY: the pointers are as for `execveat(2)`, guaranteed by the caller.
    unsafe { libc::syscall(libc::SYS_execveat, directory, path, arguments, environment, flags) as c_int }
}

/// # Safety
/// * As for `fexecve(3)`.
pub(crate) unsafe extern "C" fn fexecve(
    descriptor: c_int,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the pointers are as for `fexecve(3)`, guaranteed by the caller.
    unsafe { execveat(descriptor, c"".as_ptr(), arguments, environment, libc::AT_EMPTY_PATH) }
}

/// # Safety
/// * As for `execv(3)`.
pub(crate) unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: reads libc's variable, as libc's function does.
    let environment = unsafe { libc::environ }.cast_const().cast();
    // SAFETY: the pointers are as for `execv(3)`, guaranteed by the caller.
    unsafe { execve(path, arguments, environment) }
}

/// # Safety
/// * As for `execvp(3)`.
pub(crate) unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: as in `execv`.
    let environment = unsafe { libc::environ }.cast_const().cast();
    // SAFETY: the pointers are as for `execvp(3)`, guaranteed by the caller.
    unsafe { execvpe(file, arguments, environment) }
}

/// # Safety
/// * As for `execvpe(3)`.
pub(crate) unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: `file` is a C string, guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(file) }.to_bytes();
    if name.contains(&b'/') {
        // SAFETY: the pointers are as for `execvpe(3)`, guaranteed by the caller.
        return unsafe { program_or_script(file, arguments, environment) };
    }
    if name.is_empty() || name.len() > NAME_BYTES {
        return fail(if name.is_empty() { libc::ENOENT } else { libc::ENAMETOOLONG });
    }
    // SAFETY: the name is NUL-terminated.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
    // SAFETY: `getenv` returned a C string.
    let path = if path.is_null() { DEFAULT_PATH } else { unsafe { CStr::from_ptr(path) } };
    let mut is_forbidden = false;
    for directory in path.to_bytes().split(|&byte| byte == b':') {
        let mut candidate = [0u8; PATH_BYTES + NAME_BYTES + 2];
        let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        // The last byte stays zero.
        let Some(room) = candidate.get_mut(..directory.len() + slash.len() + name.len()) else { continue };
        room.iter_mut().zip(directory.iter().chain(slash).chain(name)).for_each(|(to, from)| *to = *from);
        // SAFETY: the candidate is a NUL-terminated local; the caller guarantees the rest.
        unsafe { program_or_script(candidate.as_ptr().cast(), arguments, environment) };
        match errno() {
            libc::EACCES => is_forbidden = true,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
            _ => return -1,
        }
    }
    // EACCES explains more than ENOENT.
    if is_forbidden { fail(libc::EACCES) } else { -1 }
}

/// Executes the program; a file without a known interpreter is run by the shell.
///
/// # Safety
/// * As for `execve(2)`.
unsafe fn program_or_script(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the pointers are as for `execve(2)`, guaranteed by the caller.
    let result = unsafe { execve(path, arguments, environment) };
    if errno() != libc::ENOEXEC {
        return result;
    }
    let mut script = [ptr::null::<c_char>(); SCRIPT_ARGUMENTS + 3];
    let mut next = arguments;
    // SAFETY: the array is null-terminated, guaranteed by the caller.
    if !unsafe { *next }.is_null() {
        // SAFETY: not the array's end yet. The script's name replaces the first argument.
        next = unsafe { next.add(1) };
    }
    for (i, place) in script.iter_mut().enumerate() {
        *place = match i {
            0 => SHELL.as_ptr(),
            1 => path,
            _ => {
                // SAFETY: `next` is not after the null pointer.
                let argument = unsafe { *next };
                if argument.is_null() {
                    break;
                }
                // SAFETY: not the array's end yet.
                next = unsafe { next.add(1) };
                argument
            }
        };
    }
    if script.last().is_some_and(|last| !last.is_null()) {
        return fail(libc::E2BIG);
    }
    // SAFETY: `script` is null-terminated; the environment is the caller's.
    unsafe { execve(SHELL.as_ptr(), script.as_ptr(), environment) }
}

fn errno() -> c_int {
    // SAFETY: the function has no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: `errno` is a variable of this thread.
    unsafe { *errno }
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the function has no precondition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: `errno` is a variable of this thread.
    unsafe { *errno = error };
    -1
}
