//! Call frame information: from a PC to its rule, or from a frame's registers to its caller's.
//!
//! `gimli` reads the sections (`sections.rs`) and runs the row's program on arrays in our own frame. That takes some
//! kilobytes of stack, so callers run [`resolve`] on a scratch slot's stack.
//!
//! Formats: Linux Standard Base, Core, "DWARF Extensions"; DWARF 5, section 6.4.

use super::{
    entry::rule_after_pushes,
    expression::{self, Operand, Value, Values},
    frame_index,
    memory::StackReader,
    objects::PinnedDso,
    rule::{Cfa, Row, Rule},
    sections::{Arrays, Description, Found, Sections},
};
use crate::sys::arch::{
    CALLEE_SAVED, HAS_LINK_REGISTER, PROGRAM_COUNTER, RETURN_ADDRESS, Registers, STACK_POINTER, code_address,
};
use gimli::{CfaRule, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindTableRow};

/// What a PC's call frame information came to.
pub(crate) enum Resolved {
    /// A rule, to be applied and kept. [`Rule::UNKNOWN`] where there is no information.
    Rule(Rule),
    /// The row fits no rule: it was evaluated, and the registers are now those of the caller.
    Stepped { signal_frame: bool },
    /// The row fits no rule, and it needs a register or memory that is not to be had.
    Lost,
}

/// Finds the rule for `pc`, in `object`, or steps `registers` where there is none that fits. Signal-safe.
pub(crate) fn resolve(
    object: &PinnedDso<'_>,
    pc: usize,
    registers: &mut Registers,
    stack: &mut StackReader,
) -> Resolved {
    resolve_unless(object, pc, registers, stack, |_, _| false).unwrap_or(Resolved::Rule(Rule::UNKNOWN))
}

/// [`resolve`], unless what describes `pc` is `foreign` to the frame by the address where the described code ends: None then.
/// Signal-safe if that is.
#[inline(never)]
pub(crate) fn resolve_unless(
    object: &PinnedDso<'_>,
    pc: usize,
    registers: &mut Registers,
    stack: &mut StackReader,
    foreign: impl FnOnce(usize, &mut StackReader) -> bool,
) -> Option<Resolved> {
    let index = frame_index::reading();
    let Some(description) = Description::find(object, index.as_ref(), pc) else {
        return Some(Resolved::Rule(Rule::UNKNOWN));
    };
    let end = description.bytes_left().map(|left| pc.wrapping_add(left));
    let is_foreign = end.is_some_and(|end| foreign(end, stack));
    (!is_foreign).then(|| resolve_by(&description, pc, registers, stack))
}

/// [`resolve`] by what describes `pc`.
pub(super) fn resolve_by(
    description: &Description<'_>,
    pc: usize,
    registers: &mut Registers,
    stack: &mut StackReader,
) -> Resolved {
    let mut context = UnwindContext::<usize, Arrays>::new_in();
    let Some(Found { row, signal_frame, no_caller }) = description.row(&mut context) else {
        return Resolved::Rule(Rule::UNKNOWN);
    };
    let frame = Frame { sections: &description.sections, row, pc, signal_frame, no_caller };
    match frame.rule() {
        Some(Rule::ENTRY) if row.start_address() == description.function() => {
            let behind_entry = description.pc.wrapping_sub(description.function());
            let entry = pc.wrapping_sub(usize::try_from(behind_entry).unwrap_or(0));
            Resolved::Rule(rule_after_pushes(entry, pc, stack).unwrap_or(Rule::ENTRY))
        }
        Some(rule) => Resolved::Rule(rule),
        None => match frame.step(registers, stack) {
            Some(()) => Resolved::Stepped { signal_frame: frame.signal_frame },
            None => Resolved::Lost,
        },
    }
}

/// A row, with all that is needed to apply it.
struct Frame<'a> {
    sections: &'a Sections<'a>,
    row: &'a UnwindTableRow<usize, Arrays>,
    pc: usize,
    signal_frame: bool,
    /// The function's return address is undefined, at least in a part of it.
    no_caller: bool,
}

