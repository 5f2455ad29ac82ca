//! The pictures: flame graphs as SVG, read back; and the page, in Debian's Chromium (package `chromium`), by real clicks.
//!
//! Screenshots are left in the directory for tests' files below `target/`, for people to look at.

mod browser;
mod comparison;
mod fixture;
mod page;
mod svg;
