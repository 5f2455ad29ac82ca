//! Writer of speedscope.app's JSON: a profile of the type `sampled` for each thread.

use super::{ensure_no_negative, frames::LocationFrames};
use crate::{
    error::Error,
    profile::{Profile, Threads},
};
use std::io::{self, Write};

/// Writes the values of the sample type `value` as weights.
///
/// # Errors
/// If a value is negative; those of `out`.
pub fn write(profile: &Profile, value: usize, name: &str, out: impl Write) -> Result<(), Error> {
    ensure_no_negative(profile, value, "speedscope's format")?;
    put(profile, value, name, out).map_err(Error::output)
}

fn put(profile: &Profile, value: usize, name: &str, mut out: impl Write) -> io::Result<()> {
    let frames = LocationFrames::of(profile);
    write!(out, r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"sigprof "#)?;
    write!(out, r#"{}","name":{},"activeProfileIndex":0,"#, env!("CARGO_PKG_VERSION"), text(name))?;
    write!(out, r#""shared":{{"frames":["#)?;
    for (place, frame) in frames.frames.iter().enumerate() {
        comma(&mut out, place)?;
        write!(out, r#"{{"name":{}"#, text(&frame.name))?;
        if !frame.file.is_empty() {
            write!(out, r#","file":{}"#, text(&frame.file))?;
        }
        if frame.start_line > 0 {
            write!(out, r#","line":{}"#, frame.start_line)?;
        }
        write!(out, "}}")?;
    }
    write!(out, r#"]}},"profiles":["#)?;
    let threads = Threads::of(profile);
    let titles = threads.iter().map(|(_, title)| title.unwrap_or_else(|| "all threads".into()));
    let mut profiles: Vec<(String, Vec<usize>)> = titles.zip(threads.samples(profile)).collect();
    if profiles.is_empty() {
        profiles.push(("all threads".into(), Vec::new()));
    }
    for (place, (title, samples)) in profiles.iter().enumerate() {
        comma(&mut out, place)?;
        let weight = |&place: &usize| profile.samples.get(place).values[value];
        let sum = samples.iter().map(weight).fold(0, i64::saturating_add);
        write!(out, r#"{{"type":"sampled","name":{},"unit":"{}","#, text(title), unit(profile, value))?;
        write!(out, r#""startValue":0,"endValue":{sum},"samples":["#)?;
        for (place, &sample) in samples.iter().enumerate() {
            comma(&mut out, place)?;
            write!(out, "[")?;
            for (depth, place) in frames.chain(profile.samples.get(sample).chain).rev().enumerate() {
                comma(&mut out, depth)?;
                write!(out, "{}", place.frame)?;
            }
            write!(out, "]")?;
        }
        write!(out, r#"],"weights":["#)?;
        for (place, weight) in samples.iter().map(weight).enumerate() {
            comma(&mut out, place)?;
            write!(out, "{weight}")?;
        }
        write!(out, "]}}")?;
    }
    writeln!(out, "]}}")?;
    out.flush()
}

/// Returns the unit, if the schema supports it, otherwise `none`.
fn unit(profile: &Profile, value: usize) -> &str {
    let unit = &*profile.sample_types[value].unit;
    let known = ["nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"];
    known.into_iter().find(|&known| known == unit).unwrap_or("none")
}

fn comma(out: &mut impl Write, place: usize) -> io::Result<()> {
    if place > 0 { out.write_all(b",") } else { Ok(()) }
}

fn text(text: &str) -> serde_json::Value {
    text.into()
}
