//! From the interrupted registers to the call chain.
//!
//! Each step needs the *rule* of the frame's PC: from the cache, or, once per PC and process, from the object's
//! call frame information. The outermost frame is known by its undefined return address (glibc marks `_start` and
//! `clone` so), or by one that no call left; a walk that reaches it is *whole*.

mod cfi;
mod entry;
mod expression;
pub(crate) mod frame_index;
mod frame_pointer;
mod gate;
mod memory;
pub(crate) mod objects;
pub(crate) mod rule;
pub(crate) mod rule_cache;
mod sections;

use crate::{
    sample::{counters::Counter, engine::Engine, met_objects, scratch::Slot},
    sys::arch::{RETURN_ADDRESS, Registers, STACK_POINTER, code, is_user_address},
};
use cfi::Resolved;
use frame_pointer::FramePointerStep;
use memory::StackReader;
use rule::{Cfa, Rule, RuleKind};
use rule_cache::{Line, RuleCache};

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

/// A program may run part of its work on another stack (coroutines, `makecontext`, code that grows its stack); the
/// stack pointer of such a frame's caller may lie anywhere. More than this many times in one chain is no program.
const MOST_STACK_SWITCHES: u32 = 16;

/// Walks from `registers` outwards and fills `chain` with PCs, innermost first. Signal-safe. Needs some kilobytes of
/// stack: callers run it on a slot's.
///
/// The first PC was interrupted: it is looked up itself, all others are return addresses unless a signal frame says
/// otherwise. `written` is the last byte that the kernel wrote for the interrupted thread, or 0 where it did not.
pub(crate) fn walk(
    engine: &Engine,
    slot: &Slot,
    mut registers: Registers,
    written: usize,
    form: PcForm,
    chain: &mut [usize],
) -> (usize, End) {
    let mut stack = StackReader::new(registers.sp(), written);
    let mut depth = 0;
    let mut exact = true;
    let mut trust = Trust::Live;
    let mut switches_left = MOST_STACK_SWITCHES;
    let mut hits = 0;
    let end = loop {
        if !exact {
            let room = chain.get_mut(depth..).unwrap_or_default();
            let called = follow_calls(engine.rules(), &mut registers, &mut stack, room);
            depth += called;
            hits += called;
        }
        let pc = registers.pc();
        if !is_user_address(pc) {
            // A return address of zero also marks the outermost frame; anything else is no code.
            let is_outermost = pc == 0 && depth > 0 && trust == Trust::Live;
            break if is_outermost { End::Whole } else { End::NoRule };
        }
        let Some(place) = chain.get_mut(depth) else { break End::Depth };
        let is_innermost = depth == 0;
        let adjusted = exact && !is_innermost && form == PcForm::ForReaders;
        *place = if adjusted { pc + 1 } else { pc };
        depth += 1;
        let sp = registers.sp();
        let frame = FramePlace { pc, lookup: if exact { pc } else { pc - 1 }, trust, is_innermost };
        let rule = engine.rules().get(frame.lookup);
        hits += usize::from(rule.is_some());
        let step = match rule {
            Some(rule) if rule.kind() != RuleKind::Evaluate => {
                apply(rule, slot, &mut registers, &mut stack, &frame)
            }
            _ => {
                slot.count(if rule.is_some() { Counter::RulesEvaluated } else { Counter::RuleMisses });
                look_up(engine, slot, &mut registers, &mut stack, &frame)
            }
        };
        match step {
            Step::Caller(Caller::Called) if registers.sp() > sp => exact = false,
            Step::Caller(Caller::Called) => break End::Loop,
            Step::Caller(Caller::Guessed) if registers.sp() > sp => {
                trust = Trust::Guessed;
                exact = false;
            }
            Step::Caller(Caller::Guessed) => break End::Loop,
            Step::Caller(Caller::Switched) => {
                if registers.sp() <= sp {
                    let Some(left) = switches_left.checked_sub(1) else { break End::Loop };
                    switches_left = left;
                }
                exact = false;
            }
            // Between a handler's stack and the interrupted one the stack pointer may move either way.
            Step::Caller(Caller::Interrupted) => {
                if form == PcForm::ForReaders && !exact {
                    // The trampoline is entered by the kernel, not by a call: its PC is exact too.
                    *place = pc + 1;
                }
                exact = true;
            }
            Step::End(end) => break end,
        }
        stack.follow(registers.sp());
    };
    slot.count_many(Counter::RuleHits, hits as u64);
    (depth, end)
}

/// Takes the commonest step over and over, as long as it goes on: a return address, a cached rule whose CFA is the
/// stack pointer plus a constant, and words that are proven. Nine of ten frames are such, and this is all they cost.
/// Fills `room` and gives the number of steps; `registers` are then those of the next frame.
#[inline]
fn follow_calls<L: AsRef<[Line]>>(
    rules: &RuleCache<L>,
    registers: &mut Registers,
    stack: &mut StackReader,
    room: &mut [usize],
) -> usize {
    let (mut pc, mut sp) = (registers.pc(), registers.sp());
    let mut taken = 0;
    for place in room {
        if !is_user_address(pc) {
            break;
        }
        let Some(rule) = rules.get(pc - 1).filter(|rule| rule.is_plain()) else { break };
        let cfa = sp.wrapping_add_signed(rule.offset());
        let Some(caller) = stack.read_proven(cfa.wrapping_sub(size_of::<usize>())).filter(|_| cfa > sp)
        else {
            break;
        };
        rule.for_each_saved(|register, below| {
            let value = stack.read(cfa.wrapping_sub(below));
            registers.set(register, value);
        });
        *place = pc;
        (pc, sp) = (caller, cfa);
        taken += 1;
    }
    if taken > 0 {
        registers.set(STACK_POINTER, Some(sp));
        registers.set(RETURN_ADDRESS, Some(pc));
        stack.follow(sp);
    }
    taken
}

