//! From the interrupted registers to the call chain.
//!
//! Each step needs the *rule* of the frame's PC: from the cache, or, once per PC and process, from the object's
//! call frame information. The outermost frame is known by its undefined return address (glibc marks `_start` and
//! `clone` so), or by one that no call left; a walk that reaches it is *whole*.

mod cfi;
// Its made-up sections are of x86-64.
#[cfg(all(test, target_arch = "x86_64"))]
mod damage;
mod entry;
mod expression;
pub(crate) mod frame_index;
mod frame_pointer;
mod gate;
pub(crate) mod last_walk;
mod memory;
pub(crate) mod objects;
pub(crate) mod rule;
pub(crate) mod rule_cache;
mod sections;
mod snapshot;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(any(all(test, target_arch = "x86_64"), fuzzing))]
pub(crate) mod trial;

use crate::{
    sample::{counters::Counter, engine::Engine, sampled_dsos, scratch::Slot},
    sys::arch::{
        FRAME_POINTER, HAS_LINK_REGISTER, PROGRAM_COUNTER, RETURN_ADDRESS, Registers, STACK_POINTER, code,
        code_address, is_user_address,
    },
};
use cfi::Resolved;
use frame_pointer::FramePointerStep;
use last_walk::{CachedFrame as TrailStep, FrameReuse, LastWalk};
use memory::StackReader;
use rule::{Cfa, Rule, RuleKind};
use rule_cache::{RuleCache, RuleLine};

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// At the outermost frame.
    Complete,
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
const MAX_STACK_SWITCHES: u32 = 16;

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
    last_walk: &mut LastWalk,
) -> (usize, WalkEnd) {
    let mut tracing = last_walk.begin(engine.rules().generation());
    let mut stack = StackReader::new(registers.sp(), written);
    let mut depth = 0;
    let mut exact = true;
    let mut trust = Trust::Live;
    let mut switches_left = MAX_STACK_SWITCHES;
    let mut hits = 0;
    let end = loop {
        if !exact {
            let room = chain.get_mut(depth..).unwrap_or_default();
            let called = follow_calls(engine.rules(), &mut tracing, &mut registers, &mut stack, room);
            depth += called;
            hits += called;
        }
        let pc = registers.pc();
        if !is_user_address(pc) {
            // A return address of zero also marks the outermost frame; anything else is no code.
            let is_outermost = pc == 0 && depth > 0 && trust == Trust::Live;
            break if is_outermost { WalkEnd::Complete } else { WalkEnd::NoRule };
        }
        let Some(place) = chain.get_mut(depth) else { break WalkEnd::Depth };
        let is_innermost = depth == 0;
        let adjusted = exact && !is_innermost && form == PcForm::ForReaders;
        *place = if adjusted { pc + 1 } else { pc };
        depth += 1;
        let sp = registers.sp();
        let frame = FrameLocation { pc, lookup: if exact { pc } else { pc - 1 }, trust, is_innermost };
        let rule = engine.rules().get(frame.lookup);
        hits += usize::from(rule.is_some());
        if rule != Some(Rule::OUTERMOST) {
            tracing.restore(&mut registers, &mut stack);
        }
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
            Step::Caller(CallKind::Called) if is_outside(registers.sp(), sp, exact) => exact = false,
            Step::Caller(CallKind::Called) => break WalkEnd::Loop,
            Step::Caller(CallKind::Guessed) if registers.sp() > sp => {
                trust = Trust::Guessed;
                exact = false;
            }
            Step::Caller(CallKind::Guessed) => break WalkEnd::Loop,
            Step::Caller(CallKind::Switched) => {
                if registers.sp() <= sp {
                    let Some(left) = switches_left.checked_sub(1) else { break WalkEnd::Loop };
                    switches_left = left;
                }
                exact = false;
            }
            // Between a handler's stack and the interrupted one the stack pointer may move either way.
            Step::Caller(CallKind::Interrupted) => {
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
    tracing.finish();
    slot.count_many(Counter::RuleHits, hits as u64);
    (depth, end)
}

/// Takes the commonest step over and over, as long as it goes on: a return address, a cached rule whose CFA is the
/// stack pointer plus a constant. Nine of ten frames are such, and this is all they cost.
/// Fills `room` and gives the number of steps; `registers` are then those of the next frame.
#[inline]
fn follow_calls<L: AsRef<[RuleLine]>>(
    rules: &RuleCache<L>,
    tracing: &mut FrameReuse<'_>,
    registers: &mut Registers,
    stack: &mut StackReader,
    room: &mut [usize],
) -> usize {
    let Some(mut sp) = registers.get(STACK_POINTER) else { return 0 };
    let mut pc = registers.pc();
    let mut taken = 0;
    while let Some(left) = room.get_mut(taken..).filter(|left| !left.is_empty()) {
        if tracing.can_reuse(sp) {
            let retraced;
            (retraced, (pc, sp)) = tracing.reuse_frames((pc, sp), registers, stack, left);
            taken += retraced;
            if retraced > 0 {
                continue;
            }
        }
        if !is_user_address(pc) {
            break;
        }
        let Some(rule) = rules.get(pc - 1).filter(|rule| rule.is_plain()) else { break };
        let cfa = sp.wrapping_add_signed(rule.offset());
        let Some(below) = rule.return_address().filter(|_| cfa > sp) else { break };
        let Some(caller) = stack.read(cfa.wrapping_sub(below)) else { break };
        tracing.note(TrailStep { pc, sp, cfa, rule }, registers, stack);
        rule.for_each_saved(|register, below| {
            let value = stack.read(cfa.wrapping_sub(below));
            registers.set(register, value);
        });
        let [place, ..] = left else { break };
        *place = pc;
        (pc, sp) = (code_address(caller), cfa);
        taken += 1;
    }
    if taken > 0 {
        if HAS_LINK_REGISTER {
            registers.set(RETURN_ADDRESS, None);
        }
        registers.set(STACK_POINTER, Some(sp));
        registers.set(PROGRAM_COUNTER, Some(pc));
        stack.follow(sp);
    }
    taken
}

/// True when a caller's stack pointer is one that its callee can have had `inner` under. A callee that has pushed
/// nothing leaves it as it was, where calls push nothing either. That ends: it takes a known link register, which the
/// interrupted frame has and no caller.
#[inline(always)]
fn is_outside(outer: usize, inner: usize, callee_was_interrupted: bool) -> bool {
    outer > inner || HAS_LINK_REGISTER && callee_was_interrupted && outer == inner
}

/// One frame of a walk.
struct FrameLocation {
    pc: usize,
    /// The address to look up.
    lookup: usize,
    trust: Trust,
    is_innermost: bool,
}

enum Step {
    /// The registers are now the caller's.
    Caller(CallKind),
    End(WalkEnd),
}

/// How a frame came to be, as seen from the registers of the frame outside it.
enum CallKind {
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
    frame: &FrameLocation,
) -> Step {
    match rule.kind() {
        RuleKind::Compact(cfa) => apply_compact(rule, cfa, registers, stack),
        RuleKind::Outermost => Step::End(WalkEnd::Complete),
        RuleKind::Evaluate => Step::End(WalkEnd::NoRule),
        RuleKind::SignalReturn => match Registers::of_signal_frame(registers.sp(), |place| stack.read(place))
        {
            Some(interrupted) => {
                *registers = interrupted;
                Step::Caller(CallKind::Interrupted)
            }
            None => Step::End(WalkEnd::Unreadable),
        },
        RuleKind::Unknown => {
            slot.count(Counter::FramesWithoutRule);
            let is_exact = frame.pc == frame.lookup;
            if is_exact && entry::step_to_caller(registers, stack) {
                return Step::Caller(CallKind::Guessed);
            }
            match frame_pointer::step(registers, stack, is_exact) {
                FramePointerStep::Caller => Step::Caller(CallKind::Guessed),
                // Code that was interrupted may have any zero in that register.
                FramePointerStep::Outermost if !frame.is_innermost => Step::End(WalkEnd::Complete),
                FramePointerStep::Outermost | FramePointerStep::Lost => Step::End(WalkEnd::NoRule),
            }
        }
    }
}

/// Applies the common rule.
#[inline]
fn apply_compact(rule: Rule, cfa: Cfa, registers: &mut Registers, stack: &mut StackReader) -> Step {
    match caller_of_compact(rule, cfa, registers, stack) {
        Some(()) if rule.register() == STACK_POINTER => Step::Caller(CallKind::Called),
        Some(()) => Step::Caller(CallKind::Switched),
        None => Step::End(WalkEnd::Unreadable),
    }
}

#[inline]
fn caller_of_compact(rule: Rule, cfa: Cfa, registers: &mut Registers, stack: &mut StackReader) -> Option<()> {
    let frame_address = match registers.get(rule.register()) {
        Some(base) => {
            let base = base.wrapping_add_signed(rule.offset());
            match cfa {
                Cfa::Sum => base,
                Cfa::Stored => stack.read(base)?,
            }
        }
        None => cfa_from_frame_pointer(rule, registers)?,
    };
    let pc = match rule.return_address() {
        Some(below) => stack.read(frame_address.wrapping_sub(below))?,
        None => registers.get(RETURN_ADDRESS)?,
    };
    rule.for_each_saved(|register, below| {
        let value = stack.read(frame_address.wrapping_sub(below));
        registers.set(register, value);
    });
    // A register that callees need not preserve is taken to be unchanged, as other unwinders do: OpenSSL's AES-GCM
    // keeps its CFA in rax across calls of its own subroutines. Compilers never ask for one. But a call has changed
    // the link register for certain.
    if HAS_LINK_REGISTER {
        registers.set(RETURN_ADDRESS, None);
    }
    registers.set(STACK_POINTER, Some(frame_address));
    registers.set(PROGRAM_COUNTER, Some(code_address(pc)));
    Some(())
}

/// The CFA of a function whose stack pointer is in doubt, since a frame pointer led to it, on machines where that gives
/// no stack pointer. If the function has stored its caller's frame pointer, its own points there. Otherwise its callee
/// is taken to have stored the frame pointer and the return address first, as code of JIT compilers does.
#[cold]
fn cfa_from_frame_pointer(rule: Rule, registers: &Registers) -> Option<usize> {
    if !HAS_LINK_REGISTER || rule.register() != STACK_POINTER {
        return None;
    }
    match rule.frame_record() {
        Some(below) => Some(registers.get(FRAME_POINTER)?.wrapping_add(below)),
        None => Some(registers.sp().wrapping_add_signed(rule.offset())),
    }
}

/// Finds the rule of a frame in its object, remembers it, and takes the step.
#[cold]
#[inline(never)]
fn look_up(
    engine: &Engine,
    slot: &Slot,
    registers: &mut Registers,
    stack: &mut StackReader,
    frame: &FrameLocation,
) -> Step {
    let Some(keeper) = objects::pin(frame.lookup, frame.trust) else { return Step::End(WalkEnd::Unloading) };
    let Some(object) = keeper.find(frame.lookup) else {
        // Not remembered: an object may be loaded there later.
        let is_trampoline = HAS_LINK_REGISTER && frame.trust == Trust::Live && is_signal_return(stack, frame);
        let rule = if is_trampoline { Rule::SIGNAL_RETURN } else { Rule::UNKNOWN };
        return apply(rule, slot, registers, stack, frame);
    };
    sampled_dsos::note(&object, slot);
    let mut resolved = if HAS_LINK_REGISTER && is_signal_return(stack, frame) {
        // Old kernels' information for it names the wrong register for the PC.
        Resolved::Rule(Rule::SIGNAL_RETURN)
    } else {
        let resolved = cfi::resolve_unless(&object, frame.lookup, registers, stack, |end, stack| {
            // Nothing was called here, and so the function that ends at the trampoline tells nothing of it.
            end == frame.pc
                && is_signal_return(stack, frame)
                && !entry::is_after_call_instruction(frame.pc, stack)
        });
        resolved.unwrap_or(Resolved::Rule(Rule::SIGNAL_RETURN))
    };
    if matches!(resolved, Resolved::Rule(Rule::UNKNOWN)) && frame.pc != frame.lookup {
        // A return address that is a function's first instruction: no call stands before it, so it was made up, and
        // nobody's frame lies beyond. `makecontext` has `__start_context` run so when the context's function returns;
        // that function's own information says nothing of it in glibc 2.36.
        if !matches!(cfi::resolve(&object, frame.pc, registers, stack), Resolved::Rule(Rule::UNKNOWN)) {
            resolved = Resolved::Rule(Rule::OUTERMOST);
        }
    }
    if matches!(resolved, Resolved::Rule(rule) if rule != Rule::ENTRY)
        && frame.pc == frame.lookup
        && entry::is_about_to_return(registers, stack)
    {
        resolved = Resolved::Rule(Rule::ENTRY);
    }
    if matches!(resolved, Resolved::Rule(Rule::UNKNOWN)) && is_signal_return(stack, frame) {
        // Go's runtime, and programs that call the kernel themselves, bring a trampoline of their own.
        resolved = Resolved::Rule(Rule::SIGNAL_RETURN);
    }
    let (rule, step) = match resolved {
        Resolved::Rule(rule) => (rule, apply(rule, slot, registers, stack, frame)),
        Resolved::Stepped { signal_frame: true } => (Rule::EVALUATE, Step::Caller(CallKind::Interrupted)),
        Resolved::Stepped { signal_frame: false } => (Rule::EVALUATE, Step::Caller(CallKind::Switched)),
        Resolved::Lost => return Step::End(WalkEnd::Unreadable),
    };
    // The byte before a trampoline may be an instruction of another function's.
    let is_of_another = !HAS_LINK_REGISTER && rule == Rule::SIGNAL_RETURN && frame.lookup != frame.pc;
    if keeper.may_be_remembered() && !is_of_another {
        engine.rules().insert(frame.lookup, rule);
    }
    step
}

fn is_signal_return(stack: &mut StackReader, frame: &FrameLocation) -> bool {
    stack.read_bytes(frame.pc).is_some_and(|code| code::is_signal_return(&code))
}
