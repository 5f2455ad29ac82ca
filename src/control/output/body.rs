//! What a profile's file holds, through a buffer of the session's.

use crate::{
    format::{ProfileWriter, SlotLayout, WriteError, write_records},
    sample::{met_objects::MetObject, recording::Recording},
    sync::Ordering,
    sys::{errno, file::File},
};
use std::io::{self, Write};

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Bytes of the binary part.
    pub(crate) bytes: u64,
    /// Why the list of mapped objects is not whole, as an error number.
    pub(crate) list: Result<(), i32>,
}

/// Writes the whole profile of `recording` into `file`.
///
/// # Errors
/// The error number of `write(2)`.
pub(super) fn write(
    file: &File,
    buffer: &mut [u8],
    lines: &mut [u8],
    recording: &Recording,
    met: &[MetObject],
    kept: &[u8],
) -> Result<Written, i32> {
    let sink = Buffered { file, buffer, used: 0 };
    write_profile(sink, recording, lines, met, kept).map_err(|error| errno_of(&error))
}

/// Writes header, records, trailer and the list of mapped objects.
///
/// # Errors
/// Those of the sink.
fn write_profile(
    sink: impl Write,
    recording: &Recording,
    lines: &mut [u8],
    met: &[MetObject],
    kept: &[u8],
) -> Result<Written, WriteError> {
    let mut writer = ProfileWriter::new(sink, SlotLayout::NATIVE);
    writer.header(u64::from(recording.period_micros))?;
    // Relaxed: the table has ordered a record's words before the record itself.
    write_records(&mut writer, || {
        recording
            .table
            .records()
            .map(|(count, pcs)| (count as u64, pcs.iter().map(|pc| pc.load(Ordering::Relaxed))))
    })?;
    writer.trailer()?;
    let bytes = writer.bytes_written();
    let list = crate::control::maps_text::write(writer.text(), lines, met, kept)?;
    writer.text().flush()?;
    Ok(Written { bytes, list })
}

/// A file behind a buffer of the session's.
struct Buffered<'a> {
    file: &'a File,
    buffer: &'a mut [u8],
    used: usize,
}

impl Write for Buffered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            self.flush()?;
        }
        let room = self.buffer.get_mut(self.used..).unwrap_or_default();
        let taken = room.len().min(bytes.len());
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
        }
        self.used += taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let filled = self.buffer.get(..self.used).unwrap_or_default();
        self.file.write_all(filled).map_err(io::Error::from_raw_os_error)?;
        self.used = 0;
        Ok(())
    }
}

fn errno_of(error: &WriteError) -> i32 {
    match error {
        WriteError::Io(error) => error.raw_os_error().unwrap_or(errno::IO),
        _ => errno::INVALID,
    }
}
