//! The contents of a profile's file, written through a buffer.

use crate::{
    config::MAX_DEPTH,
    format::{ProfileWriter, SlotLayout, WriteError, write_records},
    sample::{
        recording::{Recording, TableMemory},
        sampled_dsos::SampledDso,
        spill_file::SpillFile,
        table::Table,
    },
    sync::Ordering,
    sys::{errno, file::File},
};
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Bytes of the binary part.
    pub(crate) bytes: u64,
    /// The error number if the list of mapped objects is incomplete.
    pub(crate) list: Result<(), i32>,
}

pub(crate) struct Contents<'c> {
    pub(crate) recording: &'c Recording,
    /// The spilled records. No thread spills while this is held.
    pub(crate) spilled: &'c mut SpillFile,
    pub(crate) dsos: &'c [SampledDso],
    pub(crate) kept: &'c [u8],
}

pub(super) struct WriteBuffers<'r> {
    pub(super) buffer: &'r mut [u8],
    pub(super) lines: &'r mut [u8],
    /// For spilled records.
    pub(super) words: &'r mut [usize],
}

/// Writes a complete profile through the buffer.
///
/// # Errors
/// The error number of `write(2)`, or of `read(2)` for the spill file.
pub(super) fn write(
    file: &File,
    buffers: &mut WriteBuffers<'_>,
    contents: &mut Contents<'_>,
) -> Result<Written, i32> {
    let WriteBuffers { buffer, lines, words } = buffers;
    let sink = Buffered { file, buffer, used: 0 };
    write_profile(sink, lines, words, contents).map_err(|error| errno_of(&error))
}

/// Writes header, records, trailer and the list of mapped objects.
///
/// # Errors
/// Those of the sink and of the spill file.
fn write_profile(
    sink: impl Write,
    lines: &mut [u8],
    words: &mut [usize],
    contents: &mut Contents<'_>,
) -> Result<Written, WriteError> {
    let Contents { recording, spilled, dsos, kept } = contents;
    let mut writer = ProfileWriter::new(sink, SlotLayout::NATIVE);
    writer.header(u64::from(recording.period_micros))?;
    // A removed spill file's records are counted as lost (`Session::summary`).
    let in_file =
        Some(recording.table.buffer_state().spilled).filter(|words| *words > 0 && spilled.is_there());
    let mut sources = Sources { recording, spilled, in_file: in_file.unwrap_or(0), words };
    let folded = if recording.is_by_thread { sources.folded()? } else { None };
    // Relaxed: `records` has ordered a record's words before the record.
    match &folded {
        Some(table) => {
            write_records(&mut writer, || {
                table
                    .records()
                    .map(|(count, pcs)| (count as u64, pcs.iter().map(|pc| pc.load(Ordering::Relaxed))))
            })?;
        }
        None => {
            sources.for_each_spilled(|records| {
                let record = |(count, words)| (count as u64, recording.parts(words).0.iter().copied());
                write_records(&mut writer, || records.clone().map(record)).map(|_| true)
            })?;
            write_records(&mut writer, || {
                recording.table.records().map(|(count, words)| {
                    let (pcs, _) = recording.parts(words);
                    (count as u64, pcs.iter().map(|pc| pc.load(Ordering::Relaxed)))
                })
            })?;
        }
    }
    writer.trailer()?;
    let bytes = writer.bytes_written();
    let list = crate::control::maps_text::write(writer.text(), lines, dsos, kept)?;
    writer.text().flush()?;
    Ok(Written { bytes, list })
}

struct Sources<'s> {
    recording: &'s Recording,
    spilled: &'s mut SpillFile,
    /// Valid words of the spill file.
    in_file: u64,
    words: &'s mut [usize],
}

impl Sources<'_> {
    /// Merges the records of different threads; None if the memory is not available or too small.
    ///
    /// # Errors
    /// Those of the spill file.
    fn folded(&mut self) -> Result<Option<Table<TableMemory>>, WriteError> {
        let Ok(memory) = TableMemory::anonymous(self.recording.fold_bytes, false) else { return Ok(None) };
        let (recording, table) = (self.recording, Table::new(memory));
        let add = |count: usize, words: &[usize]| table.add(recording.parts(words).0, count).is_ok();
        let is_whole =
            self.for_each_spilled(|mut records| Ok(records.all(|(count, words)| add(count, words))))?;
        // Its spilled records are no longer needed.
        let copied = &mut *self.words;
        let is_whole = is_whole
            && recording.table.records().all(|(count, words)| {
                for (place, word) in copied.iter_mut().zip(words) {
                    *place = word.load(Ordering::Relaxed);
                }
                copied.get(..words.len()).is_some_and(|words| add(count, words))
            });
        Ok(is_whole.then_some(table))
    }

    /// Calls `visit` with as many spilled records as fit, until it returns false; returns that.
    ///
    /// # Errors
    /// Those of `visit` and of the spill file.
    fn for_each_spilled(
        &mut self,
        mut visit: impl FnMut(SpilledRecords<'_>) -> Result<bool, WriteError>,
    ) -> Result<bool, WriteError> {
        let mut place = 0;
        while place < self.in_file {
            let length = usize::try_from(self.in_file - place).unwrap_or(usize::MAX).min(self.words.len());
            let words = self.words.get_mut(..length).unwrap_or_default();
            self.spilled.read(place, words).map_err(io::Error::from_raw_os_error)?;
            let whole: usize = SpilledRecords(words).map(|(_, pcs)| HEAD + pcs.len()).sum();
            if whole == 0 {
                // Another process has written into the file.
                return Err(io::Error::from_raw_os_error(errno::EIO).into());
            }
            if !visit(SpilledRecords(words))? {
                return Ok(false);
            }
            place += whole as u64;
        }
        Ok(true)
    }
}

/// Words of a record before its PCs.
const HEAD: usize = 2;

/// The complete records at the start.
#[derive(Clone)]
struct SpilledRecords<'w>(&'w [usize]);

impl<'w> Iterator for SpilledRecords<'w> {
    type Item = (usize, &'w [usize]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[count, depth], rest) = self.0.split_first_chunk::<HEAD>()?;
        if depth == 0 || depth > MAX_DEPTH {
            return None;
        }
        let (pcs, rest) = rest.split_at_checked(depth)?;
        self.0 = rest;
        Some((count, pcs))
    }
}

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
        WriteError::Io(error) => error.raw_os_error().unwrap_or(errno::EIO),
        _ => errno::EINVAL,
    }
}
