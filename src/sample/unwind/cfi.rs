//! Call frame information: the rule of a PC, or the step to the caller. `gimli` runs the row's
//! program on arrays in this stack frame; callers run [`resolve`] on a slot's stack.
//!
//! Formats: Linux Standard Base, Core, "DWARF Extensions"; DWARF 5, section 6.4.

use super::{
    expression::{self, Operand, Value, Values},
    frame_index,
    machine_code::rule_after_pushes,
    memory::StackReader,
    objects::PinnedDso,
    rule::{Cfa, Row, Rule},
    sections::{Arrays, Description, Found, Sections},
};
use crate::sys::arch::{
    CALLEE_SAVED, HAS_LINK_REGISTER, PROGRAM_COUNTER, RETURN_ADDRESS, Registers, STACK_POINTER, code_address,
};
use gimli::{CfaRule, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindTableRow};

pub(crate) enum Resolved {
    /// To apply and cache; [`Rule::UNKNOWN`] without information.
    Rule(Rule),
    /// The row fits no rule: it was evaluated, and the registers are the caller's.
    Stepped { signal_frame: bool },
    /// The row fits no rule, and it needs a register or memory that is not available.
    Lost,
}

/// Finds the rule for `pc`, or steps `registers` if none fits. Signal-safe.
pub(crate) fn resolve(
    object: &PinnedDso<'_>,
    pc: usize,
    registers: &mut Registers,
    stack: &mut StackReader,
) -> Resolved {
    resolve_unless(object, pc, registers, stack, |_, _| false).unwrap_or(Resolved::Rule(Rule::UNKNOWN))
}

/// As [`resolve`], but None if `foreign`, called with the end of the described code, returns true:
/// the entry is not about this frame. Signal-safe if `foreign` is.
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

struct Frame<'a> {
    sections: &'a Sections<'a>,
    row: &'a UnwindTableRow<usize, Arrays>,
    pc: usize,
    signal_frame: bool,
    /// The return address is undefined in at least a part of the function.
    no_caller: bool,
}

impl Frame<'_> {
    /// Converts the row to a rule. A signal frame's restores every register and never fits.
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
                // Compilers omit the rule of an unchanged register.
                RegisterRule::SameValue | RegisterRule::Undefined => None,
                _ => return None,
            };
        }
        Rule::compact(&Row { cfa, register, offset, return_address, saved })
    }

    /// Whether the row itself has a rule for the register; gimli has defaults.
    fn names(&self, number: u16) -> bool {
        self.row.registers().any(|(register, _)| register.0 == number)
    }

    /// Reduces an expression to a register plus a constant, as linkers write for procedure linkage
    /// tables, or to the word stored there, as compilers write for realigned stacks.
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

    /// Applies the row. If a value is not available, returns None and changes nothing.
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
            // Still in the link register.
            None if HAS_LINK_REGISTER && !self.names(RETURN_ADDRESS) => before.get(RETURN_ADDRESS)?,
            value => value?,
        };
        after.set(RETURN_ADDRESS, None);
        after.set(PROGRAM_COUNTER, Some(code_address(pc)));
        after.get(STACK_POINTER)?;
        *registers = after;
        Some(())
    }

    /// Evaluates an expression, which has the CFA on its stack if it computes a register.
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
    use crate::sys::memory::{OwnedMapping, PAGE};

    const WORD: i64 = size_of::<usize>() as i64;

    fn resolve_here(pc: usize, registers: &mut Registers) -> Resolved {
        objects::prepare();
        let guard = objects::pin(pc, Trust::Live).unwrap();
        let object = guard.find(pc).unwrap();
        resolve(&object, pc, registers, &mut StackReader::new(0, 0))
    }

    #[test]
    fn a_function_of_this_program_has_a_compact_rule() {
        let pc = a_function_of_this_program_has_a_compact_rule as *const () as usize;
        let Resolved::Rule(rule) = resolve_here(pc, &mut Registers::from_values(&[])) else { panic!() };
        // At most the return address was pushed (AMD64 psABI, section 3.2.2).
        let pushed = if HAS_LINK_REGISTER { 0 } else { WORD };
        assert_eq!(rule.kind(), RuleKind::Compact(Cfa::Sum));
        assert_eq!((rule.register(), rule.offset() as i64), (STACK_POINTER, pushed));
        assert_eq!(rule.return_address().is_none(), HAS_LINK_REGISTER);
        rule.for_each_saved(|register, _| panic!("register {register} is not stored yet"));
    }

    #[test]
    fn finds_no_object_for_anonymous_memory() {
        let mapping = OwnedMapping::writable(PAGE).unwrap();
        objects::prepare();
        let guard = objects::pin(mapping.start().as_ptr() as usize, Trust::Live).unwrap();
        assert!(guard.find(mapping.start().as_ptr() as usize).is_none());
    }

    #[test]
    fn resolving_fits_a_scratch_stack_many_times_over() {
        const STACK: usize = crate::sample::scratch::STACK_BYTES;
        extern "C" fn run(_: *mut u8) {
            let pc = resolving_fits_a_scratch_stack_many_times_over as *const () as usize;
            resolve_here(pc, &mut Registers::from_values(&[]));
        }
        objects::prepare();
        let mapping = OwnedMapping::writable(STACK).unwrap();
        let start = mapping.start();
        // SAFETY: the sum is the end of this mapping, which is page-aligned.
        let top = unsafe { start.add(STACK) };
        // SAFETY: the stack is as large as a slot's, and `run` does not unwind.
        unsafe { crate::sys::arch::call_on_stack(run, core::ptr::null_mut(), top.as_ptr()) };
        // SAFETY: the mapping is readable and outlives the slice.
        let bytes = unsafe { core::slice::from_raw_parts(start.as_ptr(), STACK) };
        let untouched = bytes.iter().take_while(|&&byte| byte == 0).count();
        assert!(STACK - untouched < STACK / 2, "{} bytes of {STACK} used", STACK - untouched);
    }
}
