//! Tests that measure CPU time and shares of samples. `ci/full.sh` runs them, one after the other; `cargo test`
//! runs them only if it is given `--test full`.
//!
//! Their bounds are statistical or depend on the kernel's tick, so they belong to no gate. What they show of the crate's
//! behaviour has a test beside this folder that holds on any machine.
#![cfg(feature = "runtime")]

#[path = "../support/mod.rs"]
mod support;

mod chains;
mod clocks;
mod report;
mod summary;
