//! Flame graphs as SVG, read back; and the page, in Debian's Chromium (package `chromium`), by
//! clicks. Screenshots stay in `CARGO_TARGET_TMPDIR`.

mod browser;
mod comparison;
mod fixture;
mod page;
mod svg;
