//! The steps of the last walk on a slot, for the next one.
//!
//! Ticks on one thread mostly find the same outer frames as the tick before. A frame is the same when its PC and its
//! stack pointer are, and then the same rule steps from it: no look-up is needed, and where the next frame is does not
//! depend on one. What the frame leads to is read from the stack as ever, so a trail can only save time.
//!
//! ```text
//! kept   | ................ | innermost ......... | ................. outermost |
//!                           ^ start               ^ joined: the walk under way has come to the last one's steps
//! fresh  | the steps of the walk under way up to there |
//! ```
//!
//! When a walk has come to its end, its fresh steps take their place before those that it joined. A trail counts only as
//! long as no rule was forgotten (`RuleCache::generation`).

use super::{memory::StackReader, rule::Rule};
use crate::sys::arch::{Registers, code_address};

/// How many steps are kept, at most: twice the depth of chains that is the rule. The innermost of others are taken
/// without help.
const LONGEST: usize = 512;

/// A frame, and how its caller is found.
#[derive(Clone, Copy)]
pub(super) struct CachedFrame {
    pub(super) pc: usize,
    pub(super) sp: usize,
    /// The caller's stack pointer.
    pub(super) cfa: usize,
    /// Has the return address on the stack.
    pub(super) rule: Rule,
}

/// See the module. All zeros is an empty last_walk.
pub(crate) struct LastWalk {
    /// Filled from the end.
    kept: [CachedFrame; LONGEST],
    fresh: [CachedFrame; LONGEST],
    /// How many of `kept` are steps.
    kept_length: usize,
    /// The cache's generation when the last walk began.
    generation: usize,
}

impl LastWalk {
    /// Forgets the last walk. In a forked child, for a walk that was keeping its steps when the process was copied: steps
    /// that are half one walk's and half another's would lead error.
    pub(crate) fn forget(&mut self) {
        self.kept_length = 0;
    }

    /// Begins a walk, while the rule cache is of this `generation`.
    #[inline]
    pub(super) fn begin(&mut self, generation: usize) -> FrameReuse<'_> {
        if self.generation != generation {
            self.generation = generation;
            self.kept_length = 0;
        }
        let next = LONGEST.saturating_sub(self.kept_length);
        FrameReuse { last_walk: self, next, joined: None, unrestored: next, written: 0 }
    }
}

/// A walk under way.
pub(super) struct FrameReuse<'t> {
    last_walk: &'t mut LastWalk,
    /// The first step of the last walk that is not known to lie further in than the frame at hand.
    next: usize,
    /// Where the last walk was joined, if all frames since then were its.
    joined: Option<usize>,
    /// The first step since then whose saved registers have not been restored yet.
    unrestored: usize,
    /// How many steps are fresh; the innermost ones if there are too many.
    written: usize,
}

