//! The walk from the interrupted registers to the call chain.
//!
//! Each step needs the *rule* of the frame's PC: from the slot's last walk, the cache, or the DSO's
//! call frame information; it is then mostly cached. A walk is *complete* if the return address is
//! undefined (glibc marks `_start` and `clone` so), zero, or not after a call.

mod cfi;
// The sections that it makes are for x86-64.
#[cfg(all(test, target_arch = "x86_64"))]
mod damage;
mod expression;
pub(crate) mod frame_index;
mod frame_pointer;
mod gate;
pub(crate) mod last_walk;
mod machine_code;
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
use last_walk::{CachedFrame, FrameReuse, LastWalk};
use memory::StackReader;
use rule::{Cfa, Rule, RuleKind};
use rule_cache::{RuleCache, RuleLine};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    Complete,
    Depth,
    /// The next frame's memory is not readable, or a register for it is unknown.
    Unreadable,
    /// Neither call frame information nor a frame pointer leads to the caller.
    NoRule,
    /// The stack pointer did not move towards the stack's base, or the stack changed too often.
    Loop,
    /// The DSO of a guessed PC is being unloaded, or could be, unseen.
    Unloading,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PcForm {
    /// As in the registers.
    Exact,
    /// For profile readers, which look up every PC except the first at PC - 1, to find the call.
    /// The PC of a frame that a signal interrupted is therefore stored plus 1.
    ForReaders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Runs, or will be returned to by call frame information: its DSO cannot be unloaded.
    Live,
    /// A frame pointer led there; the register may have held anything.
    Guessed,
}

/// The most stack switches in a chain (coroutines, `makecontext`, stacks that code grows).
const MAX_STACK_SWITCHES: u32 = 16;

/// Fills `chain` with PCs from `registers` outwards, innermost first. Signal-safe. Needs some KiB
/// of stack: callers run it on a slot's.
///
/// PCs are return addresses, except the first and those that a signal interrupted. `written` is the
/// last byte that the kernel wrote for the interrupted thread, or 0.
pub(crate) fn walk(
    engine: &Engine,
    slot: &Slot,
    mut registers: Registers,
    written: usize,
    form: PcForm,
    chain: &mut [usize],
    last_walk: &mut LastWalk,
) -> (usize, WalkEnd) {
    let mut reuse = last_walk.begin(engine.rules().generation());
    let mut stack = StackReader::new(registers.sp(), written);
    let mut depth = 0;
    let mut exact = true;
    let mut trust = Trust::Live;
    let mut switches_left = MAX_STACK_SWITCHES;
    let mut hits = 0;
    let end = loop {
        if !exact {
            let room = chain.get_mut(depth..).unwrap_or_default();
            let called = follow_calls(engine.rules(), &mut reuse, &mut registers, &mut stack, room);
            depth += called;
            hits += called;
        }
        let pc = registers.pc();
        if !is_user_address(pc) {
            // A zero return address also marks the outermost frame; other such values are not code.
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
            reuse.restore(&mut registers, &mut stack);
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
            // From a handler's stack to the interrupted one, `sp` may move either way.
            Step::Caller(CallKind::Interrupted) => {
                if form == PcForm::ForReaders && !exact {
                    // The kernel enters the trampoline without a call: its PC is exact.
                    *place = pc + 1;
                }
                exact = true;
            }
            Step::End(end) => break end,
        }
        stack.follow(registers.sp());
    };
    reuse.finish();
    slot.count_many(Counter::RuleHits, hits as u64);
    (depth, end)
}

