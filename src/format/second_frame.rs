//! Guard against readers that delete correct second frames.
//!
//! Some profilers leave their signal handler as the second frame of each call stack. google/pprof
//! (`profile/legacy_profile.go`) deletes such frames. It subtracts 1 from every PC except the
//! leaf's, and then:
//!
//! 1. Twice, it deletes an address that is second in at least n - n/32 of the n *records*.
//! 2. It deletes a second address that equals the leaf minus 1: the file has the same PC twice.
//!
//! gperftools' Perl reader deletes second addresses on which *all* stacks agree. A correct profile
//! of `main -> f -> leaf` with one call site loses frames in this way.
//!
//! The guard writes some second PCs as PC - 1. A second PC is a return address, and a reader looks
//! up the byte before it, which belongs to the call. A call has at least two bytes (a call through
//! a register on x86 has two), so PC - 1 names the same call, and PC - 2 might not. With PC - 1 in
//! a part of the records, there are two addresses, and neither is in the majority. With the leaf L
//! and the second PC S, each record has a usual second word and a spare one:
//!
//! | chain | usual | spare | cost of the spare |
//! | --- | --- | --- | --- |
//! | L = S | S - 1 | S | rule 2 deletes the frame |
//! | L = S - 1 | S | S - 1 | rule 2 deletes the frame |
//! | otherwise | S | S - 1 | none |
//! | S = 1 | S | none, since 0 must not be written | |
//!
//! Only one usual word can be shared by 3/4 of the records or more. Up to half of the records that
//! share it use their spare word, if that costs nothing. The other records are at most a quarter,
//! so neither word is second in more than 5/8 of all. This is well below 31/32, because a live
//! table may gain records between counting and writing.
//!
//! google/pprof still deletes frames in two cases. One record of one sample is a majority of
//! itself; more samples are written as two records. If more than 15/16 of the records have a leaf
//! of S or S - 1, a sixteenth of all lose a frame to the spare word; otherwise each would lose two.

use std::io::Write;

use super::word::SlotWidth;
use super::writer::{ChainShape, Pieces, ProfileWriter, WriteError};

/// Writes all records of a source and guards their second frames; returns the number of records
/// written. Allocates nothing.
///
/// The source is walked three times. Each walk should yield the same `(count, chain)` pairs, by the
/// rules of [`ProfileWriter::record_from`]. Records that a live table gains between walks are
/// written too. Several calls may write one profile: without a majority in any part, there is none
/// in the whole. Only a part of one record of one sample cannot be guarded.
///
/// # Errors
/// Those of [`ProfileWriter::record_from`]. If a PC is too wide for its slot, nothing is written.
///
/// ```
/// use sigprof::format::{ProfileWriter, SlotLayout, write_records};
///
/// let samples = [(1, vec![0x4010, 0x5020, 0x6030]), (1, vec![0x4018, 0x5020, 0x6030])];
/// let mut writer = ProfileWriter::new(Vec::new(), SlotLayout::NATIVE);
/// writer.header(10_000)?;
/// let records = || samples.iter().map(|(count, pcs)| (*count, pcs.iter().copied()));
/// assert_eq!(write_records(&mut writer, records)?, 2);
/// writer.trailer()?;
/// # Ok::<(), sigprof::format::WriteError>(())
/// ```
pub fn write_records<W, R, I>(
    writer: &mut ProfileWriter<W>,
    records: impl Fn() -> R,
) -> Result<u64, WriteError>
where
    W: Write,
    R: IntoIterator<Item = (u64, I)>,
    I: Iterator<Item = usize> + Clone,
{
    let width = writer.layout().width;
    let mut vote = SecondFrameVote::new();
    for (count, pcs) in records() {
        if let Some(shape) = writer.measure(words(pcs))? {
            vote.observe(shape.first, shape.second, record_count(count, width));
        }
    }
    let mut tally = vote.tally();
    for (count, pcs) in records() {
        if let Some(shape) = writer.measure(words(pcs))? {
            tally.observe(shape.first, shape.second, record_count(count, width));
        }
    }
    let mut plan = tally.plan();
    let mut written: u64 = 0;
    for (count, pcs) in records() {
        let Some(shape) = writer.measure(words(pcs.clone()))? else { continue };
        for piece in plan.pieces(count, width) {
            let second = plan.second_word(&shape);
            writer.piece(piece, &shape, second, words(pcs.clone()))?;
            written = written.saturating_add(1);
        }
    }
    Ok(written)
}