impl Frame<'_> {
    /// The row as a rule, if it fits one. A signal frame's does not: it restores every register.
    fn rule(&self) -> Option<Rule> {
        if self.signal_frame {
            return None;
        }
        let return_address = match self.row.register(Register(RETURN_ADDRESS)) {
            RegisterRule::Undefined if self.no_caller || !HAS_LINK_REGISTER => return Some(Rule::OUTERMOST),
            RegisterRule::Undefined | RegisterRule::SameValue if HAS_LINK_REGISTER => None,
            RegisterRule::Offset(offset) => Some(offset),
            _ => return None,
        };
        if self.names(STACK_POINTER) {
            return None;
        }
        let (cfa, register, offset) = match self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => (Cfa::Sum, register.0, *offset),
            CfaRule::Expression(expression) => self.known_shape(expression)?,
        };
        let mut saved = [None; CALLEE_SAVED.len()];
        for (place, number) in saved.iter_mut().zip(CALLEE_SAVED) {
            *place = match self.row.register(Register(number)) {
                RegisterRule::Offset(offset) => Some(offset),
                // Compilers leave out the rule of a register that they have not touched.
                RegisterRule::SameValue | RegisterRule::Undefined => None,
                _ => return None,
            };
        }
        Rule::compact(&Row { cfa, register, offset, return_address, saved })
    }

    /// True when the row has a rule for the register, rather than gimli's default.
    fn names(&self, number: u16) -> bool {
        self.row.registers().any(|(register, _)| register.0 == number)
    }

    /// An expression whose value is a register plus a constant, once the PC is known, or what is stored there:
    /// linkers write the former for procedure linkage tables, compilers the latter for realigned stacks.
    fn known_shape(&self, expression: &UnwindExpression<usize>) -> Option<(Cfa, u16, i64)> {
        let mut values = Values::new();
        self.run(expression, &mut values, &mut |operand| match operand {
            Operand::Register(PROGRAM_COUNTER) => Some(Value::constant(self.pc as i64)),
            Operand::Register(number) => Some(Value { register: Some(number), offset: 0, stored: false }),
            Operand::Load(Value { register, offset, stored: false }) if register.is_some() => {
                Some(Value { register, offset, stored: true })
            }
            Operand::Load(_) => None,
        })?;
        let result = values.pop()?;
        let cfa = if result.stored { Cfa::Stored } else { Cfa::Sum };
        Some((cfa, result.register?, result.offset))
    }

    /// Applies the row to `registers`; None where something it needs is not to be had. They are unchanged then.
    fn step(&self, registers: &mut Registers, stack: &mut StackReader) -> Option<()> {
        let before = *registers;
        let cfa = match self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                before.get(register.0)?.wrapping_add_signed(*offset as isize)
            }
            CfaRule::Expression(expression) => self.value(expression, None, &before, stack)?,
        };
        let mut after = before;
        after.set(STACK_POINTER, Some(cfa));
        after.set(RETURN_ADDRESS, None);
        for (register, rule) in self.row.registers() {
            let value = match rule {
                RegisterRule::SameValue => before.get(register.0),
                RegisterRule::Offset(offset) => stack.read(cfa.wrapping_add_signed(*offset as isize)),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset as isize)),
                RegisterRule::Register(other) => before.get(other.0),
                RegisterRule::Expression(expression) => {
                    self.value(expression, Some(cfa), &before, stack).and_then(|address| stack.read(address))
                }
                RegisterRule::ValExpression(expression) => self.value(expression, Some(cfa), &before, stack),
                _ => None,
            };
            after.set(register.0, value);
        }
        let pc = match after.get(RETURN_ADDRESS) {
            // Still in its register.
            None if HAS_LINK_REGISTER && !self.names(RETURN_ADDRESS) => before.get(RETURN_ADDRESS)?,
            value => value?,
        };
        after.set(RETURN_ADDRESS, None);
        after.set(PROGRAM_COUNTER, Some(code_address(pc)));
        after.get(STACK_POINTER)?;
        *registers = after;
        Some(())
    }

    /// The value of an expression; it starts with the CFA on its stack where it computes a register.
    fn value(
        &self,
        expression: &UnwindExpression<usize>,
        cfa: Option<usize>,
        registers: &Registers,
        stack: &mut StackReader,
    ) -> Option<usize> {
        let mut values = Values::new();
        if let Some(cfa) = cfa {
            values.push(Value::constant(cfa as i64))?;
        }
        self.run(expression, &mut values, &mut |operand| match operand {
            Operand::Register(number) => Some(Value::constant(registers.get(number)? as i64)),
            Operand::Load(value) => Some(Value::constant(stack.read(value.offset as usize)? as i64)),
        })?;
        Some(values.pop()?.as_constant()? as usize)
    }

    /// Runs an expression.
    fn run(
        &self,
        expression: &UnwindExpression<usize>,
        values: &mut Values,
        operand: &mut dyn FnMut(Operand) -> Option<Value>,
    ) -> Option<()> {
        expression::run(expression.get(&self.sections.frames).ok()?.0.slice(), values, operand)
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "one test runs on a stack of its own, to measure it")]
mod tests {
    use super::super::{Trust, objects, rule::RuleKind};
    use super::*;
    use crate::sys::memory::{Mapping, PAGE};

