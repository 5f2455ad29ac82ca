//! Writer of folded stacks.

use crate::formats::{ensure_no_negative, frames::LocationFrames};
use crate::{error::Error, profile::Profile};
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// Writes the values of the sample type `value`; stacks with equal names are one line, in the order
/// of the text. A semicolon in a name becomes a colon, a line break a space.
///
/// # Errors
/// If a value is negative; those of `out`.
pub fn write(profile: &Profile, value: usize, out: impl Write) -> Result<(), Error> {
    ensure_no_negative(profile, value, "the folded format")?;
    put(profile, value, out).map_err(Error::output)
}

fn put(profile: &Profile, value: usize, mut out: impl Write) -> io::Result<()> {
    let frames = LocationFrames::of(profile);
    let names: Vec<String> = frames.frames.iter().map(|frame| clean(&frame.name)).collect();
    // Functions of the same name are combined, numbered in the order of their names.
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let rank = |name: &String| sorted.binary_search(&name).expect("it is one of them") as u32;
    let ranks: Vec<u32> = names.iter().map(rank).collect();
    let mut sums: HashMap<Vec<u32>, i64, RandomState> = HashMap::default();
    for sample in profile.samples.iter() {
        let chain: Vec<u32> = frames.chain(sample.chain).rev().map(|place| ranks[place.frame]).collect();
        let sum = sums.entry(chain).or_insert(0);
        *sum = sum.saturating_add(sample.values[value]);
    }
    let mut lines: Vec<(Vec<u32>, i64)> = sums.into_iter().filter(|&(_, sum)| sum != 0).collect();
    lines.sort_unstable();
    for (chain, sum) in lines {
        for (depth, &frame) in chain.iter().enumerate() {
            if depth > 0 {
                out.write_all(b";")?;
            }
            out.write_all(sorted[frame as usize].as_bytes())?;
        }
        if chain.is_empty() {
            out.write_all(b"[no stack]")?;
        }
        writeln!(out, " {sum}")?;
    }
    out.flush()
}

fn clean(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}
