//! The model to lines.

use crate::formats::{ensure_no_negative, frames::Frames};
use crate::{error::Error, profile::Profile};
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    io::{self, Write},
};

/// Writes the values of the sample type `value`; chains of the same names are one line, in the order of the text.
///
/// A semicolon or a line break within a name becomes a colon or a space.
///
/// # Errors
/// Where a value is negative; those of `out`.
pub fn write(profile: &Profile, value: usize, out: impl Write) -> Result<(), Error> {
    ensure_no_negative(profile, value, "the folded format")?;
    put(profile, value, out).map_err(Error::output)
}

fn put(profile: &Profile, value: usize, mut out: impl Write) -> io::Result<()> {
    let frames = Frames::of(profile);
    let names: Vec<String> = frames.frames.iter().map(|frame| clean(&frame.name)).collect();
    let mut sums: HashMap<Vec<u32>, i64, RandomState> = HashMap::default();
    for sample in profile.samples.iter() {
        let chain: Vec<u32> = frames.chain(sample.chain).rev().map(|place| place.frame as u32).collect();
        let sum = sums.entry(chain).or_insert(0);
        *sum = sum.saturating_add(sample.values[value]);
    }
    // Frames in the order of their names, so that chains compare by numbers.
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|&a, &b| names[a].cmp(&names[b]).then(a.cmp(&b)));
    let mut ranks = vec![0; names.len()];
    for (rank, &frame) in order.iter().enumerate() {
        ranks[frame] = rank;
    }
    let mut lines: Vec<(Vec<u32>, i64)> = sums.into_iter().filter(|&(_, sum)| sum != 0).collect();
    let rank = |chain: &[u32]| -> Vec<usize> { chain.iter().map(|&frame| ranks[frame as usize]).collect() };
    lines.sort_by_cached_key(|(chain, _)| rank(chain));
    for (chain, sum) in lines {
        for (depth, &frame) in chain.iter().enumerate() {
            if depth > 0 {
                out.write_all(b";")?;
            }
            out.write_all(names[frame as usize].as_bytes())?;
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
