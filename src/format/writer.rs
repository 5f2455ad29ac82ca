//! Writer of the binary part of a profile, slot by slot. Nothing here allocates, formats or panics,
//! so a profile can be written in a signal handler or while the process exits.

use std::fmt;
use std::io::{self, Write};

use super::word::{SlotLayout, SlotWidth};

/// Writes a profile into `W`: first [`header`](Self::header), then records, then
/// [`trailer`](Self::trailer), then the mapped objects into [`text`](Self::text). The order is not
/// checked. Each slot is a separate `write_all`, so the sink should buffer. After an error the sink
/// may have a part of the item.
///
/// ```
/// use sigprof::format::{ProfileWriter, SlotLayout};
///
/// let mut file = Vec::new();
/// let mut writer = ProfileWriter::new(&mut file, SlotLayout::NATIVE);
/// writer.header(10_000)?;
/// writer.record(5, &[0xa0000, 0xc0000, 0xe0000])?;
/// writer.trailer()?;
/// assert_eq!(file.len(), (5 + 5 + 3) * size_of::<usize>());
/// # Ok::<(), sigprof::format::WriteError>(())
/// ```
#[derive(Debug)]
pub struct ProfileWriter<W> {
    sink: CountingSink<W>,
    layout: SlotLayout,
}

impl<W: Write> ProfileWriter<W> {
    /// Starts a profile with this layout; writes nothing.
    pub fn new(out: W, layout: SlotLayout) -> Self {
        Self { sink: CountingSink { out, bytes: 0 }, layout }
    }

    /// Writes the header, the slots 0, 3, 0, period, 0 ("Binary Header"). `period_micros` is the
    /// time that one sample represents, in microseconds.
    ///
    /// # Errors
    /// [`WriteError::ZeroPeriod`] for 0, which google/pprof refuses. [`WriteError::ValueTooWide`]
    /// if the period does not fit in a slot. [`WriteError::Io`] from the sink.
    pub fn header(&mut self, period_micros: u64) -> Result<(), WriteError> {
        if period_micros == 0 {
            return Err(WriteError::ZeroPeriod);
        }
        self.check_fits(period_micros)?;
        for value in [0, 3, 0, period_micros, 0] {
            self.slot(value)?;
        }
        Ok(())
    }

    /// Writes `count` samples of one call stack, leaf first ("Binary Profile Records").
    ///
    /// The stack ends before its first PC of 0, which some readers treat as the trailer. If it is
    /// then empty, or the count is 0, nothing is written. If a count is too large for a 4-byte
    /// slot, it is split into several records, which readers add up.
    ///
    /// # Errors
    /// [`WriteError::ValueTooWide`] if a PC or the number of PCs does not fit in a slot; nothing is
    /// then written. [`WriteError::Io`] from the sink.
    pub fn record(&mut self, count: u64, pcs: &[u64]) -> Result<(), WriteError> {
        self.record_words(count, pcs.iter().copied())
    }

    /// Like [`record`](Self::record), for an iterator over PCs of this process, leaf first. Its
    /// clones must yield the same PCs: one walk finds the depth, and another writes each record.
    ///
    /// # Errors
    /// Those of [`record`](Self::record). [`WriteError::ChainChanged`] if a later walk finds fewer
    /// PCs than the first; the record in the sink is then incomplete.
    pub fn record_from<I>(&mut self, count: u64, pcs: I) -> Result<(), WriteError>
    where
        I: Iterator<Item = usize> + Clone,
    {
        self.record_words(count, pcs.map(|pc| pc as u64))
    }

    /// Writes the trailer, the slots 0, 1, 0 ("Binary Trailer").
    ///
    /// # Errors
    /// [`WriteError::Io`] from the sink.
    pub fn trailer(&mut self) -> Result<(), WriteError> {
        for value in [0, 1, 0] {
            self.slot(value)?;
        }
        Ok(())
    }

    /// Returns the sink, for the lines after the trailer ("Text List of Mapped Objects").
    pub fn text(&mut self) -> &mut CountingSink<W> {
        &mut self.sink
    }

    /// Returns the number of bytes that the sink has accepted, text included.
    pub fn bytes_written(&self) -> u64 {
        self.sink.bytes
    }

    /// Returns the layout of this profile's slots.
    pub fn layout(&self) -> SlotLayout {
        self.layout
    }

