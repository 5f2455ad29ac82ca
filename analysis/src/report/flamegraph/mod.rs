//! Flame graphs as SVG: a box for each function of a call stack, as wide as its share of the profile.
//!
//! | file | what it does |
//! | --- | --- |
//! | `stacks` | call stacks with common callers held once, and what each has |
//! | `svg` | the picture: its boxes, title and style |
//! | `script.js` | zooms, searches, and writes as much of names as there is room for |

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

/// What a flame graph shows, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is written above it; None for the recorded command, or else the program's name.
    pub title: Option<String>,
    /// Its width in pixels, one of [`WIDTHS`]; None for that of the window that shows it.
    pub width: Option<usize>,
    /// Callers below the functions that they call, as flames, not above.
    pub is_upward: bool,
    /// The names of threads as the outermost frames.
    pub by_thread: bool,
    /// The place of the values to show in [`Profile::sample_types`]; None for the profile's own choice.
    pub sample_type: Option<usize>,
}

/// Widths of pictures, in pixels: wide enough for a number of three digits and a space, and no wider than a wall.
pub const WIDTHS: std::ops::RangeInclusive<usize> = 200..=100_000;

/// Writes the flame graph of a profile as SVG.
///
/// # Errors
/// Those of `out`; and, as [`io::ErrorKind::InvalidInput`] around an [`Error`], those of [`render`].
pub fn write(profile: &Profile, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let svg = render(profile, options).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    out.write_all(&svg)
}

/// The flame graph of a profile as SVG. Of a [comparison](crate::profile::compare), functions that take more than in the base,
/// with what they call, are red, and those that take less are blue; the deeper the colour, the larger the difference beside the
/// larger value. If a difference is within noise, the function is grey.
///
/// # Errors
/// If there is nothing to draw, a value is negative, or the options ask for what the profile does not have.
pub fn render(profile: &Profile, options: &Options) -> Result<Vec<u8>, Error> {
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
