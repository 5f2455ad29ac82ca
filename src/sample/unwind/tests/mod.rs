//! Walks over stacks that a test has made: right ones, whose chains are known, and garbage.

mod garbage;
mod made_stack;
mod random;
// The made program calls as this machine's do.
#[cfg(target_arch = "x86_64")]
mod synthetic;