/// One frame of a walk.
struct FramePlace {
    pc: usize,
    /// The address to look up.
    lookup: usize,
    trust: Trust,
    is_innermost: bool,
}

enum Step {
    /// The registers are now the caller's.
    Caller(Caller),
    End(End),
}

/// How a frame came to be, as seen from the registers of the frame outside it.
enum Caller {
    /// By a call; the stack pointer is above the callee's.
    Called,
    /// By a call, with a canonical frame address that did not come from the stack pointer: the stack may be another.
    Switched,
    /// By a call, it seems: a frame pointer led here.
    Guessed,
    /// By a signal.
    Interrupted,
}

/// Applies a rule other than [`Rule::EVALUATE`].
#[inline(never)]
fn apply(
    rule: Rule,
    slot: &Slot,
    registers: &mut Registers,
    stack: &mut StackReader,
    frame: &FramePlace,
) -> Step {
    match rule.kind() {
        RuleKind::Compact(cfa) => apply_compact(rule, cfa, registers, stack),
        RuleKind::Outermost => Step::End(End::Whole),
        RuleKind::Evaluate => Step::End(End::NoRule),
        RuleKind::SignalReturn => match Registers::of_signal_frame(registers.sp(), |place| stack.read(place))
        {
            Some(interrupted) => {
                *registers = interrupted;
                Step::Caller(Caller::Interrupted)
            }
            None => Step::End(End::Unreadable),
        },
        RuleKind::Unknown => {
            slot.count(Counter::FramesWithoutRule);
            let is_exact = frame.pc == frame.lookup;
            if is_exact && entry::step_to_caller(registers, stack) {
                return Step::Caller(Caller::Guessed);
            }
            match frame_pointer::step(registers, stack, is_exact) {
                FramePointerStep::Caller => Step::Caller(Caller::Guessed),
                // Code that was interrupted may have any zero in that register.
                FramePointerStep::Outermost if !frame.is_innermost => Step::End(End::Whole),
                FramePointerStep::Outermost | FramePointerStep::Lost => Step::End(End::NoRule),
            }
        }
    }
}

/// Applies the common rule.
#[inline]
fn apply_compact(rule: Rule, cfa: Cfa, registers: &mut Registers, stack: &mut StackReader) -> Step {
    let register = rule.register();
    let Some(base) = registers.get(register) else { return Step::End(End::Unreadable) };
    let mut frame_address = base.wrapping_add_signed(rule.offset());
    if cfa == Cfa::Stored {
        let Some(stored) = stack.read(frame_address) else { return Step::End(End::Unreadable) };
        frame_address = stored;
    }
    let Some(pc) = stack.read(frame_address.wrapping_sub(size_of::<usize>())) else {
        return Step::End(End::Unreadable);
    };
    rule.for_each_saved(|register, below| {
        let value = stack.read(frame_address.wrapping_sub(below));
        registers.set(register, value);
    });
    // A register that callees need not preserve is taken to be unchanged, as other unwinders do: OpenSSL's AES-GCM
    // keeps its CFA in rax across calls of its own subroutines. Compilers never ask for one.
    registers.set(STACK_POINTER, Some(frame_address));
    registers.set(RETURN_ADDRESS, Some(pc));
    Step::Caller(if register == STACK_POINTER { Caller::Called } else { Caller::Switched })
}

/// Finds the rule of a frame in its object, remembers it, and takes the step.
#[cold]
#[inline(never)]
fn look_up(
    engine: &Engine,
    slot: &Slot,
    registers: &mut Registers,
    stack: &mut StackReader,
    frame: &FramePlace,
) -> Step {
    let Some(keeper) = objects::keep(frame.lookup, frame.trust) else { return Step::End(End::Unloading) };
    let Some(object) = keeper.find(frame.lookup) else {
        // Not remembered: an object may be loaded there later.
        return apply(Rule::UNKNOWN, slot, registers, stack, frame);
    };
    met_objects::note(&object, slot);
    let mut resolved = cfi::resolve(&object, frame.lookup, registers, stack);
    if matches!(resolved, Resolved::Rule(Rule::UNKNOWN)) && frame.pc != frame.lookup {
        // A return address that is a function's first instruction: no call stands before it, so it was made up, and
        // nobody's frame lies beyond. `makecontext` has `__start_context` run so when the context's function returns;
        // that function's own information says nothing of it in glibc 2.36.
        if !matches!(cfi::resolve(&object, frame.pc, registers, stack), Resolved::Rule(Rule::UNKNOWN)) {
            resolved = Resolved::Rule(Rule::OUTERMOST);
        }
    }
    if matches!(resolved, Resolved::Rule(Rule::UNKNOWN))
        && stack.read_bytes(frame.pc).is_some_and(|code| code::is_signal_return(&code))
    {
        // Go's runtime, and programs that call the kernel themselves, bring a trampoline of their own.
        resolved = Resolved::Rule(Rule::SIGNAL_RETURN);
    }
    let (rule, step) = match resolved {
        Resolved::Rule(rule) => (rule, apply(rule, slot, registers, stack, frame)),
        Resolved::Stepped { signal_frame: true } => (Rule::EVALUATE, Step::Caller(Caller::Interrupted)),
        Resolved::Stepped { signal_frame: false } => (Rule::EVALUATE, Step::Caller(Caller::Switched)),
        Resolved::Lost => return Step::End(End::Unreadable),
    };
    if keeper.may_be_remembered() {
        engine.rules().insert(frame.lookup, rule);
    }
    step
}
