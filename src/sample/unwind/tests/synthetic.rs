//! Walks over stacks made by known rules, which must find the expected chain and end. A made
//! program calls functions, outermost first. Each call writes its return address, saves and changes
//! registers, and continues below or on another stack. Each function has a rule, or only a frame
//! pointer. A second, slow interpretation of the functions computes the expected result.

use super::super::{
    PcForm, WalkEnd,
    rule::{Cfa, Row, Rule},
    walk,
};
use super::{made_stack::MadeStack, random::Random};
use crate::{
    sample::engine::Engine,
    sys::{
        arch::{CALLEE_SAVED, FRAME_POINTER, RETURN_ADDRESS, Registers, STACK_POINTER},
        memory::PAGE,
    },
};

const WORD: usize = size_of::<usize>();
const CASES: usize = 10_000;
/// Addresses without code in any program.
const CODE: usize = 0x1_0000_0000_0000 >> 4;
const REGISTERS: usize = 17;
const MAX_SWITCHES: usize = 16;

/// How a function finds its caller.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By a rule, which leads to this CFA.
    Rule {
        bits: u64,
        base: u16,
        frame_address: usize,
    },
    FramePointer,
    Outermost,
}

#[derive(Debug)]
struct Function {
    pc: usize,
    sp: usize,
    frame_pointer: usize,
    way: Way,
    return_address: usize,
    /// Whether the return address is readable.
    is_readable: bool,
    saved: Vec<u16>,
}

struct Program<'s> {
    random: Random,
    stacks: &'s [MadeStack],
    /// The lowest used address of each stack.
    used: Vec<usize>,
    on: usize,
    values: [usize; REGISTERS],
    functions: Vec<Function>,
    /// Registers that callees need not preserve, and that no function uses yet.
    unpreserved: Vec<u16>,
    /// Whether each function that can switch stacks does.
    switches_always: bool,
}

impl<'s> Program<'s> {
    fn new(seed: usize, stacks: &'s [MadeStack]) -> Self {
        let mut random = Random::new(seed as u64 + 1);
        let used: Vec<usize> = stacks.iter().map(|stack| stack.range().end).collect();
        let mut values = [0; REGISTERS];
        values.fill_with(|| random.word());
        let on = random.below(stacks.len());
        // Up to a page from the end, so that reads may reach the guard page.
        values[usize::from(STACK_POINTER)] = used[on] - WORD * random.below(PAGE / WORD);
        let switches_always = random.once_in(8);
        let is_unpreserved = |number: &u16| *number != STACK_POINTER && !CALLEE_SAVED.contains(number);
        let unpreserved = (0..RETURN_ADDRESS).filter(is_unpreserved).collect();
        Self { random, stacks, used, on, values, functions: Vec::new(), unpreserved, switches_always }
    }

    fn sp(&self) -> usize {
        self.values[usize::from(STACK_POINTER)]
    }

    fn new_pc(&mut self) -> usize {
        CODE + 16 + self.random.below(1 << 40)
    }

    fn write(&self, address: usize, word: usize) {
        let stack = self.stacks.iter().find(|stack| stack.range().contains(&address));
        stack.expect("an address on a stack").write(address, word);
    }

    fn size_of_locals(&mut self) -> usize {
        let words = match self.random.below(16) {
            0 => self.random.below(24 << 10),
            1..4 => self.random.below(1 << 10),
            _ => self.random.below(32),
        };
        let room = self.sp() - self.stacks[self.on].range().start;
        (words * WORD).min((room / 2) & !(WORD - 1))
    }

    fn has_room(&self) -> bool {
        self.sp() - self.stacks[self.on].range().start > 8 * PAGE
    }