    /// Returns the sink, without flushing it.
    pub fn into_inner(self) -> W {
        self.sink.out
    }

    fn record_words(&mut self, count: u64, pcs: impl Iterator<Item = u64> + Clone) -> Result<(), WriteError> {
        let Some(shape) = self.measure(pcs.clone())? else { return Ok(()) };
        for count in Pieces::new(count, self.layout.width.max_value()) {
            self.piece(count, &shape, shape.second, pcs.clone())?;
        }
        Ok(())
    }

    /// Checks that a call stack, up to its first 0, can be written; `None` if it is empty.
    pub(super) fn measure(&self, pcs: impl Iterator<Item = u64>) -> Result<Option<ChainShape>, WriteError> {
        let mut shape = ChainShape { depth: 0, first: 0, second: None };
        for pc in pcs.take_while(|&pc| pc != 0) {
            self.check_fits(pc)?;
            match shape.depth {
                0 => shape.first = pc,
                1 => shape.second = Some(pc),
                _ => {}
            }
            shape.depth = shape.depth.saturating_add(1);
        }
        self.check_fits(shape.depth)?;
        Ok((shape.depth > 0).then_some(shape))
    }

    /// Writes one record of a measured call stack, with `second` instead of its second PC.
    pub(super) fn piece(
        &mut self,
        count: u64,
        shape: &ChainShape,
        second: Option<u64>,
        mut pcs: impl Iterator<Item = u64>,
    ) -> Result<(), WriteError> {
        self.slot(count)?;
        self.slot(shape.depth)?;
        for depth in 0..shape.depth {
            let pc = match pcs.next() {
                None | Some(0) => return Err(WriteError::ChainChanged { depth }),
                Some(pc) => pc,
            };
            self.slot(if depth == 1 { second.unwrap_or(pc) } else { pc })?;
        }
        Ok(())
    }

    fn check_fits(&self, value: u64) -> Result<(), WriteError> {
        let width = self.layout.width;
        if value > width.max_value() { Err(WriteError::ValueTooWide { value, width }) } else { Ok(()) }
    }

    fn slot(&mut self, value: u64) -> Result<(), WriteError> {
        let mut buffer = [0; 8];
        match self.layout.encode(value, &mut buffer) {
            Some(bytes) => Ok(self.sink.write_all(bytes)?),
            None => Err(WriteError::ValueTooWide { value, width: self.layout.width }),
        }
    }
}

