//! Tests that measure CPU time: `cargo test --test full`, `ci/full.sh`.
#![allow(dead_code, reason = "parts of a module that other tests use")]

#[path = "../../../tests/support/built.rs"]
mod built;
#[path = "../../../tests/support/chance.rs"]
mod chance;
#[path = "../gate/record/support.rs"]
mod support;

mod processes;
#[path = "../../../tests/support/skip.rs"]
mod skip;
#[path = "../../../tests/support/tier.rs"]
mod tier;