    const WORD: i64 = size_of::<usize>() as i64;

    fn resolve_here(pc: usize, registers: &mut Registers) -> Resolved {
        objects::prepare();
        let keeper = objects::pin(pc, Trust::Live).unwrap();
        let object = keeper.find(pc).unwrap();
        resolve(&object, pc, registers, &mut StackReader::new(0, 0))
    }

    #[test]
    fn a_function_of_this_program_has_a_compact_rule() {
        let pc = a_function_of_this_program_has_a_compact_rule as *const () as usize;
        let Resolved::Rule(rule) = resolve_here(pc, &mut Registers::from_values(&[])) else { panic!() };
        // At the first instruction at most the return address has been pushed (AMD64 psABI section 3.2.2).
        let pushed = if HAS_LINK_REGISTER { 0 } else { WORD };
        assert_eq!(rule.kind(), RuleKind::Compact(Cfa::Sum));
        assert_eq!((rule.register(), rule.offset() as i64), (STACK_POINTER, pushed));
        assert_eq!(rule.return_address().is_none(), HAS_LINK_REGISTER);
        rule.for_each_saved(|register, _| panic!("register {register} is not stored yet"));
    }

    #[test]
    fn memory_without_frames_has_no_rule() {
        let mapping = Mapping::writable(PAGE).unwrap();
        objects::prepare();
        let keeper = objects::pin(mapping.start().as_ptr() as usize, Trust::Live).unwrap();
        assert!(keeper.find(mapping.start().as_ptr() as usize).is_none());
    }

    #[test]
    fn resolving_fits_a_scratch_stack_many_times_over() {
        const STACK: usize = crate::sample::scratch::STACK_BYTES;
        extern "C" fn run(_: *mut u8) {
            let pc = resolving_fits_a_scratch_stack_many_times_over as *const () as usize;
            resolve_here(pc, &mut Registers::from_values(&[]));
        }
        objects::prepare();
        let mapping = Mapping::writable(STACK).unwrap();
        let start = mapping.start();
        // SAFETY: the mapping is ours, and its end is aligned to a page.
        let top = unsafe { start.add(STACK) };
        // SAFETY: the stack is as large as a slot's, and `run` does not unwind.
        unsafe { crate::sys::arch::call_on_stack(run, core::ptr::null_mut(), top.as_ptr()) };
        // SAFETY: the whole mapping is ours.
        let bytes = unsafe { core::slice::from_raw_parts(start.as_ptr(), STACK) };
        let untouched = bytes.iter().take_while(|&&byte| byte == 0).count();
        assert!(STACK - untouched < STACK / 2, "{} bytes of {STACK} used", STACK - untouched);
    }
}
