//! An encoder of CPU profiles, written from the format's document only. It shares no code and no
//! type with `sigprof::format`, and writes invalid profiles, too.

/// Collects a file slot by slot.
pub(crate) struct Encoder {
    wide: bool,
    big: bool,
    pub(crate) file: Vec<u8>,
}

/// All pairs of slot width (8 bytes if true) and byte order (big-endian if true).
pub(crate) const LAYOUTS: [(bool, bool); 4] = [(true, false), (true, true), (false, false), (false, true)];

impl Encoder {
    pub(crate) fn new((wide, big): (bool, bool)) -> Self {
        Self { wide, big, file: Vec::new() }
    }

    /// Creates a file with its header ("Binary Header").
    pub(crate) fn with_header(layout: (bool, bool), period: u64) -> Self {
        let mut encoder = Self::new(layout);
        encoder.slots(&[0, 3, 0, period, 0]);
        encoder
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// Writes a slot: the low bytes of the value, shifted out one by one.
    pub(crate) fn slot(&mut self, value: u64) {
        let width = self.slot_bytes();
        assert!(self.wide || value >> 32 == 0, "{value:#x} has no 4-byte slot");
        for place in 0..width {
            let shift = 8 * if self.big { width - 1 - place } else { place };
            self.file.push((value >> shift & 0xff) as u8);
        }
    }

    pub(crate) fn slots(&mut self, values: &[u64]) {
        values.iter().for_each(|&value| self.slot(value));
    }

    /// "Binary Profile Records".
    pub(crate) fn record(&mut self, count: u64, pcs: &[u64]) {
        self.slots(&[count, pcs.len() as u64]);
        self.slots(pcs);
    }

    /// "Binary Trailer".
    pub(crate) fn trailer(&mut self) {
        self.slots(&[0, 1, 0]);
    }

    /// "Text List of Mapped Objects".
    pub(crate) fn text(&mut self, text: &str) {
        self.file.extend_from_slice(text.as_bytes());
    }
}