impl FrameReuse<'_> {
    /// True when the next frame to be met may be one of the last walk's.
    #[inline(always)]
    pub(super) fn can_reuse(&self, sp: usize) -> bool {
        self.last_walk.kept.get(self.next).is_some_and(|step| step.sp <= sp)
    }

    /// Steps through frames that are those of the last walk, from the one at `pc` and `sp`; fills `room` with their PCs.
    /// Gives their number, and the PC and stack pointer of the frame beyond. Frames are asked for on the way out.
    ///
    /// Other registers are left as they are: mostly nobody asks for them, and [`restore`](Self::restore) makes up for it.
    #[inline(never)]
    pub(super) fn reuse_frames(
        &mut self,
        (mut pc, mut sp): (usize, usize),
        registers: &mut Registers,
        stack: &mut StackReader,
        room: &mut [usize],
    ) -> (usize, (usize, usize)) {
        let first = self.next;
        let left = self.last_walk.kept.get(first..).unwrap_or_default();
        let passed = left.iter().take_while(|step| step.sp < sp).count();
        let left = left.get(passed..).unwrap_or_default();
        let mut taken = 0;
        for (step, place) in left.iter().zip(room) {
            if step.sp != sp || step.pc != pc {
                break;
            }
            let Some(below) = step.rule.return_address() else { break };
            let Some(caller) = stack.read(step.cfa.wrapping_sub(below)) else { break };
            *place = pc;
            (pc, sp) = (code_address(caller), step.cfa);
            taken += 1;
        }
        if passed > 0 {
            self.leave(registers, stack);
        }
        if taken > 0 && self.joined.is_none() {
            self.joined = Some(first + passed);
            self.unrestored = first + passed;
        }
        self.next = first + passed + taken;
        (taken, (pc, sp))
    }

    /// Restores the registers that the frames since the last walk was joined have saved. Has to come before any step that
    /// may ask for them.
    #[inline]
    pub(super) fn restore(&mut self, registers: &mut Registers, stack: &mut StackReader) {
        if self.joined.is_some() && self.unrestored < self.next {
            for step in self.last_walk.kept.get(self.unrestored..self.next).unwrap_or_default() {
                step.rule.for_each_saved(|register, below| {
                    let value = stack.read(step.cfa.wrapping_sub(below));
                    registers.set(register, value);
                });
            }
            self.unrestored = self.next;
        }
    }

    /// Notes a step that is not the last walk's, before it is taken.
    #[inline]
    pub(super) fn note(&mut self, step: CachedFrame, registers: &mut Registers, stack: &mut StackReader) {
        self.leave(registers, stack);
        self.write(step);
    }

    /// Makes the steps since the last walk was joined fresh ones: the walk has left it again.
    #[inline(always)]
    fn leave(&mut self, registers: &mut Registers, stack: &mut StackReader) {
        if self.joined.is_some() {
            self.restore(registers, stack);
            self.refresh();
        }
    }

    #[inline(never)]
    fn refresh(&mut self) {
        for place in self.joined.take().unwrap_or(self.next)..self.next {
            let Some(&step) = self.last_walk.kept.get(place) else { return };
            self.write(step);
        }
    }

    #[inline(always)]
    fn write(&mut self, step: CachedFrame) {
        if let Some(place) = self.last_walk.fresh.get_mut(self.written) {
            *place = step;
            self.written += 1;
        }
    }

    /// The walk has come to its end.
    #[inline]
    pub(super) fn finish(mut self) {
        if self.next < LONGEST {
            self.refresh();
        }
        let start = self.joined.unwrap_or(LONGEST);
        let LastWalk { kept, fresh, kept_length, .. } = self.last_walk;
        // Of too many, the outermost are kept.
        let fits = self.written.min(start);
        let from = fresh.get(self.written - fits..self.written).unwrap_or_default();
        // Both are as long; a copy of slices would check it, and panic.
        let to = kept.get_mut(start - fits..start).unwrap_or_default();
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
        *kept_length = LONGEST - start + fits;
    }
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use super::super::rule::Row;
    use super::*;
    use crate::sys::memory::choose_probe;

    const WORD: usize = size_of::<usize>();
    const RBX: u16 = 3;

    fn empty() -> Box<LastWalk> {
        choose_probe().unwrap();
        let step = CachedFrame { pc: 0, sp: 0, cfa: 0, rule: Rule::ENTRY };
        Box::new(LastWalk { kept: [step; LONGEST], fresh: [step; LONGEST], kept_length: 0, generation: 0 })
    }

    /// A stack that frames are put on.
    struct StackWords(Vec<usize>);

    impl StackWords {
        fn new() -> Self {
            Self((0..4 * LONGEST).collect())
        }

        fn at(&self, place: usize) -> usize {
            self.0.as_ptr() as usize + place * WORD
        }

        /// Walks over frames, given as PC and place on the stack, each with a register saved in its lowest word; gives
        /// for which of them the trail led on.
        fn walk(
            &mut self,
            last_walk: &mut LastWalk,
            generation: usize,
            frames: &[(usize, usize)],
        ) -> Vec<bool> {
            for pair in frames.windows(2) {
                self.0[pair[1].1 - 1] = pair[1].0;
            }
            let mut stack = StackReader::new(self.at(0), 0);
            let mut registers = Registers::from_values(&[]);
            let mut tracing = last_walk.begin(generation);
            let (mut known, mut at) = (Vec::new(), 0);
            while at < frames.len() {
                let (pc, sp) = (frames[at].0, self.at(frames[at].1));
                let mut room = vec![0; frames.len() - at];
                let (taken, beyond) = tracing.reuse_frames((pc, sp), &mut registers, &mut stack, &mut room);
                assert!(room[..taken].iter().eq(frames[at..at + taken].iter().map(|(pc, _)| pc)));
                known.extend(vec![true; taken]);
                at += taken;
                if let Some(&(pc, place)) = frames.get(at) {
                    assert_eq!(beyond, (pc, self.at(place)));
                    tracing.restore(&mut registers, &mut stack);
                    if taken > 0 {
                        let saved = frames[at - 1].1;
                        assert_eq!(registers.get(RBX), Some(self.0[saved]), "as the last function saved it");
                    }
                    let next = frames.get(at + 1).map_or(place + 4, |next| next.1);
                    let mut row = Row::at_entry(((next - place) * WORD) as i64);
                    row.saved[0] = Some(-(((next - place) * WORD) as i64));
                    let rule = Rule::compact(&row).unwrap();
                    let step = CachedFrame { pc, sp: self.at(place), cfa: self.at(next), rule };
                    tracing.note(step, &mut registers, &mut stack);
                    known.push(false);
                    at += 1;
                }
            }
            tracing.finish();
            known
        }
    }

    #[test]
    fn frames_that_were_met_by_the_last_walk_are_known() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130), (0x1004, 140)];
        assert_eq!(memory.walk(&mut last_walk, 0, &frames), [false; 4]);
        // Beyond the outermost frame the trail leads to a word that is no frame of the test's.
        assert_eq!(memory.walk(&mut last_walk, 0, &frames)[..3], [true; 3]);
        // Other frames inside, and the same outside.
        let inside = [(0x1009, 75), (0x1008, 98), (0x1002, 120), (0x1003, 130), (0x1004, 140)];
        assert_eq!(memory.walk(&mut last_walk, 0, &inside)[..4], [false, false, true, true]);
        // The same frame with another caller, and with another extent.
        assert_eq!(
            memory.walk(&mut last_walk, 0, &[(0x1002, 120), (0x1007, 130), (0x1004, 140)])[..2],
            [true, false]
        );
        assert!(!memory.walk(&mut last_walk, 0, &[(0x1002, 121), (0x1007, 130)])[0]);
    }

    #[test]
    fn nothing_is_known_once_rules_were_forgotten() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130)];
        memory.walk(&mut last_walk, 0, &frames);
        assert_eq!(memory.walk(&mut last_walk, 1, &frames), [false; 3]);
        assert_eq!(memory.walk(&mut last_walk, 1, &frames)[..2], [true; 2]);
        assert_eq!(memory.walk(&mut last_walk, 0, &frames), [false; 3]);
    }

    #[test]
    fn a_trail_that_was_forgotten_leads_nowhere() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130)];
        memory.walk(&mut last_walk, 0, &frames);
        last_walk.forget();
        assert_eq!(memory.walk(&mut last_walk, 0, &frames), [false; 3]);
        assert_eq!(memory.walk(&mut last_walk, 0, &frames)[..2], [true; 2]);
    }

    #[test]
    fn a_walk_that_did_not_come_to_its_end_does_not_count() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130)];
        memory.walk(&mut last_walk, 0, &frames);
        let other = CachedFrame { pc: 0x1005, sp: memory.at(100), cfa: memory.at(120), rule: Rule::ENTRY };
        let (mut registers, mut stack) = (Registers::from_values(&[]), StackReader::new(0, 0));
        last_walk.begin(0).note(other, &mut registers, &mut stack);
        assert_eq!(memory.walk(&mut last_walk, 0, &frames)[..2], [true; 2]);
        last_walk.begin(1).note(other, &mut registers, &mut stack);
        assert_eq!(memory.walk(&mut last_walk, 1, &frames), [false; 3]);
    }

    #[test]
    fn a_walk_longer_than_a_trail_is_cut() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames: Vec<_> = (0..LONGEST + 10).map(|i| (0x1000 + i, 4 + 2 * i)).collect();
        memory.walk(&mut last_walk, 0, &frames);
        let known = memory.walk(&mut last_walk, 0, &frames);
        assert_eq!(known.iter().filter(|&&known| known).count(), LONGEST);
    }
}
