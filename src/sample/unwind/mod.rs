//! From the interrupted registers to the call chain.
//!
//! Each step needs the *rule* of the frame's PC: from the cache, or, once per PC and process, from the object's
//! call frame information. The outermost frame is known by its undefined return address (psABI section 3.4.1;
//! glibc marks `_start`, `clone` and `__start_context` so); a walk that reaches it is *whole*.

mod cfi;
mod frame_pointer;
mod memory;
pub(crate) mod objects;
pub(crate) mod rule;
pub(crate) mod rule_cache;

use crate::{
    sample::{counters::Counter, engine::Engine, met_objects, scratch::Slot},
    sys::arch::{RETURN_ADDRESS, Registers, STACK_POINTER, is_user_address},
};
use cfi::Resolved;
use frame_pointer::FramePointerStep;
use memory::StackReader;
use objects::Keeper;
use rule::{Cfa, Rule, RuleKind};

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the outermost frame.
    Whole,
    /// The chain's buffer is full.
    Depth,
    /// The next frame's memory cannot be read, or a register it needs is not known.
    Unreadable,
    /// Neither call frame information nor a frame pointer leads on.
    NoRule,
    /// The stack pointer did not move towards the stack's base.
    Loop,
    /// An object was being unloaded.
    Unloading,
}

/// How PCs are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PcForm {
    /// As they are in the registers.
    Exact,
    /// As readers of profiles expect: they look up every PC but the first at one less, to land in the call. For a
    /// frame that a signal interrupted that would be the instruction before, maybe of another function, so its PC
    /// is given as one more.
    ForReaders,
}

/// How far a PC can be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It is running now, or call frame information says that it will be returned to: its object cannot be unloaded.
    Live,
    /// A frame pointer led there, which may have been some other value.
    Guessed,
}

/// Walks from `registers` outwards and fills `chain` with PCs, innermost first. Signal-safe.
///
/// `exact` tells whether the first PC was interrupted (look up the PC itself) or is a return address.
pub(crate) fn walk(
    engine: &Engine,
    slot: &Slot,
    mut registers: Registers,
    mut exact: bool,
    form: PcForm,
    chain: &mut [usize],
) -> (usize, End) {
    let mut stack = StackReader::new();
    let mut depth = 0;
    let mut trust = Trust::Live;
    loop {
        let pc = registers.pc();
        if !is_user_address(pc) {
            // A return address of zero also marks the outermost frame; anything else is no code.
            return (depth, if pc == 0 && depth > 0 { End::Whole } else { End::NoRule });
        }
        let Some(place) = chain.get_mut(depth) else { return (depth, End::Depth) };
        let adjusted = exact && depth > 0 && form == PcForm::ForReaders;
        *place = if adjusted { pc + 1 } else { pc };
        depth += 1;
        let sp = registers.sp();
        let lookup = if exact { pc } else { pc - 1 };
        match step(engine, slot, &mut registers, &mut stack, lookup, trust) {
            Step::Guessed => {
                if registers.sp() <= sp {
                    return (depth, End::Loop);
                }
                trust = Trust::Guessed;
                exact = false;
            }
            Step::Caller { signal_frame } => {
                // Between a handler's stack and the interrupted one the stack pointer may move either way.
                if registers.sp() <= sp && !signal_frame {
                    return (depth, End::Loop);
                }
                if signal_frame && form == PcForm::ForReaders && !exact && depth > 1 {
                    // The trampoline is entered by the kernel, not by a call: its PC is exact too.
                    *place = pc + 1;
                }
                exact = signal_frame;
            }
            Step::End(end) => return (depth, end),
        }
    }
}

enum Step {
    /// The registers are the caller's.
    Caller {
        signal_frame: bool,
    },
    /// The same, by the frame pointer.
    Guessed,
    End(End),
}

#[inline]
fn step(
    engine: &Engine,
    slot: &Slot,
    registers: &mut Registers,
    stack: &mut StackReader,
    lookup: usize,
    trust: Trust,
) -> Step {
    if let Some(rule) = engine.rules().get(lookup) {
        if rule.kind() != RuleKind::Evaluate {
            return apply(rule, slot, registers, stack);
        }
    }
    miss(engine, slot, registers, stack, lookup, trust)
}

/// Applies a rule other than [`Rule::EVALUATE`].
#[inline]
fn apply(rule: Rule, slot: &Slot, registers: &mut Registers, stack: &mut StackReader) -> Step {
    match rule.kind() {
        RuleKind::Compact(cfa) => match apply_compact(rule, cfa, registers, stack) {
            Some(()) => Step::Caller { signal_frame: rule.is_signal_frame() },
            None => Step::End(End::Unreadable),
        },
        RuleKind::Outermost => Step::End(End::Whole),
        RuleKind::Evaluate => Step::End(End::NoRule),
        RuleKind::Unknown => {
            slot.count(Counter::FramesWithoutRule);
            match frame_pointer::step(registers, stack) {
                FramePointerStep::Caller => Step::Guessed,
                FramePointerStep::Outermost => Step::End(End::Whole),
                FramePointerStep::Lost => Step::End(End::NoRule),
            }
        }
    }
}

#[inline]
fn apply_compact(rule: Rule, cfa: Cfa, registers: &mut Registers, stack: &mut StackReader) -> Option<()> {
    let base = registers.get(rule.register())?.wrapping_add_signed(rule.offset());
    let cfa = match cfa {
        Cfa::Sum => base,
        Cfa::Stored => stack.read(base)?,
    };
    let pc = stack.read(cfa.wrapping_sub(size_of::<usize>()))?;
    for (register, below) in rule.saved() {
        let value = stack.read(cfa.wrapping_sub(below));
        registers.set(register, value);
    }
    registers.forget_caller_saved();
    registers.set(STACK_POINTER, Some(cfa));
    registers.set(RETURN_ADDRESS, Some(pc));
    Some(())
}

/// What a miss hands over to the scratch slot's stack.
struct Miss<'a> {
    registers: &'a mut Registers,
    stack: &'a mut StackReader,
    slot: &'a Slot,
    keeper: &'a Keeper,
    lookup: usize,
    /// None where no object holds the PC.
    resolved: Option<Resolved>,
}

#[cold]
fn miss(
    engine: &Engine,
    slot: &Slot,
    registers: &mut Registers,
    stack: &mut StackReader,
    lookup: usize,
    trust: Trust,
) -> Step {
    slot.count(Counter::RuleMisses);
    let Some(keeper) = objects::keep(lookup, trust) else { return Step::End(End::Unloading) };
    let mut work = Miss { registers, stack, slot, keeper: &keeper, lookup, resolved: None };
    slot.run_on_stack(&mut work, resolve_miss);
    match work.resolved {
        Some(Resolved::Rule(rule)) => {
            if keeper.may_be_remembered() {
                engine.rules().insert(lookup, rule);
            }
            apply(rule, slot, registers, stack)
        }
        Some(Resolved::Stepped { signal_frame }) => {
            if keeper.may_be_remembered() {
                engine.rules().insert(lookup, Rule::EVALUATE);
            }
            Step::Caller { signal_frame }
        }
        Some(Resolved::Lost) => Step::End(End::Unreadable),
        // Not kept: an object may be loaded there later.
        None => apply(Rule::UNKNOWN, slot, registers, stack),
    }
}

/// Runs on the slot's stack.
fn resolve_miss(work: &mut Miss<'_>) {
    if let Some(object) = work.keeper.find(work.lookup) {
        met_objects::note(&object, work.slot);
        work.resolved = Some(cfi::resolve(&object, work.lookup, work.registers, work.stack));
    }
}
