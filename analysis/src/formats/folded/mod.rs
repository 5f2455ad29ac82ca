//! Folded stacks, the format of flame graph tools: lines `outermost;...;innermost VALUE`.

mod read;
mod write;

pub(super) use read::may_be_folded;
pub use read::read;
pub use write::write;