/// First walk: finds the only word that can be second in most records (Boyer and Moore's majority
/// vote). The walks are public for sources that do not fit [`write_records`].
#[derive(Clone, Debug, Default)]
pub struct SecondFrameVote {
    candidate: u64,
    lead: u64,
}

impl SecondFrameVote {
    /// Returns a vote without records.
    pub const fn new() -> Self {
        Self { candidate: 0, lead: 0 }
    }

    /// Adds `records` records of one call stack with these first two PCs.
    pub fn observe(&mut self, first: u64, second: Option<u64>, records: u64) {
        let Some(second) = second else { return };
        let word = SecondWord::of(first, second).usual;
        if word == self.candidate {
            self.lead = self.lead.saturating_add(records);
        } else if records > self.lead {
            self.candidate = word;
            self.lead = records.saturating_sub(self.lead);
        } else {
            self.lead = self.lead.saturating_sub(records);
        }
    }

    /// Ends the first walk.
    pub fn tally(self) -> SecondFrameTally {
        SecondFrameTally { candidate: self.candidate, records: 0, free: 0, costly: 0 }
    }
}

/// Second walk: counts the records that share the word of the first walk.
#[derive(Clone, Debug)]
pub struct SecondFrameTally {
    candidate: u64,
    records: u64,
    /// Records that share the candidate, with a spare word that costs nothing.
    free: u64,
    /// Records that share the candidate, with a spare word that costs a frame.
    costly: u64,
}

impl SecondFrameTally {
    /// Adds the same records as [`SecondFrameVote::observe`].
    pub fn observe(&mut self, first: u64, second: Option<u64>, records: u64) {
        self.records = self.records.saturating_add(records);
        let Some(second) = second else { return };
        let word = SecondWord::of(first, second);
        if word.usual == self.candidate {
            let class = if word.spare_is_free { &mut self.free } else { &mut self.costly };
            *class = class.saturating_add(records);
        }
    }

    /// Ends the second walk and decides how the third walk writes.
    pub fn plan(self) -> SecondFramePlan {
        let splits = self.records == 1;
        let scale = if splits { 2 } else { 1 };
        let [records, free, costly] = [self.records, self.free, self.costly].map(|n| n.saturating_mul(scale));
        let shared = free.saturating_add(costly);
        let mut plan = SecondFramePlan {
            candidate: self.candidate,
            splits,
            free: EvenShare::new(0, free),
            costly: EvenShare::new(0, costly),
        };
        if shared == 0 || shared.saturating_mul(4) < records.saturating_mul(3) {
            return plan;
        }
        let spilled = free.min(shared / 2);
        plan.free = EvenShare::new(spilled, free);
        let left = shared.saturating_sub(spilled);
        if left.saturating_mul(16) > records.saturating_mul(15) {
            plan.costly = EvenShare::new((records / 16).saturating_add(1).min(costly), costly);
        }
        plan
    }
}

/// Third walk: chooses the second word of each record.
#[derive(Clone, Debug)]
pub struct SecondFramePlan {
    candidate: u64,
    splits: bool,
    free: EvenShare,
    costly: EvenShare,
}

impl SecondFramePlan {
    /// Returns the second word of the next record: `second` or `second - 1`, and 0 only for 0.
    pub fn second_pc(&mut self, first: u64, second: u64) -> u64 {
        let word = SecondWord::of(first, second);
        let share = if word.spare_is_free { &mut self.free } else { &mut self.costly };
        if word.usual == self.candidate && share.next() { word.spare } else { word.usual }
    }

    /// True if the profile has one record, to be written as two if its count allows.
    pub fn splits(&self) -> bool {
        self.splits
    }

    fn second_word(&mut self, shape: &ChainShape) -> Option<u64> {
        shape.second.map(|second| self.second_pc(shape.first, second))
    }

    fn pieces(&self, count: u64, width: SlotWidth) -> Pieces {
        if self.splits {
            Pieces::at_least_two(count, width.max_value())
        } else {
            Pieces::new(count, width.max_value())
        }
    }
}

