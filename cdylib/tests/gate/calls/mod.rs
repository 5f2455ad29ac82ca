//! Code that the library's instructions can reach.
//!
//! `object` reads the file, `iced-x86` decodes it, `addr2line` names inlined functions. Output of
//! `objdump` would have to be parsed for operands, registers and stack pointer changes, and its
//! format is not an interface.

mod body;
mod code;
mod image;
mod kinds;
pub(crate) mod listed;
mod names;
mod reach;
mod stack;
pub(crate) mod system_calls;

pub(crate) use body::Target;
pub(crate) use image::Image;
pub(crate) use names::Names;
pub(crate) use reach::{Place, Program, Reached};
