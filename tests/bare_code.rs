//! Call chains through machine code without call frame information, as other runtimes have.
//!
//! # Safety
//! Makes the kernel return from a handler by instructions of this file, like the C library's.
#![cfg(all(feature = "runtime", target_arch = "x86_64"))]
#![allow(unsafe_code)]

mod support;

use std::arch::global_asm;
use std::hint::black_box;
use std::ptr;

use support::{
    count_under, in_own_process,
    signals::{quiet_builder, raise_tick, set_profiling_timer},
};

// Without `.cfi_*` nothing describes these instructions, nor the bytes before the first ones.
// Before the second ones a function ends that has two words on its stack.
global_asm!(
    ".text",
    ".globl bare_signal_return",
    ".skip 16, 0xcc",
    "bare_signal_return:",
    "mov eax, {number}",
    "syscall",
    ".skip 16, 0xcc",
    "ends_before_signal_return:",
    ".cfi_startproc",
    "sub rsp, 16",
    ".cfi_def_cfa_offset 24",
    "2: pause",
    "jmp 2b",
    ".cfi_endproc",
    ".globl adjacent_signal_return",
    "adjacent_signal_return:",
    "mov eax, {number}",
    "syscall",
    ".skip 16, 0xcc",
    number = const libc::SYS_rt_sigreturn,
);

unsafe extern "C" {
    fn bare_signal_return();
    fn adjacent_signal_return();
}

/// The kernel's `struct sigaction` on x86-64 (sigaction(2), "C library/kernel differences").
#[repr(C)]
struct KernelAction {
    handler: extern "C" fn(libc::c_int),
    flags: libc::c_ulong,
    restorer: unsafe extern "C" fn(),
    mask: u64,
}

extern "C" fn ticks_in_handler(_: libc::c_int) {
    raise_tick();
    black_box(());
}

#[inline(never)]
fn is_interrupted() {
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGUSR1).unwrap();
    black_box(());
}

#[test]
fn walks_through_a_signal_trampoline_without_tables() {
    in_own_process("walks_through_a_signal_trampoline_without_tables", || {
        expect_complete_chains_through(bare_signal_return);
    });
}

/// Return addresses are looked up one byte lower, inside the call. No call precedes a trampoline:
/// the byte before it belongs to another function, with other call frame information.
#[test]
fn distinguishes_a_signal_trampoline_from_the_function_before_it() {
    in_own_process("distinguishes_a_signal_trampoline_from_the_function_before_it", || {
        expect_complete_chains_through(adjacent_signal_return);
    });
}

#[track_caller]
fn expect_complete_chains_through(trampoline: unsafe extern "C" fn()) {
    const SA_RESTORER: libc::c_ulong = 0x0400_0000;
    let action =
        KernelAction { handler: ticks_in_handler, flags: SA_RESTORER, restorer: trampoline, mask: 0 };
    // SAFETY: `action` is an initialised local; the kernel's mask has 8 bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            libc::SIGUSR1,
            &raw const action,
            ptr::null_mut::<KernelAction>(),
            8usize,
        )
    };
    assert_eq!(result, 0);
    let profiler = quiet_builder().start_in_memory().unwrap();
    // No timer tick disturbs the count.
    set_profiling_timer(0);
    for _ in 0..10 {
        is_interrupted();
    }
    let profile = profiler.stop().unwrap();
    let summary = profile.summary();
    assert_eq!((summary.samples, summary.walks.complete), (10, 10), "{summary:?}");
    assert_eq!(count_under(profile.samples(), &["raise_tick", "ticks_in_handler", "is_interrupted"]), 10);
    // A trampoline counts as code with a rule.
    assert_eq!(summary.frames_without_rule, 0, "{summary:?}");
}
