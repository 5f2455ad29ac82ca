//! Chains through machine code that has no call frame information, as other runtimes bring along.
//!
//! # Safety
//! Has the kernel return from a handler through instructions of this file, which do what the C library's do.
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

// Rust's assembler writes no tables unless it is told to: nothing describes these instructions. Before the first ones there is
// nothing described either; before the second ones a function ends, with two words on its stack.
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

/// The kernel's own `struct sigaction` on x86-64 (`sigaction(2)`, "C library/kernel differences").
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
fn a_signal_trampoline_without_tables_leads_to_what_was_interrupted() {
    in_own_process("a_signal_trampoline_without_tables_leads_to_what_was_interrupted", || {
        expect_whole_chains_through(bare_signal_return);
    });
}

/// A return address is looked up by the call before it, and there is none before a trampoline: what stands there is another
/// function, whose information is not the trampoline's.
#[test]
fn a_signal_trampoline_without_tables_is_not_the_function_before() {
    in_own_process("a_signal_trampoline_without_tables_is_not_the_function_before", || {
        expect_whole_chains_through(adjacent_signal_return);
    });
}

#[track_caller]
fn expect_whole_chains_through(trampoline: unsafe extern "C" fn()) {
    const SA_RESTORER: libc::c_ulong = 0x0400_0000;
    let action =
        KernelAction { handler: ticks_in_handler, flags: SA_RESTORER, restorer: trampoline, mask: 0 };
    // SAFETY: the action is a local and complete; the mask is 8 bytes long, as the kernel's is.
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
    // No tick of our own disturbs the count.
    set_profiling_timer(0);
    for _ in 0..10 {
        is_interrupted();
    }
    let profile = profiler.stop().unwrap();
    let summary = profile.summary();
    assert_eq!((summary.samples, summary.walks.complete), (10, 10), "{summary:?}");
    assert_eq!(count_under(profile.samples(), &["raise_tick", "ticks_in_handler", "is_interrupted"]), 10);
    // It counts as one.
    assert_eq!(summary.frames_without_rule, 0, "{summary:?}");
}
