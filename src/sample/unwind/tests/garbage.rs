//! Walks from random registers and stacks. None faults or loops: an unproven page could kill the
//! test.

use super::super::{PcForm, WalkEnd, objects, walk};
use super::{made_stack::MadeStack, random::Random};
use crate::{
    sample::engine::Engine,
    sys::{
        arch::{FRAME_POINTER, PROGRAM_COUNTER, Registers, STACK_POINTER},
        memory::PAGE,
    },
};
use core::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

const WORD: usize = size_of::<usize>();
/// More than any machine has; extra numbers are ignored.
const REGISTERS: u16 = 40;
const ROOM: usize = 64;

struct Places {
    stack: Range<usize>,
    other: Range<usize>,
    forbidden: Range<usize>,
    /// Including the gaps between segments.
    objects: Vec<Range<usize>>,
}

impl Places {
    fn on_stack(&self, random: &mut Random) -> usize {
        let length = self.stack.len();
        match random.below(8) {
            0 => self.stack.start - 64 + random.below(128),
            1 => self.stack.end - 64 + random.below(128),
            2 => self.stack.start + random.below(length),
            _ => self.stack.start + random.below(length / WORD) * WORD,
        }
    }

    fn code(&self, random: &mut Random) -> usize {
        let object = &self.objects[random.below(self.objects.len())];
        object.start + random.below(object.len())
    }

    fn word(&self, random: &mut Random) -> usize {
        match random.below(16) {
            0..5 => self.on_stack(random),
            5..10 => self.code(random),
            10 => self.other.start + random.below(self.other.len() / WORD) * WORD,
            11 => self.forbidden.start + random.below(self.forbidden.len()),
            12 => random.below(4096),
            13 => random.choose(&[0, u64::MAX, !7, 1 << 47, 1 << 63, 0xffff_8000_0000_0000]) as usize,
            14 => random.word() >> random.below(usize::BITS as usize),
            _ => random.word(),
        }
    }

    fn registers(&self, random: &mut Random) -> Registers {
        let mut registers = Registers::from_values(&[]);
        for number in 0..REGISTERS {
            let value = self.word(random);
            registers.set(number, Some(value));
        }
        // Mostly there is something to walk.
        if !random.once_in(8) {
            registers.set(STACK_POINTER, Some(self.on_stack(random)));
        }
        if !random.once_in(8) {
            registers.set(PROGRAM_COUNTER, Some(self.code(random)));
        }
        registers
    }
}

#[test]
fn ends_every_walk_over_garbage_without_a_fault() {
    const WALKS: usize = 120_000;
    objects::prepare();
    let engine = Engine::new().unwrap();
    let mut claim = engine.scratch().claim(0).unwrap();
    let (held, _, last_walk) = claim.parts();
    let slot = held.slot();
    let [stack, other, forbidden] = [16, 4, 64].map(MadeStack::new);
    forbidden.set_readable(false);
    let objects = objects::named_ranges().into_iter().map(|(_, start, end)| start..end).collect();
    let places = Places { stack: stack.range(), other: other.range(), forbidden: forbidden.range(), objects };
    let mut random = Random::new(7);
    let (mut ends, mut deepest) = ([0; 6], 0);
    for i in 0..WALKS {
        // Filling memory for each walk would take most of the time.
        if i % 64 == 0 {
            for memory in [&stack, &other] {
                memory.range().step_by(WORD).for_each(|place| memory.write(place, places.word(&mut random)));
            }
        }
        let room = if random.once_in(4) { random.below(ROOM) } else { ROOM };
        let form = random.choose(&[PcForm::Exact, PcForm::ForReaders]);
        let mut chain = [0; ROOM];
        let registers = places.registers(&mut random);
        let (depth, end) = walk(&engine, slot, registers, 0, form, &mut chain[..room], last_walk);
        assert!(depth <= room);
        assert!(chain[depth..].iter().all(|&pc| pc == 0), "written behind the chain's end");
        ends[end as usize] += 1;
        deepest = deepest.max(depth);
    }
    // Otherwise the garbage tests nothing.
    for end in [WalkEnd::Complete, WalkEnd::Depth, WalkEnd::Unreadable, WalkEnd::NoRule] {
        assert!(ends[end as usize] > WALKS / 1000, "{end:?}: {ends:?}");
    }
    assert!(deepest >= 6, "{deepest}");
}

/// Without call frame information, a frame pointer may point to memory that another thread is
/// unmapping: it is not read. (A rule's register is trusted, and read right after a proof.)
#[test]
fn reads_no_unstable_memory_on_a_guess() {
    const WALKS: usize = 100_000;
    /// Addresses without code in any program.
    const NO_CODE: usize = if cfg!(target_pointer_width = "64") { (1u64 << 44) as usize } else { 16 << 20 };
    objects::prepare();
    let engine = Engine::new().unwrap();
    let mut claim = engine.scratch().claim(0).unwrap();
    let (held, _, last_walk) = claim.parts();
    let slot = held.slot();
    // Successive mappings are mostly near enough for a frame. Others are kept for the retry.
    let mut made = vec![MadeStack::new(16)];
    let is_near = |pair: &[MadeStack]| pair[0].range().start.abs_diff(pair[1].range().start) < 1 << 19;
    while !made.windows(2).last().is_some_and(is_near) {
        made.push(MadeStack::new(16));
    }
    let [.., first, second] = &made[..] else { unreachable!("two were compared") };
    let (stack, fleeting) =
        if first.range().start < second.range().start { (first, second) } else { (second, first) };
    for memory in [stack, fleeting] {
        memory.range().step_by(WORD).for_each(|place| memory.write(place, NO_CODE + place % PAGE));
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fleeting.set_readable(false);
                fleeting.set_readable(true);
            }
        });
        let _ends = SetWhenDropped(&is_over);
        let mut random = Random::new(3);
        let mut place_in = |range: Range<usize>| range.start + random.below(range.len() / WORD) * WORD;
        for _ in 0..WALKS {
            let sp = place_in(stack.range());
            let mut registers = Registers::from_values(&[]);
            for number in 0..REGISTERS {
                registers.set(number, Some(place_in(fleeting.range())));
            }
            registers.set(STACK_POINTER, Some(sp));
            registers.set(PROGRAM_COUNTER, Some(NO_CODE));
            assert!(registers.get(FRAME_POINTER).unwrap() - sp < 1 << 20, "too far to be taken for a frame");
            let mut chain = [0; ROOM];
            let (depth, end) = walk(&engine, slot, registers, 0, PcForm::ForReaders, &mut chain, last_walk);
            assert_eq!((depth, end), (1, WalkEnd::NoRule));
        }
    });
}

/// Stops the other thread, also if the test fails.
struct SetWhenDropped<'f>(&'f AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
