//! Tests that measure, or that take minutes: CPU time, shares, rates, many threads, storms.
//! `ci/full.sh` runs them one after another; `cargo test` runs them only with `--test full`.
//!
//! Their bounds are statistical (see `chance.rs`) or depend on the kernel's tick, so they are not
//! in the gate. A test beside this folder checks the same behaviour on any machine.

#[path = "../../../tests/support/chance.rs"]
mod chance;
#[path = "../support/mod.rs"]
mod support;

mod accuracy;
mod app_runtimes;
mod app_timers;
mod exec;
mod filter_thread;
mod prefork;
mod real_programs;
#[cfg(target_arch = "x86_64")]
mod single_step;
mod soak;
mod threads;
mod timer_signal;
mod torture;
#[cfg(target_arch = "x86_64")]
mod unloading;
#[cfg(target_arch = "x86_64")]
mod vdso;
mod wall;
