//! Names of real objects: made by gcc, g++ and rustc, and taken apart as distributions do (Debian: gcc, g++, binutils, xz-utils).

#[path = "symbols/debug_information.rs"]
mod debug_information;
#[path = "symbols/names.rs"]
mod names;
#[path = "symbols/objects.rs"]
mod objects;
#[path = "symbols/support.rs"]
mod support;
