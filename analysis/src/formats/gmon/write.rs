//! Writer.

use super::{ARC, BLOCKS, Gmon, HISTOGRAM, Layout, MAGIC, SPARE_BYTES, UNIT_NAME_BYTES, VERSION};
use crate::error::{Error, ErrorKind};
use std::io::{self, Write};

/// Largest count of a bin in one record.
const MAX_BIN: u64 = u16::MAX as u64;
/// Largest count of an arc in one record.
const MAX_COUNT: u64 = u32::MAX as u64;
/// Limit of records for the same bins or arc.
const MAX_REPEATS: u64 = 1 << 16;

impl Gmon {
    /// Writes a file of gmon's format. Counts that exceed a record's limit are divided among several
    /// records, which readers add.
    ///
    /// # Errors
    /// Those of `out`; if an address does not fit in the layout; if a count needs more than 65536
    /// records.
    pub fn write(&self, layout: Layout, out: &mut dyn Write) -> Result<(), Error> {
        self.ensure_writable(layout)?;
        self.write_records(&mut Output { out, layout }).map_err(Error::output)
    }

    fn ensure_writable(&self, layout: Layout) -> Result<(), Error> {
        let fails = |reason: String| Err(Error::new(ErrorKind::Format, reason));
        let count = self.histograms.iter().flat_map(|one| &one.bins).map(|count| count / MAX_BIN);
        let arcs = self.arcs.iter().map(|arc| arc.count / MAX_COUNT);
        if count.chain(arcs).max().is_some_and(|repeats| repeats >= MAX_REPEATS) {
            return fails("a count is too large for gmon.out".into());
        }
        let ranges = self.histograms.iter().flat_map(|one| [one.low, one.high]);
        let arcs = self.arcs.iter().flat_map(|arc| [arc.from, arc.callee]);
        let blocks = self.blocks.iter().flat_map(|block| [block.address, block.count]);
        let largest = ranges.chain(arcs).chain(blocks).max().unwrap_or(0);
        if !layout.is_64_bit && largest > u64::from(u32::MAX) {
            return fails(format!("{largest:#x} does not fit in 4 bytes"));
        }
        Ok(())
    }

    fn write_records(&self, out: &mut Output<'_>) -> io::Result<()> {
        out.out.write_all(MAGIC)?;
        out.u32(VERSION)?;
        out.out.write_all(&[0; SPARE_BYTES])?;
        for histogram in &self.histograms {
            let most = histogram.bins.iter().max().copied().unwrap_or(0);
            for repeat in 0..most.div_ceil(MAX_BIN).max(1) {
                out.byte(HISTOGRAM)?;
                out.address(histogram.low)?;
                out.address(histogram.high)?;
                out.u32(histogram.bins.len() as u32)?;
                self.write_dimension(out)?;
                for &count in &histogram.bins {
                    out.u16(count.saturating_sub(repeat * MAX_BIN).min(MAX_BIN) as u16)?;
                }
            }
        }
        for arc in &self.arcs {
            let mut left = arc.count;
            loop {
                let count = left.min(MAX_COUNT);
                out.byte(ARC)?;
                out.address(arc.from)?;
                out.address(arc.callee)?;
                out.u32(count as u32)?;
                left -= count;
                if left == 0 {
                    break;
                }
            }
        }
        for blocks in self.blocks.chunks(u32::MAX as usize) {
            out.byte(BLOCKS)?;
            out.u32(blocks.len() as u32)?;
            for block in blocks {
                out.address(block.address)?;
                out.address(block.count)?;
            }
        }
        Ok(())
    }

    fn write_dimension(&self, out: &mut Output<'_>) -> io::Result<()> {
        let dimension = self.dimension.clone().unwrap_or_default();
        out.u32(dimension.rate)?;
        let mut unit = [0; UNIT_NAME_BYTES];
        // The last byte ends the name.
        for (to, &from) in unit[..UNIT_NAME_BYTES - 1].iter_mut().zip(dimension.unit.as_bytes()) {
            *to = from;
        }
        out.out.write_all(&unit)?;
        out.byte(u8::try_from(dimension.abbreviation).unwrap_or(b' '))
    }
}

struct Output<'a> {
    out: &'a mut dyn Write,
    layout: Layout,
}

impl Output<'_> {
    fn byte(&mut self, value: u8) -> io::Result<()> {
        self.out.write_all(&[value])
    }

    fn u16(&mut self, value: u16) -> io::Result<()> {
        self.number(&value.to_le_bytes())
    }

    fn u32(&mut self, value: u32) -> io::Result<()> {
        self.number(&value.to_le_bytes())
    }

    fn address(&mut self, value: u64) -> io::Result<()> {
        let bytes = value.to_le_bytes();
        self.number(if self.layout.is_64_bit { &bytes } else { &bytes[..4] })
    }

    /// Writes a number that is given with the least significant byte first.
    fn number(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.layout.is_big_endian {
            let mut reversed = [0; 8];
            let reversed = &mut reversed[..bytes.len()];
            reversed.copy_from_slice(bytes);
            reversed.reverse();
            return self.out.write_all(reversed);
        }
        self.out.write_all(bytes)
    }
}
