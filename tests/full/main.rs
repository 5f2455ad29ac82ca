//! Tests that measure CPU time and shares of samples: `cargo test --test full`, `ci/full.sh`. Their
//! bounds are statistical or depend on the kernel's tick, so they are not in the gate. Tests
//! outside this folder show the same behaviour on any machine.
#![cfg(feature = "runtime")]

#[path = "../support/mod.rs"]
mod support;

mod chains;
mod clocks;
mod report;
mod summary;
