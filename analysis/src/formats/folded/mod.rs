//! Folded stacks: a line for each call stack, with semicolons between its frames, the outermost first, and a value at the end.
//! The format of flame graph tools.

mod read;
mod write;

pub(super) use read::may_be_folded;
pub use read::read;
pub use write::write;