/// The two possible second words of a record; see the table at the head of this file.
struct SecondWord {
    usual: u64,
    spare: u64,
    spare_is_free: bool,
}

impl SecondWord {
    fn of(first: u64, second: u64) -> Self {
        let lower = second.saturating_sub(1);
        if lower == 0 {
            Self { usual: second, spare: second, spare_is_free: false }
        } else if first == second {
            Self { usual: lower, spare: second, spare_is_free: false }
        } else {
            Self { usual: second, spare: lower, spare_is_free: first != lower }
        }
    }
}

/// Chooses `chosen` of every `all` items, spread evenly, for any number of items.
#[derive(Clone, Debug)]
struct EvenShare {
    chosen: u64,
    all: u64,
    carried: u64,
}

impl EvenShare {
    fn new(chosen: u64, all: u64) -> Self {
        Self { chosen, all, carried: 0 }
    }

    fn next(&mut self) -> bool {
        self.carried = self.carried.saturating_add(self.chosen);
        let is_chosen = self.chosen > 0 && self.carried >= self.all;
        if is_chosen {
            self.carried = self.carried.saturating_sub(self.all);
        }
        is_chosen
    }
}

fn words<I: Iterator<Item = usize> + Clone>(pcs: I) -> impl Iterator<Item = u64> + Clone {
    pcs.map(|pc| pc as u64)
}

