//! The pictures: flame graphs as SVG, read back; and the page, in Debian's Chromium (package `chromium`), by real clicks.
//!
//! Screenshots are left in the directory for tests' files below `target/`, for people to look at.

#[path = "pictures/browser.rs"]
mod browser;
#[path = "pictures/fixture.rs"]
mod fixture;
#[path = "pictures/page.rs"]
mod page;
#[path = "../../tests/support/skip.rs"]
mod skip;
#[path = "pictures/svg.rs"]
mod svg;
