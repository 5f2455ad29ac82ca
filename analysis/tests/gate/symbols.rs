//! Names in objects made by gcc, g++ and rustc, stripped and split as in distributions (Debian:
//! gcc, g++, binutils, xz-utils, debuginfod).

mod debug_information;
mod debuginfod;
mod names;
mod objects;
pub(crate) mod support;
