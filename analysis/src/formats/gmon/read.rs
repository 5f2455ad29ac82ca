//! Reader.

use super::{
    ARC, BLOCKS, Block, CallArc, Dimension, FileFormat, FileInfo, Gmon, HISTOGRAM, Histogram, Layout, MAGIC,
    SPARE_BYTES, UNIT, UNIT_NAME_BYTES, VERSION,
};
use crate::error::{Error, ErrorKind};

/// The first version has more about basic blocks.
const FIRST_VERSION: u32 = 0;
/// Version in the header of 4.4BSD.
const BSD44_VERSION: u32 = 0x0005_1879;
/// BSD's header has no rate.
const BSD_RATE: u32 = 100;
impl Gmon {
    /// Adds the contents of a file. Returns its version and the numbers of its records.
    ///
    /// # Errors
    /// If the bytes violate the format, or do not belong to the files before.
    pub fn read(&mut self, bytes: &[u8], layout: Layout, format: FileFormat) -> Result<FileInfo, Error> {
        let mut input = Input { bytes, offset: 0, layout };
        let has_magic = bytes.starts_with(MAGIC);
        match format {
            FileFormat::Auto | FileFormat::Gmon if has_magic => self.read_tagged(&mut input),
            FileFormat::Gmon => Err(fails("the file does not begin with `gmon`")
                .advise("programs compiled with `-pg` write this file when they exit")),
            FileFormat::Auto | FileFormat::Bsd | FileFormat::Bsd44 => self.read_bsd(&mut input, format),
        }
    }

    fn read_tagged(&mut self, input: &mut Input<'_>) -> Result<FileInfo, Error> {
        input.take(MAGIC.len(), "the header")?;
        let version = input.u32("the header")?;
        if version != VERSION && version != FIRST_VERSION {
            let reason = if version.swap_bytes() == VERSION {
                "the file has the other byte order: it is of another machine than the program".to_owned()
            } else {
                format!("unsupported version {version} of gmon.out")
            };
            return Err(fails(reason).at_offset(MAGIC.len() as u64));
        }
        input.take(SPARE_BYTES, "the header")?;
        let mut info = FileInfo { version: Some(version), ..FileInfo::default() };
        while let Some(&tag) = input.bytes.get(input.offset) {
            let start = input.offset as u64;
            input.offset += 1;
            match tag {
                HISTOGRAM => {
                    info.histograms += 1;
                    self.read_histogram(input).map_err(|error| error.at_offset(start))?;
                }
                ARC => {
                    info.arcs += 1;
                    let (from, callee) = (input.address("an arc")?, input.address("an arc")?);
                    let count = input.u32("an arc")?.into();
                    self.arcs.push(CallArc { from, callee, count });
                }
                BLOCKS => {
                    info.blocks += 1;
                    self.read_blocks(input, version)?;
                }
                _ => {
                    return Err(fails(format!("unknown record with tag {tag}"))
                        .at_offset(start)
                        .advise("the file is damaged"));
                }
            }
        }
        Ok(info)
    }

    fn read_histogram(&mut self, input: &mut Input<'_>) -> Result<(), Error> {
        const WHAT: &str = "a histogram";
        let (low, high) = (input.address(WHAT)?, input.address(WHAT)?);
        let (count, rate) = (input.u32(WHAT)?, input.u32(WHAT)?);
        let unit = input.take(UNIT_NAME_BYTES, WHAT)?;
        let unit = unit.split(|&byte| byte == 0).next().unwrap_or(unit);
        let abbreviation = char::from(input.take(1, WHAT)?[0]);
        let dimension = Dimension { rate, unit: String::from_utf8_lossy(unit).into_owned(), abbreviation };
        let known = self.dimension.get_or_insert_with(|| dimension.clone());
        if (&known.unit, known.abbreviation) != (&dimension.unit, dimension.abbreviation) {
            let reason = format!("a histogram of {}, and the others are of {}", dimension.unit, known.unit);
            return Err(Error::new(ErrorKind::Mismatch, reason).advise("report the files one by one"));
        }
        let bins = input.bins(count as usize, low, high)?;
        self.add_histogram(Histogram { low, high, bins })
    }

