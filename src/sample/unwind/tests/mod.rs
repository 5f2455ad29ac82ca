//! Walks over stacks that a test has made: valid ones with known chains, and garbage.

mod garbage;
mod made_stack;
mod random;
// The made program calls as x86-64 does.
#[cfg(target_arch = "x86_64")]
mod synthetic;
