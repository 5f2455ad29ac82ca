//! gmon.out: the data of programs compiled with `-pg`, for gprof.
//!
//! ```text
//! header     "gmon"  version: i32  12 bytes
//! histogram  0: u8  low, high: address  bins: i32  rate: i32  dimension: 15 bytes  abbreviation: u8
//!            bins * u16
//! arc        1: u8  from, self: address  count: i32
//! blocks     2: u8  blocks: i32  blocks * (address: address  count: address)
//! ```
//!
//! Numbers have the byte order, and addresses the size, of the profiled program. Nothing is aligned.
//! Two older headers have one histogram and then arcs without tags until the end of the file:
//!
//! ```text
//! BSD        low, high: address  size of header and bins: i32
//! 4.4BSD     low, high: address  size of header and bins: i32  0x51879: i32  rate: i32  12 bytes
//! ```
//!
//! Sources: the GNU gprof manual, section 9.2; `gmon_out.h` and `gmon.h` of the GNU C library.

mod read;
mod write;

use crate::error::{Error, ErrorKind};
use std::{fs, path::Path};

const MAGIC: &[u8] = b"gmon";
const VERSION: u32 = 1;
const SPARE_BYTES: usize = 12;
const UNIT_NAME_BYTES: usize = 15;

const HISTOGRAM: u8 = 0;
const ARC: u8 = 1;
const BLOCKS: u8 = 2;

/// Reads the bytes of a file.
///
/// # Errors
/// If the file cannot be read.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| Error::io(path, "read the profile", error))
}

/// Byte order and size of addresses: those of the profiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Numbers begin with their most significant byte.
    pub is_big_endian: bool,
    /// Addresses have 8 bytes, otherwise 4.
    pub is_64_bit: bool,
}

/// Header of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// gmon's if the file begins with `gmon`; otherwise BSD's or 4.4BSD's, by the version.
    #[default]
    Auto,
    /// gmon's own.
    Gmon,
    /// BSD's.
    Bsd,
    /// 4.4BSD's.
    Bsd44,
}

/// Size of a unit of a histogram's range, in bytes.
pub const UNIT: u64 = 2;

/// Samples of an address range, in bins of equal size.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// First address.
    pub low: u64,
    /// End of the range.
    pub high: u64,
    /// Number of samples in each bin.
    pub bins: Vec<u64>,
}

impl Histogram {
    /// Returns the size of a bin in [units](UNIT), which need not be an integer.
    pub fn scale(&self) -> f64 {
        (self.high.saturating_sub(self.low) / UNIT) as f64 / self.bins.len() as f64
    }
}

/// What the samples of a file measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Samples per unit, in Hz for seconds.
    pub rate: u32,
    /// The unit, such as `seconds`.
    pub unit: String,
    /// Its abbreviation, such as `s`.
    pub abbreviation: char,
}

impl Dimension {
    /// CPU time, sampled at a rate in Hz.
    pub fn seconds(rate: u32) -> Self {
        Self { rate, unit: "seconds".into(), abbreviation: 's' }
    }
}

impl Default for Dimension {
    fn default() -> Self {
        Self::seconds(0)
    }
}

/// Calls from an address to a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallArc {
    /// The return address in the caller.
    pub from: u64,
    /// An address in the called function.
    pub callee: u64,
    /// Number of calls.
    pub count: u64,
}

/// Executions of a basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Address of the block.
    pub address: u64,
    /// Number of executions.
    pub count: u64,
}

/// Version and numbers of records of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Version in the header; None for those of BSD.
    pub version: Option<u32>,
    /// Records of histograms.
    pub histograms: u64,
    /// Records of arcs.
    pub arcs: u64,
    /// Records of basic blocks.
    pub blocks: u64,
}

/// The contents of one or several files of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gmon {
    /// Histograms of different ranges.
    pub histograms: Vec<Histogram>,
    /// The dimension of all histograms.
    pub dimension: Option<Dimension>,
    /// Arcs, in the order of the files. Several can have the same addresses.
    pub arcs: Vec<CallArc>,
    /// Basic blocks, in the order of the files.
    pub blocks: Vec<Block>,
}

#[cfg(test)]
mod tests;

impl Gmon {
    /// Joins arcs of the same addresses, and blocks of the same address. Sorts both by address.
    pub fn merge_repeated(&mut self) {
        self.arcs.sort_unstable_by_key(|arc| (arc.from, arc.callee));
        self.arcs.dedup_by(|arc, kept| {
            let is_same = (arc.from, arc.callee) == (kept.from, kept.callee);
            if is_same {
                kept.count = kept.count.saturating_add(arc.count);
            }
            is_same
        });
        self.blocks.sort_unstable_by_key(|block| block.address);
        self.blocks.dedup_by(|block, kept| {
            let is_same = block.address == kept.address;
            if is_same {
                kept.count = kept.count.saturating_add(block.count);
            }
            is_same
        });
    }

    /// Adds a histogram to the one of the same range, or as another.
    ///
    /// # Errors
    /// If a part of its range is that of another, or its bins differ in size.
    fn add_histogram(&mut self, added: Histogram) -> Result<(), Error> {
        let same = |one: &Histogram| (one.low, one.high, one.bins.len());
        if let Some(known) = self.histograms.iter_mut().find(|known| same(known) == same(&added)) {
            for (sum, &count) in known.bins.iter_mut().zip(&added.bins) {
                *sum = sum.saturating_add(count);
            }
            return Ok(());
        }
        let range = |one: &Histogram| format!("{:#x} to {:#x}", one.low, one.high);
        if let Some(other) = self.histograms.iter().find(|one| one.low < added.high && added.low < one.high) {
            let reason = format!("overlapping histograms of {} and {}", range(other), range(&added));
            return Err(Error::new(ErrorKind::Format, reason)
                .advise("the files are of different programs, or one is damaged"));
        }
        if let Some(other) = self.histograms.first().filter(|one| differ(one.scale(), added.scale())) {
            let reason = format!(
                "the histograms of {} and {} have bins of different sizes",
                range(other),
                range(&added)
            );
            return Err(Error::new(ErrorKind::Mismatch, reason).advise("report them one by one"));
        }
        self.histograms.push(added);
        Ok(())
    }
}

/// True if two bin sizes differ by more than a rounding error.
fn differ(one: f64, other: f64) -> bool {
    (one - other).abs() > 1e-6 * one.abs().max(other.abs())
}