/// Takes the most common step while it applies: a stored return address, and a cached rule with CFA
/// = stack pointer + constant. 9 of 10 frames are such. Sets `registers` to those of the next
/// frame; returns the number of steps.
#[inline]
fn follow_calls<L: AsRef<[RuleLine]>>(
    rules: &RuleCache<L>,
    reuse: &mut FrameReuse<'_>,
    registers: &mut Registers,
    stack: &mut StackReader,
    room: &mut [usize],
) -> usize {
    let Some(mut sp) = registers.get(STACK_POINTER) else { return 0 };
    let mut pc = registers.pc();
    let mut taken = 0;
    while let Some(left) = room.get_mut(taken..).filter(|left| !left.is_empty()) {
        if reuse.can_reuse(sp) {
            let reused;
            (reused, (pc, sp)) = reuse.reuse_frames((pc, sp), registers, stack, left);
            taken += reused;
            if reused > 0 {
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
        reuse.note(CachedFrame { pc, sp, cfa, rule }, registers, stack);
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

/// Whether a caller's stack pointer is plausible. It equals the callee's only if an interrupted
/// callee has pushed nothing and calls push nothing. Such a step needs a link register, which no
/// caller has, so walks still end.
#[inline(always)]
fn is_outside(outer: usize, inner: usize, callee_was_interrupted: bool) -> bool {
    outer > inner || HAS_LINK_REGISTER && callee_was_interrupted && outer == inner
}

struct FrameLocation {
    pc: usize,
    lookup: usize,
    trust: Trust,
    is_innermost: bool,
}

enum Step {
    Caller(CallKind),
    End(WalkEnd),
}

/// How a frame was entered, seen from the next outer one.
enum CallKind {
    Called,
    /// By a call, with a CFA not based on the stack pointer: the stack may be another.
    Switched,
    /// Probably by a call: a frame pointer led here.
    Guessed,
    Interrupted,
}

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
            if is_exact && machine_code::step_to_caller(registers, stack) {
                return Step::Caller(CallKind::Guessed);
            }
            match frame_pointer::step(registers, stack, is_exact) {
                FramePointerStep::Caller => Step::Caller(CallKind::Guessed),
                // Interrupted code may have any zero in the register.
                FramePointerStep::Outermost if !frame.is_innermost => Step::End(WalkEnd::Complete),
                FramePointerStep::Outermost | FramePointerStep::Lost => Step::End(WalkEnd::NoRule),
            }
        }
    }
}

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
    // Registers that callees need not preserve count as unchanged: OpenSSL's AES-GCM keeps its CFA
    // in rax across calls of its own subroutines. But a call does change the link register.
    if HAS_LINK_REGISTER {
        registers.set(RETURN_ADDRESS, None);
    }
    registers.set(STACK_POINTER, Some(frame_address));
    registers.set(PROGRAM_COUNTER, Some(code_address(pc)));
    Some(())
}

/// Computes the CFA if a frame pointer led here and the stack pointer is in doubt. If the function
/// has stored its caller's frame pointer, its own points there. Otherwise its callee is assumed to
/// have stored both words first, as JIT-compiled code does.
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

/// Finds the rule of a frame in its DSO, caches it, and takes the step.
#[cold]
#[inline(never)]
fn look_up(
    engine: &Engine,
    slot: &Slot,
    registers: &mut Registers,
    stack: &mut StackReader,
    frame: &FrameLocation,
) -> Step {
    let Some(guard) = objects::pin(frame.lookup, frame.trust) else { return Step::End(WalkEnd::Unloading) };
    let Some(object) = guard.find(frame.lookup) else {
        // Not cached: a DSO may be loaded there later.
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
            // The function that ends at the trampoline does not describe it: no call precedes.
            end == frame.pc
                && is_signal_return(stack, frame)
                && !machine_code::is_after_call_instruction(frame.pc, stack)
        });
        resolved.unwrap_or(Resolved::Rule(Rule::SIGNAL_RETURN))
    };
    if matches!(resolved, Resolved::Rule(Rule::UNKNOWN)) && frame.pc != frame.lookup {
        // A return address at a function's start follows no call, so the frame is the outermost.
        // `makecontext` runs `__start_context` so; its own information omits this in glibc 2.36.
        if !matches!(cfi::resolve(&object, frame.pc, registers, stack), Resolved::Rule(Rule::UNKNOWN)) {
            resolved = Resolved::Rule(Rule::OUTERMOST);
        }
    }
    if matches!(resolved, Resolved::Rule(rule) if rule != Rule::ENTRY)
        && frame.pc == frame.lookup
        && machine_code::is_about_to_return(registers, stack)
    {
        resolved = Resolved::Rule(Rule::ENTRY);
    }
    if matches!(resolved, Resolved::Rule(Rule::UNKNOWN)) && is_signal_return(stack, frame) {
        // Go's runtime and others that call the kernel directly have their own trampoline.
        resolved = Resolved::Rule(Rule::SIGNAL_RETURN);
    }
    let (rule, step) = match resolved {
        Resolved::Rule(rule) => (rule, apply(rule, slot, registers, stack, frame)),
        Resolved::Stepped { signal_frame: true } => (Rule::EVALUATE, Step::Caller(CallKind::Interrupted)),
        Resolved::Stepped { signal_frame: false } => (Rule::EVALUATE, Step::Caller(CallKind::Switched)),
        Resolved::Lost => return Step::End(WalkEnd::Unreadable),
    };
    // The byte before a trampoline may belong to another function.
    let is_of_another = !HAS_LINK_REGISTER && rule == Rule::SIGNAL_RETURN && frame.lookup != frame.pc;
    if guard.may_be_remembered() && !is_of_another {
        engine.rules().insert(frame.lookup, rule);
    }
    step
}

fn is_signal_return(stack: &mut StackReader, frame: &FrameLocation) -> bool {
    stack.read_bytes(frame.pc).is_some_and(|code| code::is_signal_return(&code))
}