    fn read_blocks(&mut self, input: &mut Input<'_>, version: u32) -> Result<(), Error> {
        const WHAT: &str = "basic blocks";
        let count = input.u32(WHAT)?;
        if version == FIRST_VERSION {
            input.string(WHAT)?;
        }
        for _ in 0..count {
            let block = if version == FIRST_VERSION {
                let (count, address) = (input.address(WHAT)?, input.address(WHAT)?);
                // Function, file and line.
                input.string(WHAT)?;
                input.string(WHAT)?;
                input.u32(WHAT)?;
                Block { address, count }
            } else {
                Block { address: input.address(WHAT)?, count: input.address(WHAT)? }
            };
            self.blocks.push(block);
        }
        Ok(())
    }

    /// Reads a file with one of BSD's headers.
    fn read_bsd(&mut self, input: &mut Input<'_>, format: FileFormat) -> Result<FileInfo, Error> {
        const WHAT: &str = "the header";
        let not_bsd = |_| {
            fails("this is not a gmon.out file: it begins neither with `gmon` nor with a header of BSD")
                .advise("programs compiled with `-pg` write gmon.out when they exit")
        };
        let (low, high) = (input.address(WHAT).map_err(not_bsd)?, input.address(WHAT).map_err(not_bsd)?);
        let size = input.u32(WHAT).map_err(not_bsd)? as usize;
        let after = input.offset;
        let version = input.u32(WHAT);
        let is_bsd44 = match format {
            FileFormat::Bsd44 => true,
            FileFormat::Bsd => false,
            FileFormat::Auto | FileFormat::Gmon => version.is_ok_and(|version| version == BSD44_VERSION),
        };
        let rate = if is_bsd44 {
            let rate = input.u32(WHAT)?;
            input.take(SPARE_BYTES, WHAT)?;
            rate
        } else {
            input.offset = after;
            BSD_RATE
        };
        let bytes = size.checked_sub(input.offset).filter(|bytes| bytes % 2 == 0 && low <= high);
        let bytes = bytes.ok_or_else(|| not_bsd(fails("")))?;
        let bins = input.bins(bytes / 2, low, high)?;
        let mut info = FileInfo { histograms: 1, ..FileInfo::default() };
        self.dimension.get_or_insert_with(|| Dimension::seconds(rate));
        self.add_histogram(Histogram { low, high, bins })?;
        while input.offset < input.bytes.len() {
            let (from, callee) = (input.address("an arc")?, input.address("an arc")?);
            // A `long` of the program.
            let count = input.address("an arc")?;
            info.arcs += 1;
            self.arcs.push(CallArc { from, callee, count });
        }
        Ok(info)
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    offset: usize,
    layout: Layout,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8], Error> {
        let end = self.offset.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            fails(format!("the file ends within {what}"))
                .at_offset(self.offset as u64)
                .advise("it is incomplete: was the program killed while it wrote it?")
        })?;
        let taken = &self.bytes[self.offset..end];
        self.offset = end;
        Ok(taken)
    }

    fn u32(&mut self, what: &str) -> Result<u32, Error> {
        let bytes = self.take(4, what)?;
        Ok(number(bytes, self.layout) as u32)
    }

    fn address(&mut self, what: &str) -> Result<u64, Error> {
        let bytes = self.take(if self.layout.is_64_bit { 8 } else { 4 }, what)?;
        Ok(number(bytes, self.layout))
    }

    fn string(&mut self, what: &str) -> Result<(), Error> {
        let rest = &self.bytes[self.offset..];
        let length = rest.iter().position(|&byte| byte == 0).map_or(rest.len() + 1, |end| end + 1);
        self.take(length, what).map(drop)
    }

    fn bins(&mut self, count: usize, low: u64, high: u64) -> Result<Vec<u64>, Error> {
        if count > 0 && high.saturating_sub(low) < UNIT {
            return Err(fails(format!("a histogram of {count} bins is for addresses {low:#x} to {high:#x}"))
                .advise("the file is damaged, or of a program of another address size"));
        }
        let bytes = self.take(count.saturating_mul(2), "the bins of a histogram")?;
        Ok(bytes.chunks_exact(2).map(|bin| number(bin, self.layout)).collect())
    }
}

fn number(bytes: &[u8], layout: Layout) -> u64 {
    let join = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    if layout.is_big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
}

fn fails(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, reason)
}
