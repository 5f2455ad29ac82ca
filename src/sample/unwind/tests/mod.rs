//! Walks over stacks that a test has made: right ones, whose chains are known, and garbage.

mod garbage;
mod made_stack;
mod random;
mod synthetic;
