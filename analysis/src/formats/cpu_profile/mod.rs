//! The CPU profile format of gperftools.

mod java;
mod read;
mod write;

pub(super) use read::length;
pub use read::read;
pub use write::write;
