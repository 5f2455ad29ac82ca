//! Names of real objects: made by gcc, g++ and rustc, and taken apart as distributions do (Debian: gcc, g++, binutils, xz-utils).

mod debug_information;
mod names;
mod objects;
pub(crate) mod support;
