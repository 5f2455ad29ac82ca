//! The records of a spool and of its spill file: call stacks and their counts.

use super::{
    ARENA, DEPTH_MASK, Head, MARK_OF_4, MARK_OF_8, MAX_DEPTH, MAX_THREADS, SpoolSource, THREAD_BYTES,
    THREADS, number_at, read,
};
use crate::thread::{Thread, ThreadName};
use std::io;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpooledRecord {
    /// At least 1.
    pub(crate) count: u64,
    /// Leaf first, at least one.
    pub(crate) pcs: Vec<u64>,
    /// The last word; see [`thread_of`].
    pub(crate) thread: u64,
}

/// The thread that a record's last word identifies.
pub(crate) fn thread_of(threads: &[Option<Thread>], word: u64) -> Option<Thread> {
    let place = usize::try_from(word.checked_sub(2)?).ok()?;
    threads.get(place).copied().flatten()
}

impl Head {
    /// Reads all records that were not spilled; in each half in the order of their first samples.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn records(&self, source: &impl SpoolSource) -> io::Result<Vec<SpooledRecord>> {
        let mut records = Vec::new();
        let arena = read(source, ARENA as u64, self.arena_bytes)?;
        let half_bytes =
            usize::try_from(self.half_words).unwrap_or(usize::MAX).saturating_mul(self.word_bytes);
        if half_bytes == 0 {
            self.add_records(&arena, &mut records);
            return Ok(records);
        }
        for (half, bytes) in arena.chunks(half_bytes).take(2).enumerate() {
            let Some(from) = self.buffer_state.records_from(half) else { continue };
            self.add_records(bytes.get(from * self.word_bytes..).unwrap_or_default(), &mut records);
        }
        Ok(records)
    }

    fn add_records(&self, bytes: &[u8], records: &mut Vec<SpooledRecord>) {
        let words = Words { bytes, width: self.word_bytes };
        let mut place = 0;
        while let Some(head) = words.next_head(place) {
            let (count, depth) = (words.get(head.place).unwrap_or(0), head.depth);
            let start = head.place + 2;
            place = start + depth;
            let Some(pcs) = (start..place).map(|i| words.get(i)).collect::<Option<Vec<u64>>>() else { break };
            records.extend(self.record(count, pcs));
        }
    }

    /// Reads complete records from a part of the spill file; returns them and their bytes.
    pub(crate) fn spilled_records(&self, bytes: &[u8]) -> (Vec<SpooledRecord>, usize) {
        let words = Words { bytes, width: self.word_bytes };
        let mut records = Vec::new();
        let mut place = 0;
        loop {
            let (count, depth) = (words.get(place).unwrap_or(0), words.get(place + 1).unwrap_or(0));
            if count == 0 || !(1..=MAX_DEPTH).contains(&depth) {
                break;
            }
            let start = place + 2;
            let end = start + depth as usize;
            let Some(pcs) = (start..end).map(|i| words.get(i)).collect::<Option<Vec<u64>>>() else { break };
            records.extend(self.record(count, pcs));
            place = end;
        }
        (records, place * self.word_bytes)
    }

    /// Returns None for a record that was not counted or is not valid.
    fn record(&self, count: u64, mut words: Vec<u64>) -> Option<SpooledRecord> {
        if count == 0 || words.contains(&0) {
            return None;
        }
        let thread = if self.is_by_thread { words.pop()? } else { 0 };
        (!words.is_empty()).then_some(SpooledRecord { count, pcs: words, thread })
    }

    /// Reads the threads; each is at its index.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn threads(&self, source: &impl SpoolSource) -> io::Result<Vec<Option<Thread>>> {
        if !self.is_by_thread {
            return Ok(Vec::new());
        }
        let bytes = read(source, THREADS as u64, (MAX_THREADS * THREAD_BYTES) as u64)?;
        let thread = |bytes: &[u8]| {
            let id = u32::try_from(number_at(bytes, 0)?).ok().filter(|id| *id != 0)?;
            let name = ThreadName::from_words([number_at(bytes, 8)?, number_at(bytes, 16)?]);
            Some(Thread { id, name })
        };
        Ok(bytes.chunks_exact(THREAD_BYTES).map(thread).collect())
    }
}

struct RecordHead {
    place: usize,
    depth: usize,
}

struct Words<'b> {
    bytes: &'b [u8],
    width: usize,
}

impl Words<'_> {
    fn get(&self, i: usize) -> Option<u64> {
        let start = i.checked_mul(self.width)?;
        let bytes = self.bytes.get(start..start.checked_add(self.width)?)?;
        match *bytes {
            [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
            _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
        }
    }

    /// Finds the first record at or after `place`.
    fn next_head(&self, place: usize) -> Option<RecordHead> {
        let mark = if self.width == 8 { MARK_OF_8 } else { MARK_OF_4 };
        (place..self.bytes.len() / self.width).find_map(|place| {
            let marked = self.get(place + 1)?;
            let depth = marked & DEPTH_MASK as u64;
            let is_head = marked & !(DEPTH_MASK as u64) == mark && (1..=MAX_DEPTH).contains(&depth);
            is_head.then_some(RecordHead { place, depth: depth as usize })
        })
    }
}
