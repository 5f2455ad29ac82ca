//! Profiles and lists of mapped objects, read and written.

use crate::format::{ByteOrder, CpuProfile, Mapping, ProfileWriter, SlotLayout, SlotWidth, write_records};
use std::collections::HashMap;

pub(super) fn any_profile(bytes: &[u8]) {
    let Ok(profile) = CpuProfile::parse(bytes) else { return };
    let total: u128 = profile.records.iter().map(|record| u128::from(record.count)).sum();
    assert_eq!(profile.total_samples(), total);
    assert!(profile.records.iter().all(|record| record.count > 0 && !record.pcs.is_empty()));
    let _ = profile.duration();
}

/// Reads lines of mapped objects, writes them and reads them again.
pub(super) fn any_maps(bytes: &[u8]) {
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(mapping) = Mapping::parse_line(line) else { continue };
        assert!(mapping.start < mapping.end && mapping.contains(mapping.start));
        assert!(!mapping.contains(mapping.end));
        let mut written = Vec::new();
        mapping.write_line(&mut written, SlotWidth::Eight).expect("a vector takes all");
        let again = Mapping::parse_line(written.strip_suffix(b"\n").expect("a line"));
        let again = again.expect("what was written can be read");
        assert_eq!((again.start, again.end, again.offset), (mapping.start, mapping.end, mapping.offset));
    }
}

/// Writes records and reads them again: every sample and frame remains, and readers delete none.
pub(super) fn any_records(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = input.byte();
    let layout = SlotLayout {
        width: if kind & 1 == 0 { SlotWidth::Eight } else { SlotWidth::Four },
        order: if kind & 2 == 0 { ByteOrder::Little } else { ByteOrder::Big },
    };
    let period = input.word().max(1) & layout.width.max_value();
    // A count is split into several records; 16 of them are enough.
    let most = layout.width.max_value().saturating_mul(16);
    let records = input.records(most);
    let mut writer = ProfileWriter::new(Vec::new(), layout);
    if writer.header(period).is_err() {
        assert_eq!(period, 0, "a period that fits is taken");
        return;
    }
    let written = write_records(&mut writer, || {
        records.iter().map(|(count, pcs)| (*count, pcs.iter().map(|&pc| pc as usize)))
    });
    let Ok(written) = written else {
        let is_wide = |pc: &u64| *pc > layout.width.max_value();
        assert!(records.iter().any(|(_, pcs)| pcs.iter().any(is_wide)), "what fits is taken");
        return;
    };
    writer.trailer().expect("a vector takes all");
    let length = writer.bytes_written();
    let file = writer.into_inner();
    assert_eq!(file.len() as u64, length);
    let profile = CpuProfile::parse(&file).expect("what was written can be read");
    // A file without records may match several layouts.
    if !profile.records.is_empty() {
        assert_eq!((profile.layout, profile.period_micros), (layout, period));
    }
    assert_eq!(profile.records.len() as u64, written);
    expect_all_samples(&records, &profile);
    expect_no_majority(&profile);
}

/// Checks the samples of each stack. A second PC may be PC - 1, which names the same call.
fn expect_all_samples(records: &[(u64, Vec<u64>)], profile: &CpuProfile) {
    let mut expected = HashMap::<Vec<u64>, i128>::new();
    for (count, pcs) in records {
        let chain: Vec<u64> = pcs.iter().copied().take_while(|&pc| pc != 0).collect();
        if !chain.is_empty() {
            *expected.entry(chain).or_default() += i128::from(*count);
        }
    }
    // Of stacks with neighbouring second PCs, only the sums over each run of neighbours must agree.
    let mut difference = HashMap::<(u64, Vec<u64>), Vec<(u64, i128)>>::new();
    let mut note = |chain: &[u64], count: i128| {
        let key = (chain[0], chain.get(2..).unwrap_or_default().to_vec());
        difference.entry(key).or_default().push((chain.get(1).copied().unwrap_or(0), count));
    };
    expected.iter().for_each(|(chain, count)| note(chain, *count));
    profile.records.iter().for_each(|record| note(&record.pcs, -i128::from(record.count)));
    for (key, mut seconds) in difference {
        seconds.sort_unstable();
        // In each run, the samples written at S - 1 are missing at S.
        let mut owed = 0;
        for run in seconds.chunk_by(|one, next| next.0 - one.0 <= 1) {
            owed += run.iter().map(|(_, count)| count).sum::<i128>();
            assert_eq!(owed, 0, "samples of {key:x?} from {:x?} on, {} addresses", run[0], run.len());
        }
    }
}

/// Checks that google/pprof deletes no second frame (exceptions: `format/second_frame.rs`).
fn expect_no_majority(profile: &CpuProfile) {
    let count = profile.records.len();
    let mut seconds = HashMap::<u64, usize>::new();
    for record in &profile.records {
        if let Some(&second) = record.pcs.get(1) {
            *seconds.entry(second).or_default() += 1;
        }
    }
    let is_lone_sample = count == 1 && profile.total_samples() == 1;
    for (second, times) in seconds {
        // A second PC of 1 cannot be guarded, because 0 ends a stack.
        assert!(
            is_lone_sample || second == 1 || times < count - count / 32,
            "{second:x} stands second {times} times"
        );
    }
}

/// Reads bytes one after another, then zeros.
struct Input<'b>(&'b [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Reads a length in bytes, then a number of that length.
    fn word(&mut self) -> u64 {
        let bytes = self.byte() % 9;
        (0..bytes).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// Reads stacks of few different addresses, some of them equal, each with a count.
    fn records(&mut self, most: u64) -> Vec<(u64, Vec<u64>)> {
        let base = self.word();
        let mut records = Vec::new();
        while !self.0.is_empty() {
            let shape = self.byte();
            let count = if shape & 0x80 == 0 { u64::from(shape >> 4) } else { self.word().min(most) };
            let pcs = (0..shape & 15).map(|_| match self.byte() {
                0xff => self.word(),
                near => base.wrapping_add(u64::from(near)),
            });
            // A program has no wider PCs.
            let pcs = pcs.map(|pc| pc & usize::MAX as u64).collect();
            // Repeat the record, because majorities are of records.
            let times = if shape & 0x40 == 0 { 1 } else { self.byte() };
            records.extend(std::iter::repeat_n((count, pcs), usize::from(times)));
        }
        records
    }
}