    /// Calls a function that has a rule, and saves and changes registers.
    fn call(&mut self, return_address: usize, is_innermost: bool) {
        let frame_address = self.sp();
        self.write(frame_address - WORD, return_address);
        // Each register in a word of its own, at most 31 words below the return address.
        let mut places: Vec<usize> = (2..33).collect();
        let mut offsets = [None; CALLEE_SAVED.len()];
        let (mut saved, mut lowest) = (Vec::new(), frame_address - WORD);
        for (register, offset) in CALLEE_SAVED.into_iter().zip(&mut offsets) {
            if self.random.once_in(2) {
                continue;
            }
            let place = places.swap_remove(self.random.below(places.len())) * WORD;
            self.write(frame_address - place, self.values[usize::from(register)]);
            self.values[usize::from(register)] = self.random.word();
            *offset = Some(-(place as i64));
            saved.push(register);
            lowest = lowest.min(frame_address - place);
        }
        let mut sp = lowest - WORD - self.size_of_locals();
        let cfa = if self.random.once_in(6) { Cfa::Stored } else { Cfa::Sum };
        let target = match cfa {
            Cfa::Sum => frame_address,
            Cfa::Stored => {
                let place = sp + self.random.below((lowest - sp) / WORD) * WORD;
                self.write(place, frame_address);
                place
            }
        };
        let mut bases = saved.clone();
        // A register that is not preserved may be the base if no callee changes it.
        if !self.unpreserved.is_empty() && (is_innermost || self.random.once_in(16)) {
            let place = self.random.below(self.unpreserved.len());
            bases.push(self.unpreserved.swap_remove(place));
        }
        let base = if bases.is_empty() || (!self.switches_always && self.random.once_in(2)) {
            STACK_POINTER
        } else {
            self.random.choose(&bases)
        };
        if base != STACK_POINTER && (self.switches_always || self.random.once_in(4)) {
            sp = self.switch_stacks(sp);
        }
        let offset = if base == STACK_POINTER {
            (target - sp) as i64
        } else {
            let offset = self.random.below(1 << 22) as i64 - (1 << 21);
            self.values[usize::from(base)] = target.wrapping_add_signed(-offset as isize);
            offset
        };
        let rule = Rule::compact(&Row { cfa, register: base, offset, saved: offsets, ..Row::at_entry(0) })
            .expect("all fields fit");
        self.enter(sp, Way::Rule { bits: rule.bits(), base, frame_address }, return_address, saved);
    }

    fn switch_stacks(&mut self, sp: usize) -> usize {
        self.used[self.on] = sp;
        self.on = self.random.below(self.stacks.len());
        self.used[self.on] - WORD * (1 + self.random.below(8))
    }

    /// Calls a function without a rule, which has a frame pointer.
    fn call_without_rule(&mut self, return_address: usize) {
        let frame_address = self.sp();
        self.write(frame_address - WORD, return_address);
        let frame = frame_address - 2 * WORD;
        self.write(frame, self.values[usize::from(FRAME_POINTER)]);
        self.values.fill_with(|| self.random.word());
        self.values[usize::from(FRAME_POINTER)] = frame;
        self.values[usize::from(STACK_POINTER)] = frame_address;
        let sp = frame - self.size_of_locals();
        self.enter(sp, Way::FramePointer, return_address, vec![FRAME_POINTER]);
    }

    fn enter(&mut self, sp: usize, way: Way, return_address: usize, saved: Vec<u16>) {
        self.values[usize::from(STACK_POINTER)] = sp;
        let frame_pointer = self.values[usize::from(FRAME_POINTER)];
        let pc = self.new_pc();
        let function = Function { pc, sp, frame_pointer, way, return_address, is_readable: true, saved };
        self.functions.push(function);
    }

    fn begin(&mut self) {
        let sp = self.sp();
        let end = self.stacks[self.on].range().end;
        let simple = |offset: usize| {
            let rule = Rule::compact(&Row::at_entry(offset as i64)).expect("it fits");
            Way::Rule { bits: rule.bits(), base: STACK_POINTER, frame_address: sp + offset }
        };
        self.values[usize::from(STACK_POINTER)] = sp - 64 * WORD;
        match self.random.below(8) {
            0..3 => self.enter(sp - 64 * WORD, Way::Outermost, 0, vec![]),
            3 => self.call(0, false),
            4 => {
                let no_code = self.random.choose(&[1, 0xfff, 1 << 56, usize::MAX, 1 << 63]);
                self.call(no_code, false);
            }
            5 => {
                self.values[usize::from(FRAME_POINTER)] = 0;
                self.enter(sp - 64 * WORD, Way::FramePointer, 0, vec![]);
            }
            6 => {
                let offset = end - sp + WORD * (1 + self.random.below(PAGE / WORD));
                self.values[usize::from(STACK_POINTER)] = sp;
                self.enter(sp, simple(offset), 0, vec![]);
                self.functions[0].is_readable = false;
            }
            _ => {
                self.values[usize::from(STACK_POINTER)] = sp - WORD;
                self.write(sp - 2 * WORD, CODE);
                self.enter(sp - WORD, simple(0), CODE, vec![]);
                let rule = Rule::compact(&Row::at_entry(0)).expect("it fits");
                self.functions[0].way =
                    Way::Rule { bits: rule.bits(), base: STACK_POINTER, frame_address: sp - WORD };
            }
        }
    }

    fn run(&mut self) {
        self.begin();
        let depth = 1 + self.random.below(48);
        for i in 1..=depth {
            if !self.has_room() {
                break;
            }
            let caller = self.functions.last().expect("one has begun").pc;
            if self.random.once_in(12) {
                self.call_without_rule(caller);
            } else {
                self.call(caller, i == depth);
            }
        }
        self.functions.reverse();
    }

