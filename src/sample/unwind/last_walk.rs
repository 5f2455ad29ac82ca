//! Frame reuse: the steps of a slot's last walk, for its next one. Successive ticks of a thread
//! mostly share outer frames. An equal PC means an equal rule, so no look-up is needed, and with an
//! equal stack pointer an equal CFA. Return addresses are still read from the stack, so reuse
//! cannot change a chain.
//!
//! ```text
//! kept  | ................ | innermost .......... | ................ outermost |
//!                          ^ next at the begin    ^ joined: reached by the current walk
//! fresh | the current walk's steps up to there |
//! ```
//!
//! At its end, a walk's fresh steps are copied before those that it joined. If rules were dropped
//! (`RuleCache::generation`), all steps are invalid.
//!
//! Only steps after a call, with a CFA relative to the stack pointer, are kept. Those of the
//! current walk are `fresh[..written]`, which may be full, then `kept[joined..next]`; what the
//! latter saved before `unrestored` has been restored. A new step, or a passed one of `kept`, moves
//! the joined ones to `fresh`. So does an end before the outermost step. An example; `a` is the
//! outermost:
//!
//! ```text
//!                   fresh   kept[joined..next]   kept[next..]
//! begin                                          d c b a
//! e: a new step     e                            d c b a
//! d: passed         e                            c b a
//! c, b, a: reused   e       c b a
//! after the end: kept = e c b a
//! ```

use super::{memory::StackReader, rule::Rule};
use crate::sys::arch::{Registers, code_address};

/// The most steps that are kept: twice the depth of most chains. Of a longer walk the outermost are
/// kept if it is joined at its end, otherwise the innermost.
const LONGEST: usize = 512;

#[derive(Clone, Copy)]
pub(super) struct CachedFrame {
    pub(super) pc: usize,
    pub(super) sp: usize,
    /// The caller's stack pointer.
    pub(super) cfa: usize,
    /// Must store the return address on the stack.
    pub(super) rule: Rule,
}

/// All zeros is an empty one.
pub(crate) struct LastWalk {
    /// Filled from the end.
    kept: [CachedFrame; LONGEST],
    fresh: [CachedFrame; LONGEST],
    kept_length: usize,
    /// The cache's generation when the last walk began.
    generation: usize,
}

impl LastWalk {
    /// For a forked child: the copied steps may be a mixture of two walks'.
    pub(crate) fn forget(&mut self) {
        self.kept_length = 0;
    }

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

pub(super) struct FrameReuse<'t> {
    last_walk: &'t mut LastWalk,
    /// The first step in `kept` that may be at or outside the present frame.
    next: usize,
    /// The step in `kept` that was joined, if all frames since then matched.
    joined: Option<usize>,
    /// The first step since then with saved registers that were not restored.
    unrestored: usize,
    /// Number of fresh steps; the innermost if they do not all fit.
    written: usize,
}

