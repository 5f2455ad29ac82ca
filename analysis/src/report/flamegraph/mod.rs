//! Flame graphs as SVG: a box for each function of a call stack, as wide as its share.
//!
//! | file | purpose |
//! | --- | --- |
//! | `stacks` | prefix tree of call stacks, with values |
//! | `svg` | the picture: boxes, title and style |
//! | `script.js` | zoom, search, and shortening of names |

mod stacks;
mod svg;

use super::title;
use crate::{
    error::{Error, ErrorKind},
    profile::Profile,
};
use stacks::Stacks;
use std::io::{self, Write};
use svg::Picture;

/// Contents and layout of a flame graph.
#[derive(Clone, Debug, Default)]
pub struct FlamegraphOptions {
    /// Title; None for the recorded command, or the program's name.
    pub title: Option<String>,
    /// Width in pixels, one of [`WIDTHS`]; None for the width of the window.
    pub width: Option<usize>,
    /// Draw callers below their callees instead of above.
    pub is_upward: bool,
    /// Use thread names as outermost frames.
    pub by_thread: bool,
    /// Index of the values in [`Profile::sample_types`]; None for the default type.
    pub sample_type: Option<usize>,
}

/// Supported widths in pixels; the minimum leaves room for a few characters.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 200..=100_000;

/// Writes the flame graph of a profile as SVG.
///
/// # Errors
/// Those of `out`; and those of [`render`], as [`io::ErrorKind::InvalidInput`] around an [`Error`].
pub fn write(profile: &Profile, options: &FlamegraphOptions, out: &mut impl Write) -> io::Result<()> {
    let svg = render(profile, options).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    out.write_all(&svg)
}

/// Renders a flame graph as SVG. In a [comparison](crate::profile::compare), functions with an
/// increase (including callees) are red, those with a decrease blue; the colour is deeper the
/// larger the difference is relative to the larger value. Changes within noise are grey.
///
/// # Errors
/// If there is nothing to draw, a value is negative, or an option does not fit the profile.
pub fn render(profile: &Profile, options: &FlamegraphOptions) -> Result<Vec<u8>, Error> {
    let sample_type = options.sample_type.unwrap_or(profile.default_type);
    let kind = profile.sample_types.get(sample_type).ok_or_else(|| {
        let reason = format!(
            "the number of the sample type is {sample_type}, but there are {}",
            profile.sample_types.len()
        );
        Error::new(ErrorKind::Request, reason)
    })?;
    if options.width.is_some_and(|width| !WIDTHS.contains(&width)) {
        let reason = format!("the width must be between {} and {} pixels", WIDTHS.start(), WIDTHS.end());
        return Err(Error::new(ErrorKind::Request, reason));
    }
    let stacks = Stacks::of(profile, sample_type, options.by_thread);
    if options.by_thread && !stacks.has_threads {
        return Err(Error::new(ErrorKind::Request, "samples have no threads").advise(
            "profiles of `sigprof record`, and of the library with `CPUPROFILE_THREADS=1` or `.by_thread()`, have them",
        ));
    }
    if stacks.has_negative {
        let reason =
            format!("some values of {} are negative, and no box is narrower than nothing", kind.kind);
        return Err(Error::new(ErrorKind::Request, reason)
            .advise("to compare two profiles use `sigprof flamegraph --diff-base OLD NEW`"));
    }
    if stacks.is_empty() {
        return Err(Error::new(ErrorKind::Request, format!("all values of {} are 0", kind.kind)));
    }
    let title = options.title.clone().unwrap_or_else(|| title::of(profile, "Flame graph"));
    Ok(Picture::of(stacks, kind, options).draw(&title).into_bytes())
}
