//! Names of real objects: made by gcc, g++ and rustc, and taken apart as distributions do (Debian: gcc, g++, binutils, xz-utils, debuginfod).

mod debug_information;
mod debuginfod;
mod names;
mod objects;
pub(crate) mod support;
