//! Tests that measure, or that take minutes: CPU time, shares, rates, many threads, storms. `ci/full.sh` runs them, one
//! after the other; `cargo test` runs them only if it is given `--test full`.
//!
//! Their bounds are statistical (the rule is in `chance.rs`) or depend on the kernel's tick, so they belong to no gate. What they show of the
//! library's behaviour has a test beside this folder that holds on any machine.

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