    /// Returns what a walk must find with room for `room` PCs.
    fn expected(&self, room: usize) -> (Vec<usize>, WalkEnd) {
        let mut known: Vec<u16> = (0..REGISTERS as u16).collect();
        let (mut pcs, mut is_guessed, mut switches) = (Vec::new(), false, 0);
        for (i, function) in self.functions.iter().enumerate() {
            if pcs.len() == room {
                return (pcs, WalkEnd::Depth);
            }
            pcs.push(function.pc);
            let end = match function.way {
                Way::Outermost => Some(WalkEnd::Complete),
                Way::FramePointer if !known.contains(&FRAME_POINTER) => Some(WalkEnd::NoRule),
                Way::FramePointer if function.frame_pointer == 0 && i > 0 => Some(WalkEnd::Complete),
                Way::FramePointer if function.frame_pointer == 0 => Some(WalkEnd::NoRule),
                Way::FramePointer => {
                    is_guessed = true;
                    known = vec![FRAME_POINTER, STACK_POINTER];
                    None
                }
                Way::Rule { base, .. } if !known.contains(&base) || !function.is_readable => {
                    Some(WalkEnd::Unreadable)
                }
                Way::Rule { base, frame_address, .. } => {
                    known.extend(&function.saved);
                    let goes_up = frame_address > function.sp;
                    switches += usize::from(base != STACK_POINTER && !goes_up);
                    let is_loop = if base == STACK_POINTER { !goes_up } else { switches > MAX_SWITCHES };
                    is_loop.then_some(WalkEnd::Loop)
                }
            };
            if let Some(end) = end {
                return (pcs, end);
            }
        }
        let last = self.functions.last().expect("there is one");
        (pcs, if last.return_address == 0 && !is_guessed { WalkEnd::Complete } else { WalkEnd::NoRule })
    }

    /// Inserts the rules; false if two functions do not fit into the cache together.
    fn teach(&self, engine: &Engine) -> bool {
        let rules = || {
            self.functions.iter().enumerate().map(|(i, function)| {
                let rule = match function.way {
                    Way::Rule { bits, .. } => Rule::from_bits(bits),
                    Way::Outermost => Some(Rule::OUTERMOST),
                    Way::FramePointer => None,
                };
                // All except the innermost are looked up in the call.
                (function.pc - usize::from(i > 0), rule)
            })
        };
        for (place, rule) in rules() {
            if let Some(rule) = rule {
                engine.rules().insert(place, rule);
            }
        }
        rules().all(|(place, rule)| engine.rules().get(place) == rule)
    }

    fn registers(&self) -> Registers {
        let mut registers = Registers::from_values(&[]);
        for (number, value) in (0..).zip(self.values) {
            registers.set(number, Some(value));
        }
        registers.set(RETURN_ADDRESS, Some(self.functions[0].pc));
        registers
    }
}

#[test]
fn finds_the_chain_of_a_made_stack() {
    let stacks: Vec<MadeStack> = [512, 64, 128, 256].into_iter().map(MadeStack::new).collect();
    let engine = Engine::new().unwrap();
    super::super::objects::prepare();
    let mut claim = engine.scratch().claim(0).unwrap();
    let (held, _, last_walk) = claim.parts();
    let slot = held.slot();
    let (mut ends, mut walked) = (Vec::new(), 0);
    for case in 0..CASES {
        if case % 256 == 0 {
            engine.rules().retain(&|_| false);
        }
        let mut program = Program::new(case, &stacks);
        program.run();
        if !program.teach(&engine) {
            continue;
        }
        walked += 1;
        let room = if program.random.once_in(8) { program.random.below(32) } else { 64 };
        let mut chain = [0; 64];
        let form = program.random.choose(&[PcForm::Exact, PcForm::ForReaders]);
        let written = program.random.choose(&[0, program.sp()]);
        let (depth, end) =
            walk(&engine, slot, program.registers(), written, form, &mut chain[..room], last_walk);
        let found = (chain[..depth].to_vec(), end);
        assert_eq!(found, program.expected(room), "case {case}: {:#x?}", program.functions);
        ends.push((end, depth));
    }
    assert!(walked * 10 > CASES * 9, "{walked} cases fitted into the cache");
    for kind in [WalkEnd::Complete, WalkEnd::Depth, WalkEnd::Unreadable, WalkEnd::NoRule, WalkEnd::Loop] {
        let deep = ends.iter().filter(|&&(end, depth)| end == kind && depth > MAX_SWITCHES).count();
        assert!(deep * 200 > walked, "{deep} deep walks ended as {kind:?}");
    }
}
