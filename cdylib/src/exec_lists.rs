//! The `exec` functions with a list of arguments: `execl`, `execlp` and `execle`.
//!
//! Stable Rust cannot define variadic functions, so each is assembly that makes an array of the
//! list in the stack and calls a function below:
//! ```text
//! x86-64                              aarch64                            i686
//! | 6th argument...        |          | 8th argument...        |         | 3rd argument...
//! | 2nd to 5th, from rdx.. |          | 2nd to 7th, from x2..  |         | 2nd argument
//! | 1st argument, from rsi | <- array | 1st argument, from x1  | <- array| 1st argument <- array
//! | return address, moved  |          | padding                |         | path
//!                                     | x29, x30               |         | return address
//! ```
//! Arguments on the stack are not copied, and nothing is allocated. A child of `vfork` changes only
//! the stack below its caller's frame. The call frame information is right at each instruction.
//!
//! # Safety
//! The assembly follows the calling convention; the functions read the list up to its null pointer.
#![allow(unsafe_code)]

use crate::exec::{self, Strings};
use core::{
    arch::global_asm,
    ffi::{c_char, c_int},
};

/// The compiler hides assembly symbols: the linker exports only a list of names. This name appears
/// there as these three, and as the one that `build.rs` defines. If a compiler writes the list
/// otherwise, libc's functions are called, and `tests/gate/exports.rs` fails.
#[unsafe(export_name = "execl; execle; execlp; __sigaction")]
pub(crate) static NAMES: u8 = 0;

/// # Safety
/// * As for `execl(3)`, with the list as an array.
unsafe extern "C" fn execl(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the pointers are as for `execv(3)`, guaranteed by the caller.
    unsafe { exec::execv(path, arguments) }
}

/// # Safety
/// * As for `execlp(3)`, with the list as an array.
unsafe extern "C" fn execlp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the pointers are as for `execvp(3)`, guaranteed by the caller.
    unsafe { exec::execvp(file, arguments) }
}

/// # Safety
/// * As for `execle(3)`, with the list as an array; the environment follows its null pointer.
unsafe extern "C" fn execle(path: *const c_char, arguments: Strings) -> c_int {
    let mut end = arguments;
    // SAFETY: the list is null-terminated, guaranteed by the caller.
    while !unsafe { *end }.is_null() {
        // SAFETY: not the list's end yet.
        end = unsafe { end.add(1) };
    }
    // SAFETY: the environment follows the null pointer, guaranteed by the caller.
    let behind = unsafe { end.add(1) }.cast::<Strings>();
    // SAFETY: as above.
    let environment = unsafe { *behind };
    // SAFETY: the pointers are as for `execve(2)`, guaranteed by the caller.
    unsafe { exec::execve(path, arguments, environment) }
}

/// Defines the function `$name`, which calls `$function` with the path and the array.
#[cfg(target_arch = "x86_64")]
macro_rules! define {
    ($name:literal, $function:path) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            ".p2align 4",
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "endbr64",
            "sub rsp, 40",
            ".cfi_def_cfa_offset 48",
            // The fifth argument replaces the return address, below the sixth.
            "mov r10, [rsp + 40]",
            "mov [rsp], r10",
            ".cfi_offset rip, -48",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "lea rsi, [rsp + 8]",
            "call {function}",
            "mov r10, [rsp]",
            "mov [rsp + 40], r10",
            ".cfi_offset rip, -8",
            "add rsp, 40",
            ".cfi_def_cfa_offset 8",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            function = sym $function,
        );
    };
}

/// All arguments are on the stack already.
#[cfg(target_arch = "x86")]
macro_rules! define {
    ($name:literal, $function:path) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            ".p2align 4",
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            "endbr32",
            "sub esp, 28",
            ".cfi_def_cfa_offset 32",
            "mov eax, [esp + 32]",
            "mov [esp], eax",
            "lea eax, [esp + 36]",
            "mov [esp + 4], eax",
            "call {function}",
            "add esp, 28",
            ".cfi_def_cfa_offset 4",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            function = sym $function,
        );
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! define {
    ($name:literal, $function:path) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            ".p2align 2",
            concat!(".globl ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            // `bti c`; a no-op on older processors.
            "hint #34",
            "stp x29, x30, [sp, #-80]!",
            ".cfi_def_cfa_offset 80",
            ".cfi_offset x29, -80",
            ".cfi_offset x30, -72",
            "mov x29, sp",
            "str x1, [sp, #24]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "add x1, sp, #24",
            "bl {function}",
            "ldp x29, x30, [sp], #80",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ret",
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            function = sym $function,
        );
    };
}

define!("execl", execl);
define!("execle", execle);
define!("execlp", execlp);