fn record_count(count: u64, width: SlotWidth) -> u64 {
    Pieces::new(count, width.max_value()).remaining()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::super::word::SlotLayout;
    use super::*;

    type Samples = Vec<(u64, Vec<usize>)>;

    fn written_in(samples: &[(u64, Vec<usize>)], layout: SlotLayout) -> Vec<(u64, Vec<u64>)> {
        let mut writer = ProfileWriter::new(Vec::new(), layout);
        let number =
            write_records(&mut writer, || samples.iter().map(|(count, pcs)| (*count, pcs.iter().copied())))
                .unwrap();
        let bytes = writer.into_inner();
        let mut slots = bytes.chunks(layout.width.bytes()).map(|slot| layout.decode(slot).unwrap());
        let mut records = Vec::new();
        while let Some(count) = slots.next() {
            let depth = slots.next().unwrap() as usize;
            let pcs: Vec<u64> = slots.by_ref().take(depth).collect();
            assert!(count >= 1 && depth >= 1 && pcs.len() == depth && !pcs.contains(&0));
            records.push((count, pcs));
        }
        assert_eq!(records.len() as u64, number);
        records
    }

    fn written(samples: &[(u64, Vec<usize>)]) -> Vec<(u64, Vec<u64>)> {
        written_in(samples, SlotLayout::NATIVE)
    }

    /// The frames that the reader described above deletes from each record.
    fn deletions(records: &[(u64, Vec<u64>)]) -> Vec<u32> {
        let mut chains: Vec<Vec<u64>> = records.iter().map(|(_, pcs)| pcs.clone()).collect();
        let mut deleted = vec![0; chains.len()];
        for chain in &mut chains {
            chain.iter_mut().skip(1).for_each(|pc| *pc = pc.wrapping_sub(1));
        }
        let enough = chains.len() - chains.len() / 32;
        for _ in 0..2 {
            let mut shares: HashMap<u64, usize> = HashMap::new();
            for chain in &chains {
                if let Some(&address) = chain.get(1) {
                    *shares.entry(address).or_default() += 1;
                }
            }
            let Some((&artefact, _)) = shares.iter().find(|&(_, &share)| share >= enough) else { continue };
            for (chain, deleted) in chains.iter_mut().zip(&mut deleted) {
                if chain.get(1) == Some(&artefact) {
                    chain.remove(1);
                    *deleted += 1;
                }
            }
        }
        for (chain, deleted) in chains.iter_mut().zip(&mut deleted) {
            if chain.len() > 1 && chain[0] == chain[1].wrapping_add(1) {
                chain.remove(1);
                *deleted += 1;
            }
        }
        deleted
    }

    /// Checks that all samples and PCs are kept, except the 1 that a second PC may lose.
    fn assert_faithful(samples: &[(u64, Vec<usize>)], records: &[(u64, Vec<u64>)]) {
        let mut rest = records.iter();
        for (count, pcs) in samples {
            let pcs: Vec<u64> = pcs.iter().map(|&pc| pc as u64).take_while(|&pc| pc != 0).collect();
            let mut left = if pcs.is_empty() { 0 } else { *count };
            while left > 0 {
                let (count, found) = rest.next().expect("a record is missing");
                left = left.checked_sub(*count).expect("a record has too many samples");
                assert_eq!(found.len(), pcs.len());
                for (depth, (&found, &pc)) in found.iter().zip(&pcs).enumerate() {
                    assert!(
                        found == pc || depth == 1 && found == pc - 1,
                        "{found:#x} for {pc:#x} at {depth}"
                    );
                }
            }
        }
        assert!(rest.next().is_none());
    }

    /// `number` stacks of different leaves under one call site, with `count` samples each.
    fn one_call_site(number: usize, count: u64) -> Samples {
        (0..number).map(|i| (count, vec![0x1000 + 4 * i, 0x2000, 0x3000, 0x4000])).collect()
    }

    #[test]
    fn emulated_reader_deletes_two_frames_of_an_unguarded_profile() {
        for number in [1, 2, 3, 31, 32, 33, 64, 65] {
            let records: Vec<(u64, Vec<u64>)> = one_call_site(number, 1)
                .into_iter()
                .map(|(count, pcs)| (count, pcs.into_iter().map(|pc| pc as u64).collect()))
                .collect();
            assert_eq!(deletions(&records), vec![2; number]);
        }
        assert_eq!(deletions(&[(1, vec![5, 5, 9]), (1, vec![7, 6, 9])]), [1, 0]);
    }

    #[test]
    fn keeps_all_frames_of_one_call_site() {
        for number in 2..200 {
            let samples = one_call_site(number, 1);
            let records = written(&samples);
            assert_faithful(&samples, &records);
            assert_eq!(records.len(), number);
            assert_eq!(deletions(&records), vec![0; number]);
        }
    }

    #[test]
    fn splits_a_single_record() {
        for count in [2, 3, 7, u64::from(u32::MAX), SlotLayout::NATIVE.width.max_value()] {
            let samples = one_call_site(1, count);
            let records = written(&samples);
            assert_faithful(&samples, &records);
            assert_eq!(deletions(&records), [0, 0]);
            assert_eq!([records[0].1[1], records[1].1[1]], [0x2000, 0x1fff]);
        }
        assert_eq!(written(&one_call_site(1, 1)).len(), 1);
        assert_eq!(written(&[(5, vec![7])]).iter().map(|(count, _)| count).sum::<u64>(), 5);
    }

    #[test]
    fn guards_records_that_are_split_from_a_large_count() {
        let layout = SlotLayout { width: SlotWidth::Four, ..SlotLayout::NATIVE };
        let count = 100 * u64::from(u32::MAX) + 3;
        let others: Samples = (0..3).map(|n| (1, vec![0x1000, 0x5000 + 16 * n])).collect();
        for (before, after) in [(0, 0), (2, 0), (1, 2), (0, 3)] {
            let mut samples = others[..before].to_vec();
            samples.extend(one_call_site(1, count));
            samples.extend_from_slice(&others[before..before + after]);
            let records = written_in(&samples, layout);
            assert!(records.len() > 100);
            assert_faithful(&samples, &records);
            assert_eq!(deletions(&records), vec![0; records.len()]);
        }
    }

    #[test]
    fn keeps_the_caller_of_a_leaf_at_its_return_address() {
        let mut samples = one_call_site(40, 1);
        samples.push((1, vec![0x2000, 0x2000, 0x3000]));
        samples.push((1, vec![0x1fff, 0x2000, 0x3000]));
        samples.push((1, vec![0x2001, 0x2001, 0x3000]));
        let records = written(&samples);
        assert_faithful(&samples, &records);
        assert_eq!(deletions(&records), vec![0; records.len()]);
    }

    #[test]
    fn leaves_a_profile_without_a_majority_unchanged() {
        let samples: Samples = (0..50).map(|i| (1, vec![0x1000, 0x2000 + 16 * i, 0x3000])).collect();
        for ((_, pcs), (_, found)) in samples.iter().zip(written(&samples)) {
            assert_eq!(found, [pcs[0] as u64, pcs[1] as u64, 0x3000]);
        }
    }

    #[test]
    fn limits_the_loss_if_all_stacks_begin_with_a_doubled_pc() {
        for number in [2, 3, 31, 32, 33, 64, 65, 1000] {
            let samples: Samples =
                (0..number).map(|i| (1, vec![0x2000, 0x2000, 0x3000 + 4 * i, 0x4000])).collect();
            let lost = deletions(&written(&samples));
            assert!(lost.iter().all(|&frames| frames <= 1));
            assert!(lost.iter().sum::<u32>() as usize <= number / 16 + 1);
        }
    }

    #[test]
    fn spreads_a_share_evenly() {
        for (chosen, all) in [(0, 0), (0, 7), (1, 2), (2, 5), (7, 7)] {
            let mut share = EvenShare::new(chosen, all);
            for _ in 0..3 {
                assert_eq!((0..all.max(1)).filter(|_| share.next()).count() as u64, chosen);
            }
        }
    }

    #[test]
    fn never_writes_pc_zero() {
        for samples in [vec![(4, vec![9, 1, 5])], vec![(4, vec![1, 1, 5])], vec![(2, vec![2, 2]); 9]] {
            assert_faithful(&samples, &written(&samples));
        }
    }

    #[test]
    fn guards_records_that_are_added_while_writing() {
        let samples = one_call_site(400, 1);
        let walk = Cell::new(0);
        let mut writer = ProfileWriter::new(Vec::new(), SlotLayout::NATIVE);
        write_records(&mut writer, || {
            walk.set(walk.get() + 1);
            samples.iter().take([1, 4, 400][walk.get() - 1]).map(|(count, pcs)| (*count, pcs.iter().copied()))
        })
        .unwrap();
        let slots: Vec<u64> = writer
            .into_inner()
            .chunks(size_of::<usize>())
            .map(|slot| SlotLayout::NATIVE.decode(slot).unwrap())
            .collect();
        let records: Vec<(u64, Vec<u64>)> =
            slots.chunks(6).map(|record| (record[0], record[2..].to_vec())).collect();
        assert_eq!(records.len(), 400);
        assert_eq!(deletions(&records), vec![0; 400]);
    }

    #[test]
    fn keeps_all_possible_frames_of_random_profiles() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % limit
        };
        let sizes = [0, 1, 2, 3, 4, 30, 31, 32, 33, 63, 64, 65, 96, 97];
        let (mut kept, mut could_not) = (0, 0);
        for _ in 0..20_000 {
            let size = sizes[below(sizes.len())];
            let spread = [1, 2, 3, 40][below(4)];
            let stray = 1 + below(64);
            let samples: Samples = (0..size)
                .map(|_| {
                    // Neighbouring addresses: callers differ by 1, leaves equal them.
                    let caller = if below(stray) == 0 { 100 + below(4) } else { 100 + below(spread) };
                    let leaf = [100 + below(4), caller, caller - 1, 500 + below(9)][below(4).max(below(4))];
                    let mut pcs = vec![leaf, caller];
                    pcs.extend((0..below(4)).map(|_| 100 + below(3) * below(2)));
                    pcs.truncate(if below(stray) == 0 { 1 + below(5) } else { 5 });
                    (below(3) as u64 + u64::from(below(50) != 0), pcs)
                })
                .collect();
            let records = written(&samples);
            assert_faithful(&samples, &records);
            let lost = deletions(&records);
            if lost.iter().all(|&frames| frames == 0) {
                kept += 1;
                continue;
            }
            could_not += 1;
            if records.len() == 1 {
                assert_eq!(records[0].0, 1, "a record of several samples was not split");
                continue;
            }
            let costly = records.iter().filter(|(_, pcs)| pcs.len() > 1 && pcs[0].abs_diff(pcs[1]) <= 1);
            assert!(costly.count() * 16 > records.len() * 15, "frames lost without need: {samples:x?}");
            assert!(lost.iter().all(|&frames| frames <= 1), "{samples:x?}");
            assert!(lost.iter().sum::<u32>() as usize <= records.len() / 16 + 1, "{samples:x?}");
        }
        assert!(kept > 10_000 && could_not > 100, "{kept} kept, {could_not} could not be");
    }
}
