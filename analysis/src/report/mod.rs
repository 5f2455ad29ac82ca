//! Profiles as text and pictures. A report takes a profile that has names, and writes; it opens no profile and asks for no
//! options of its own.

mod call_tree;
pub mod flamegraph;
mod frame_name;
pub mod page;
mod quantity;
pub mod raw;