/// A sink that counts the bytes that the inner sink accepts.
#[derive(Debug)]
pub struct CountingSink<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for CountingSink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let accepted = self.out.write(bytes)?;
        self.bytes = self.bytes.saturating_add(accepted as u64);
        Ok(accepted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reason why a part of a profile was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The sink failed, or accepted no more bytes.
    Io(io::Error),
    /// A PC, a depth or a period is too large for a slot.
    ValueTooWide {
        /// The value.
        value: u64,
        /// The width of the slot.
        width: SlotWidth,
    },
    /// The sampling period is 0.
    ZeroPeriod,
    /// A call stack became shorter while it was written.
    ChainChanged {
        /// The depth of the missing PC; the leaf has 0.
        depth: u64,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("the sink of the profile failed"),
            Self::ValueTooWide { value, width } => {
                write!(f, "value {value:#x} does not fit in a slot of {} bytes", width.bytes())
            }
            Self::ZeroPeriod => f.write_str("sampling period is 0 microseconds"),
            Self::ChainChanged { depth } => {
                write!(f, "call chain lost its pc at depth {depth} while it was written")
            }
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) struct ChainShape {
    /// Number of PCs before the first 0; at least 1.
    pub(super) depth: u64,
    pub(super) first: u64,
    /// The return address in the leaf's caller, if there are two PCs or more.
    pub(super) second: Option<u64>,
}

/// The counts of a split count's records, each between 1 and a limit.
pub(super) struct Pieces {
    left: u64,
    limit: u64,
}

impl Pieces {
    pub(super) fn new(count: u64, limit: u64) -> Self {
        Self { left: count, limit: limit.max(1) }
    }

    /// Splits into at least two pieces, unless the count is 0 or 1.
    pub(super) fn at_least_two(count: u64, limit: u64) -> Self {
        Self::new(count, limit.min(count.div_ceil(2)))
    }

    pub(super) fn remaining(&self) -> u64 {
        self.left.div_ceil(self.limit)
    }
}

impl Iterator for Pieces {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let piece = self.left.min(self.limit);
        self.left = self.left.saturating_sub(piece);
        (piece > 0).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::word::ByteOrder;
    use super::*;

    const SMALL: SlotLayout = SlotLayout { width: SlotWidth::Four, order: ByteOrder::Big };

    fn written(f: impl FnOnce(&mut ProfileWriter<&mut Vec<u8>>)) -> Vec<u32> {
        let mut out = Vec::new();
        let mut writer = ProfileWriter::new(&mut out, SMALL);
        f(&mut writer);
        assert_eq!(writer.bytes_written(), writer.into_inner().len() as u64);
        out.chunks(4).map(|slot| u32::from_be_bytes(slot.try_into().unwrap())).collect()
    }

    #[test]
    fn writes_header_record_and_trailer_as_in_the_format_document() {
        let slots = written(|writer| {
            writer.header(10_000).unwrap();
            writer.record(5, &[0xa0000, 0xc0000, 0xe0000]).unwrap();
            writer.trailer().unwrap();
        });
        assert_eq!(slots, [0, 3, 0, 10_000, 0, 5, 3, 0xa0000, 0xc0000, 0xe0000, 0, 1, 0]);
    }

    #[test]
    fn skips_records_that_a_file_must_not_have() {
        let slots = written(|writer| {
            writer.record(0, &[1, 2]).unwrap();
            writer.record(1, &[]).unwrap();
            writer.record(1, &[0, 2]).unwrap();
        });
        assert_eq!(slots, [0u32; 0]);
    }

    #[test]
    fn ends_a_stack_before_pc_zero() {
        assert_eq!(written(|writer| writer.record(1, &[9, 8, 0, 7]).unwrap()), [1, 2, 9, 8]);
        assert_eq!(written(|writer| writer.record_from(1, [9, 0].into_iter()).unwrap()), [1, 1, 9]);
    }

    #[test]
    fn splits_a_count_that_is_too_large_for_a_slot() {
        let count = 2 * u64::from(u32::MAX) + 1;
        let slots = written(|writer| writer.record(count, &[9]).unwrap());
        assert_eq!(slots, [u32::MAX, 1, 9, u32::MAX, 1, 9, 1, 1, 9]);
    }

    #[test]
    fn refuses_a_pc_that_is_too_wide_and_writes_nothing() {
        let slots = written(|writer| {
            let error = writer.record(1, &[1, 0x1_0000_0000]).unwrap_err();
            assert_eq!(error.to_string(), "value 0x100000000 does not fit in a slot of 4 bytes");
            assert!(writer.header(1 << 32).is_err());
            assert!(matches!(writer.header(0), Err(WriteError::ZeroPeriod)));
        });
        assert_eq!(slots, [0u32; 0]);
    }

    #[test]
    fn reports_a_stack_that_becomes_shorter() {
        let walks = Cell::new(0);
        let pcs = [5, 6].into_iter().map(|pc| {
            walks.set(walks.get() + 1);
            if walks.get() > 3 { 0 } else { pc }
        });
        let mut out = Vec::new();
        let result = ProfileWriter::new(&mut out, SMALL).record_from(1, pcs);
        assert!(matches!(result, Err(WriteError::ChainChanged { depth: 1 })));
    }

    #[test]
    fn returns_the_error_of_a_full_sink_as_source() {
        let mut room = [0; 12];
        let mut writer = ProfileWriter::new(&mut room[..], SMALL);
        let error = writer.header(1).unwrap_err();
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(writer.bytes_written(), 12);
    }

    #[test]
    fn pieces_add_up_and_are_within_the_limit() {
        for count in 0..40 {
            for limit in 1..9 {
                for pieces in [Pieces::new, Pieces::at_least_two] {
                    let number = pieces(count, limit).remaining();
                    let list: Vec<u64> = pieces(count, limit).collect();
                    assert_eq!(list.iter().sum::<u64>(), count);
                    assert_eq!(list.len() as u64, number);
                    assert!(list.iter().all(|&piece| piece >= 1 && piece <= limit));
                }
                assert!(count < 2 || Pieces::at_least_two(count, limit).remaining() >= 2);
            }
        }
    }
}
