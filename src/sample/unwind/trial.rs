//! Runs of call frame information that may be damaged, with any registers, for tests and fuzzing.
//!
//! # Safety
//! Fills leaked mappings and makes slices of them.
#![allow(unsafe_code)]

use super::{
    apply_compact,
    cfi::{Resolved, resolve_by},
    frame_index::{ObjectFrames, SectionCopy, SectionKind},
    memory::StackReader,
    rule::RuleKind,
    sections::{Bytes, Description},
};
use crate::sys::{
    arch::{Registers, STACK_POINTER},
    memory::{OwnedMapping, PAGE, choose_probe},
};
use gimli::NativeEndian;

pub(crate) struct Trial<'b> {
    pub(crate) header: &'b [u8],
    pub(crate) header_address: usize,
    pub(crate) frames: &'b [u8],
    pub(crate) frames_address: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No entry describes the PC.
    Nothing,
    /// A rule was found and applied.
    Rule,
    /// A rule that has no caller, or needs what is not available.
    WalkEnd,
    /// The row was evaluated.
    Stepped,
    /// The row could not be evaluated.
    Lost,
}

impl Trial<'_> {
    pub(crate) fn by_table(&self, pc: usize, registers: &mut Registers) -> Outcome {
        let frames_at = |start: usize| {
            let frames = self.frames.get(start.checked_sub(self.frames_address)?..)?;
            Some(Bytes::new(frames, NativeEndian))
        };
        let header = Bytes::new(self.header, NativeEndian);
        step(Description::by_table(header, self.header_address, frames_at, pc), pc, registers)
    }

    pub(crate) fn index(&self, kind: SectionKind) -> ObjectFrames {
        let section = SectionCopy { kind, bytes: self.frames.into(), address: self.frames_address, bias: 0 };
        ObjectFrames::new(0..u32::MAX as usize, Box::default(), vec![section])
    }
}

pub(crate) fn by_index(frames: &ObjectFrames, pc: usize, registers: &mut Registers) -> Outcome {
    step(frames.describe(pc), pc, registers)
}

fn step(description: Option<Description<'_>>, pc: usize, registers: &mut Registers) -> Outcome {
    let Some(description) = description else { return Outcome::Nothing };
    let mut stack = StackReader::new(registers.get(STACK_POINTER).unwrap_or(0), 0);
    match resolve_by(&description, pc, registers, &mut stack) {
        Resolved::Stepped { .. } => Outcome::Stepped,
        Resolved::Lost => Outcome::Lost,
        Resolved::Rule(rule) => match rule.kind() {
            RuleKind::Unknown => Outcome::Nothing,
            RuleKind::Compact(cfa) => match apply_compact(rule, cfa, registers, &mut stack) {
                super::Step::Caller(_) => Outcome::Rule,
                super::Step::End(_) => Outcome::WalkEnd,
            },
            RuleKind::Outermost | RuleKind::Evaluate | RuleKind::SignalReturn => Outcome::WalkEnd,
        },
    }
}

/// xorshift: the same numbers each time.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1 << 63)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Most registers point into `stack`, some elsewhere, and some are unknown.
    pub(crate) fn registers(&mut self, stack: &[usize]) -> Registers {
        let mut registers = Registers::here();
        registers.forget_all();
        for number in 0..17 {
            let in_stack = stack.as_ptr() as usize + 8 * self.below(stack.len());
            let value = match self.below(16) {
                0 => None,
                1 => Some(self.next() as usize),
                2 => Some(usize::MAX - self.below(64)),
                3 => Some(self.below(1 << 16)),
                4 => Some(in_stack + self.below(8)),
                5 => Some(stack.as_ptr_range().end as usize + 8 * self.below(64)),
                _ => Some(in_stack),
            };
            registers.set(number, value);
        }
        registers
    }
}

/// Pages of random numbers with nothing readable for megabytes around, so that reads outside fail
/// and do not confuse a sanitizer.
pub(crate) fn stack_apart() -> &'static [usize] {
    const APART: usize = 16 << 20;
    const BYTES: usize = 2 * PAGE;
    static STACK: once_cell::race::OnceBox<&'static [usize]> = once_cell::race::OnceBox::new();
    STACK.get_or_init(|| {
        let _ = choose_probe();
        let mapping = OwnedMapping::reserved(2 * APART + BYTES).unwrap();
        mapping.commit(APART, APART + BYTES).unwrap();
        // SAFETY: the pages are in the mapping.
        let start = unsafe { mapping.start().cast::<usize>().add(APART / size_of::<usize>()) };
        core::mem::forget(mapping);
        // SAFETY: the pages are writable, aligned, zeroed, and used only here.
        let words = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), BYTES / size_of::<usize>()) };
        let mut numbers = Numbers::new(1);
        words.fill_with(|| numbers.next() as usize);
        // Some are addresses of others.
        (0..words.len()).step_by(3).for_each(|i| words[i] = &raw const words[numbers.below(1024)] as usize);
        Box::new(words)
    })
}

/// Runs the fuzzer's bytes: a seed, the header's length, the header, the entries.
#[cfg(not(loom))]
pub(crate) fn any_bytes(input: &[u8]) {
    const HEADER: usize = 0x10_000;
    const FRAMES: usize = 0x20_000;
    let Some((seed, rest)) = input.split_first_chunk::<8>() else { return };
    let Some((length, rest)) = rest.split_first_chunk::<2>() else { return };
    let Some((header, frames)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length))) else {
        return;
    };
    let mut numbers = Numbers::new(u64::from_le_bytes(*seed));
    let stack = stack_apart();
    let trial = Trial { header, header_address: HEADER, frames, frames_address: FRAMES };
    for kind in [SectionKind::EhFrame, SectionKind::DebugFrame] {
        let index = trial.index(kind);
        for (start, length) in index.places().take(4) {
            let pc = start + numbers.below(length);
            by_index(&index, pc, &mut numbers.registers(stack));
            trial.by_table(pc, &mut numbers.registers(stack));
        }
    }
    trial.by_table(numbers.next() as usize >> (8 * numbers.below(8)), &mut numbers.registers(stack));
}
