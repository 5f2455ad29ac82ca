//! The profile of a spool, as bytes and as a file.

use super::spill_file::for_each_spilled;
use crate::{
    format::{
        ByteOrder, Mapping, ProfileWriter, SlotLayout, SlotWidth, WriteError,
        spool::{Head, SpoolSource, SpooledRecord},
        write_records,
    },
    sys::file,
};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    path::Path,
};

/// Writes the profile of a spool and its spill file; returns the sum of the counts.
pub(super) fn write_profile(
    head: &Head,
    spilled: Option<&impl SpoolSource>,
    records: &[SpooledRecord],
    mappings: &[Mapping<'_>],
    out: impl Write,
) -> Result<u64, WriteError> {
    let width = if head.word_bytes == 4 { SlotWidth::Four } else { SlotWidth::Eight };
    let mut writer = ProfileWriter::new(out, SlotLayout { width, order: ByteOrder::NATIVE });
    writer.header(head.period_micros)?;
    let mut samples = 0u64;
    let mut folding = Folding { writer: &mut writer, chains: BTreeMap::new(), words: 0 };
    let mut write_part = |records: &[SpooledRecord]| {
        samples = samples.saturating_add(sum_of(records));
        if head.is_by_thread { folding.add(records) } else { folding.write(records) }
    };
    if let Some(spilled) = spilled {
        for_each_spilled(head, spilled, |records| write_part(&records))?;
    }
    write_part(records)?;
    folding.flush()?;
    writer.trailer()?;
    for mapping in mappings {
        mapping.write_line(writer.text(), width)?;
    }
    Ok(samples)
}

pub(super) fn sum_of(records: &[SpooledRecord]) -> u64 {
    records.iter().fold(0, |sum: u64, record| sum.saturating_add(record.count))
}

/// Adds up the records of different threads with the same call stack.
struct Folding<'w, W> {
    writer: &'w mut ProfileWriter<W>,
    chains: BTreeMap<Vec<u64>, u64>,
    words: usize,
}

/// Words of pending stacks. With more, a stack may be in the profile several times, which is valid.
const MAX_FOLDED: usize = if cfg!(any(test, fuzzing)) { 1 << 10 } else { 8 << 20 };

impl<W: Write> Folding<'_, W> {
    fn write(&mut self, records: &[SpooledRecord]) -> Result<(), WriteError> {
        write_records(self.writer, || {
            records.iter().map(|record| (record.count, record.pcs.iter().map(|&pc| pc as usize)))
        })
        .map(|_| ())
    }

    /// Adds records; writes the pending ones if there are too many.
    fn add(&mut self, records: &[SpooledRecord]) -> Result<(), WriteError> {
        for record in records {
            let known = self.chains.get(&record.pcs).copied();
            let sum = known.unwrap_or(0).checked_add(record.count);
            if sum.is_none() || self.words > MAX_FOLDED {
                self.flush()?;
            }
            match self.chains.get_mut(&record.pcs) {
                Some(count) => *count = sum.unwrap_or(record.count),
                None => {
                    self.words += record.pcs.len();
                    self.chains.insert(record.pcs.clone(), record.count);
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        write_records(self.writer, || {
            self.chains.iter().map(|(pcs, count)| (*count, pcs.iter().map(|&pc| pc as usize)))
        })?;
        self.chains.clear();
        self.words = 0;
        Ok(())
    }
}

/// Writes and syncs a temporary file, and renames it; replaces an existing file if `replaces`.
pub(super) fn write_file(
    target: &Path,
    replaces: bool,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let temporary = target.with_file_name(format!(".sigprof-{:016x}", file::random()));
    // `O_EXCL` does not follow symbolic links.
    let mut out = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&temporary)?);
    let written = fill(&mut out).and_then(|()| {
        out.flush()?;
        // Some file systems report a lack of space only here, and the spool is then removed.
        out.get_ref().sync_all()?;
        if replaces {
            fs::rename(&temporary, target)?;
        } else {
            fs::hard_link(&temporary, target)?;
        }
        Ok(())
    });
    if written.is_err() || !replaces {
        let _ = fs::remove_file(&temporary);
    }
    written
}