impl FrameReuse<'_> {
    /// Whether the frame at `sp` may be in the last walk.
    #[inline(always)]
    pub(super) fn can_reuse(&self, sp: usize) -> bool {
        self.last_walk.kept.get(self.next).is_some_and(|step| step.sp <= sp)
    }

    /// Steps through frames of the last walk, from the one at `pc` and `sp`. Fills `room`; returns
    /// the number of steps, and PC and stack pointer of the next frame. Must be called outwards.
    /// Only [`restore`](Self::restore) updates the other registers: most walks never need them.
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

    /// Restores what the reused frames have saved; must precede steps that may read it.
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

    /// Adds a step that is not the last walk's, before it is taken.
    #[inline]
    pub(super) fn note(&mut self, step: CachedFrame, registers: &mut Registers, stack: &mut StackReader) {
        self.leave(registers, stack);
        self.write(step);
    }

    /// Makes the steps since the join fresh: the walk has left the last one.
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

    #[inline]
    pub(super) fn finish(mut self) {
        if self.next < LONGEST {
            self.refresh();
        }
        let start = self.joined.unwrap_or(LONGEST);
        let LastWalk { kept, fresh, kept_length, .. } = self.last_walk;
        let fits = self.written.min(start);
        let from = fresh.get(self.written - fits..self.written).unwrap_or_default();
        // A copy of slices would check their equal lengths, and contain a panic.
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

    struct StackWords(Vec<usize>);

    impl StackWords {
        fn new() -> Self {
            Self((0..4 * LONGEST).collect())
        }

        fn at(&self, place: usize) -> usize {
            self.0.as_ptr() as usize + place * WORD
        }

        /// Walks over frames (PC, place on the stack), each with a register saved in its lowest
        /// word. Returns which ones were reused.
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
            let mut reuse = last_walk.begin(generation);
            let (mut known, mut at) = (Vec::new(), 0);
            while at < frames.len() {
                let (pc, sp) = (frames[at].0, self.at(frames[at].1));
                let mut room = vec![0; frames.len() - at];
                let (taken, beyond) = reuse.reuse_frames((pc, sp), &mut registers, &mut stack, &mut room);
                assert!(room[..taken].iter().eq(frames[at..at + taken].iter().map(|(pc, _)| pc)));
                known.extend(vec![true; taken]);
                at += taken;
                if let Some(&(pc, place)) = frames.get(at) {
                    assert_eq!(beyond, (pc, self.at(place)));
                    reuse.restore(&mut registers, &mut stack);
                    if taken > 0 {
                        let saved = frames[at - 1].1;
                        assert_eq!(registers.get(RBX), Some(self.0[saved]), "as the last function saved it");
                    }
                    let next = frames.get(at + 1).map_or(place + 4, |next| next.1);
                    let mut row = Row::at_entry(((next - place) * WORD) as i64);
                    row.saved[0] = Some(-(((next - place) * WORD) as i64));
                    let rule = Rule::compact(&row).unwrap();
                    let step = CachedFrame { pc, sp: self.at(place), cfa: self.at(next), rule };
                    reuse.note(step, &mut registers, &mut stack);
                    known.push(false);
                    at += 1;
                }
            }
            reuse.finish();
            known
        }
    }

    #[test]
    fn reuses_frames_of_the_last_walk() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130), (0x1004, 140)];
        assert_eq!(memory.walk(&mut last_walk, 0, &frames), [false; 4]);
        // Above the outermost frame is a word of no frame.
        assert_eq!(memory.walk(&mut last_walk, 0, &frames)[..3], [true; 3]);
        let inside = [(0x1009, 75), (0x1008, 98), (0x1002, 120), (0x1003, 130), (0x1004, 140)];
        assert_eq!(memory.walk(&mut last_walk, 0, &inside)[..4], [false, false, true, true]);
        // The same frame with another caller, and with another size.
        assert_eq!(
            memory.walk(&mut last_walk, 0, &[(0x1002, 120), (0x1007, 130), (0x1004, 140)])[..2],
            [true, false]
        );
        assert!(!memory.walk(&mut last_walk, 0, &[(0x1002, 121), (0x1007, 130)])[0]);
    }

    #[test]
    fn reuses_nothing_after_rules_are_dropped() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130)];
        memory.walk(&mut last_walk, 0, &frames);
        assert_eq!(memory.walk(&mut last_walk, 1, &frames), [false; 3]);
        assert_eq!(memory.walk(&mut last_walk, 1, &frames)[..2], [true; 2]);
        assert_eq!(memory.walk(&mut last_walk, 0, &frames), [false; 3]);
    }

    #[test]
    fn reuses_nothing_after_forget() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames = [(0x1001, 100), (0x1002, 120), (0x1003, 130)];
        memory.walk(&mut last_walk, 0, &frames);
        last_walk.forget();
        assert_eq!(memory.walk(&mut last_walk, 0, &frames), [false; 3]);
        assert_eq!(memory.walk(&mut last_walk, 0, &frames)[..2], [true; 2]);
    }

    #[test]
    fn ignores_a_walk_that_did_not_finish() {
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
    fn keeps_the_innermost_steps_of_a_long_walk() {
        let (mut last_walk, mut memory) = (empty(), StackWords::new());
        let frames: Vec<_> = (0..LONGEST + 10).map(|i| (0x1000 + i, 4 + 2 * i)).collect();
        memory.walk(&mut last_walk, 0, &frames);
        let known = memory.walk(&mut last_walk, 0, &frames);
        assert_eq!(known.iter().filter(|&&known| known).count(), LONGEST);
    }
}
