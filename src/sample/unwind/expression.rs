//! Expressions in call frame information: DWARF 5, section 2.5, limited by section 6.4.2.

use super::sections::ADDRESS_BYTES;
use gimli::{EndianSlice, NativeEndian, Operation};

/// Runs `code` on the stack `values`; `operand` reads registers and memory. Returns None if the
/// code is damaged, not allowed or too long, or if an operand is not available. Signal-safe.
pub(super) fn run(
    code: &[u8],
    values: &mut Values,
    operand: &mut dyn FnMut(Operand) -> Option<Value>,
) -> Option<()> {
    // Compilers and linkers write at most a dozen; a branch may go back.
    const MAX_OPERATIONS: usize = 256;
    let encoding =
        gimli::Encoding { address_size: ADDRESS_BYTES, format: gimli::Format::Dwarf32, version: 4 };
    let mut rest = EndianSlice::new(code, NativeEndian);
    for _ in 0..MAX_OPERATIONS {
        if rest.is_empty() {
            return Some(());
        }
        let operation = Operation::parse(&mut rest, encoding).ok()?;
        let result = match operation {
            Operation::RegisterOffset { register, offset, .. } => {
                operand(Operand::Register(register.0))?.plus(offset)
            }
            Operation::UnsignedConstant { value } => Value::constant(value as i64),
            Operation::SignedConstant { value } => Value::constant(value),
            Operation::Address { address } => Value::constant(address as i64),
            Operation::PlusConstant { value } => values.pop()?.plus(value as i64),
            Operation::Deref { size, space: false, .. } => load(size, values.pop()?, operand)?,
            Operation::Pick { index } => values.peek(index)?,
            Operation::Drop => {
                values.pop()?;
                continue;
            }
            Operation::Swap => {
                let (top, below) = (values.pop()?, values.pop()?);
                values.push(top)?;
                below
            }
            Operation::Rot => {
                let (first, second, third) = (values.pop()?, values.pop()?, values.pop()?);
                values.push(first)?;
                values.push(third)?;
                second
            }
            Operation::Plus => {
                let (right, left) = (values.pop()?, values.pop()?);
                match left.as_constant() {
                    Some(constant) => right.plus(constant),
                    None => left.plus(right.as_constant()?),
                }
            }
            Operation::Minus => {
                let right = values.pop()?.as_constant()?;
                values.pop()?.plus(right.wrapping_neg())
            }
            Operation::Abs => values.unary(i64::wrapping_abs)?,
            Operation::Neg => values.unary(i64::wrapping_neg)?,
            Operation::Not => values.unary(|value| !value)?,
            Operation::And => values.binary(|left, right| Some(left & right))?,
            Operation::Or => values.binary(|left, right| Some(left | right))?,
            Operation::Xor => values.binary(|left, right| Some(left ^ right))?,
            Operation::Mul => values.binary(|left, right| Some(left.wrapping_mul(right)))?,
            // Division is signed, the remainder is unsigned (section 2.5.1.4).
            Operation::Div => values.binary(i64::checked_div)?,
            Operation::Mod => values
                .binary(|left, right| (left as u64).checked_rem(right as u64).map(|value| value as i64))?,
            Operation::Shl => values.binary(|left, right| left.checked_shl(u32::try_from(right).ok()?))?,
            Operation::Shr => values.binary(|left, right| {
                (left as u64).checked_shr(u32::try_from(right).ok()?).map(|value| value as i64)
            })?,
            Operation::Shra => values.binary(|left, right| left.checked_shr(u32::try_from(right).ok()?))?,
            Operation::Eq => values.binary(|left, right| Some(i64::from(left == right)))?,
            Operation::Ne => values.binary(|left, right| Some(i64::from(left != right)))?,
            Operation::Ge => values.binary(|left, right| Some(i64::from(left >= right)))?,
            Operation::Gt => values.binary(|left, right| Some(i64::from(left > right)))?,
            Operation::Le => values.binary(|left, right| Some(i64::from(left <= right)))?,
            Operation::Lt => values.binary(|left, right| Some(i64::from(left < right)))?,
            Operation::Skip { target } => {
                rest = branch(code, rest, target)?;
                continue;
            }
            Operation::Bra { target } => {
                if values.pop()?.as_constant()? != 0 {
                    rest = branch(code, rest, target)?;
                }
                continue;
            }
            Operation::Nop => continue,
            _ => return None,
        };
        values.push(result)?;
    }
    None
}

fn branch<'c>(
    code: &'c [u8],
    rest: EndianSlice<'c, NativeEndian>,
    distance: i16,
) -> Option<EndianSlice<'c, NativeEndian>> {
    let here = code.len().checked_sub(rest.len())?;
    let there = here.checked_add_signed(isize::from(distance))?;
    Some(EndianSlice::new(code.get(there..)?, NativeEndian))
}

/// Loads `size` bytes, zero-extended; None if they are in two words.
fn load(size: u8, address: Value, operand: &mut dyn FnMut(Operand) -> Option<Value>) -> Option<Value> {
    if size == ADDRESS_BYTES {
        return operand(Operand::Load(address));
    }
    let address = address.as_constant()? as usize;
    let within = address % usize::from(ADDRESS_BYTES);
    let word = operand(Operand::Load(Value::constant((address - within) as i64)))?.as_constant()?;
    let word = (word as usize).to_ne_bytes();
    let mut bytes = [0; size_of::<i64>()];
    let (from, to) = (word.get(within..within + usize::from(size))?, bytes.get_mut(..usize::from(size))?);
    to.copy_from_slice(from);
    Some(Value::constant(i64::from_le_bytes(bytes)))
}

pub(super) enum Operand {
    Register(u16),
    Load(Value),
}

/// A constant, a register plus a constant, or the word stored there.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) register: Option<u16>,
    pub(super) offset: i64,
    pub(super) stored: bool,
}

impl Value {
    pub(super) fn constant(value: i64) -> Self {
        Self { register: None, offset: value, stored: false }
    }

    pub(super) fn as_constant(self) -> Option<i64> {
        (self.register.is_none() && !self.stored).then_some(self.offset)
    }

    /// A sum with a stored value is not supported: a register that no frame has makes uses fail.
    fn plus(self, constant: i64) -> Self {
        if self.stored && constant != 0 {
            return Self { register: Some(u16::MAX), ..self };
        }
        Self { offset: self.offset.wrapping_add(constant), ..self }
    }
}

pub(super) struct Values {
    values: [Option<Value>; 8],
    used: usize,
}

impl Values {
    pub(super) fn new() -> Self {
        Self { values: [None; 8], used: 0 }
    }

    pub(super) fn push(&mut self, value: Value) -> Option<()> {
        *self.values.get_mut(self.used)? = Some(value);
        self.used += 1;
        Some(())
    }

    pub(super) fn pop(&mut self) -> Option<Value> {
        self.used = self.used.checked_sub(1)?;
        self.values.get_mut(self.used)?.take()
    }

    fn peek(&self, below: u8) -> Option<Value> {
        *self.values.get(self.used.checked_sub(usize::from(below) + 1)?)?
    }

    fn unary(&mut self, change: impl Fn(i64) -> i64) -> Option<Value> {
        Some(Value::constant(change(self.pop()?.as_constant()?)))
    }

    fn binary(&mut self, combine: impl Fn(i64, i64) -> Option<i64>) -> Option<Value> {
        let right = self.pop()?.as_constant()?;
        let left = self.pop()?.as_constant()?;
        combine(left, right).map(Value::constant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers hold 10 times their number, memory twice its address.
    fn value(code: &[u8]) -> Option<i64> {
        let mut values = Values::new();
        run(code, &mut values, &mut |operand| match operand {
            Operand::Register(number) => Some(Value::constant(i64::from(number) * 10)),
            Operand::Load(address) => Some(Value::constant(address.as_constant()? * 2)),
        })?;
        values.pop()?.as_constant()
    }

    // DWARF 5, section 7.7.1.
    const DEREF: u8 = 0x06;
    const CONST1U: u8 = 0x08;
    const CONST1S: u8 = 0x09;
    const DUP: u8 = 0x12;
    const DROP: u8 = 0x13;
    const OVER: u8 = 0x14;
    const PICK: u8 = 0x15;
    const SWAP: u8 = 0x16;
    const ROT: u8 = 0x17;
    const ABS: u8 = 0x19;
    const AND: u8 = 0x1a;
    const DIV: u8 = 0x1b;
    const MINUS: u8 = 0x1c;
    const MOD: u8 = 0x1d;
    const MUL: u8 = 0x1e;
    const NEG: u8 = 0x1f;
    const NOT: u8 = 0x20;
    const PLUS: u8 = 0x22;
    const PLUS_UCONST: u8 = 0x23;
    const SHL: u8 = 0x24;
    const SHR: u8 = 0x25;
    const SHRA: u8 = 0x26;
    const XOR: u8 = 0x27;
    const BRA: u8 = 0x28;
    const GE: u8 = 0x2a;
    const SKIP: u8 = 0x2f;
    const LIT0: u8 = 0x30;
    const BREG0: u8 = 0x70;
    const DEREF_SIZE: u8 = 0x94;
    const NOP: u8 = 0x96;

    fn lit(value: u8) -> u8 {
        LIT0 + value
    }

    #[test]
    fn rearranges_the_stack() {
        let digits = |code: &[u8]| value(&[code, &[lit(10), MUL, PLUS]].concat());
        assert_eq!(digits(&[lit(1), lit(2)]), Some(21));
        assert_eq!(digits(&[lit(1), lit(2), SWAP]), Some(12));
        assert_eq!(digits(&[lit(1), lit(2), DROP, lit(3)]), Some(31));
        assert_eq!(digits(&[lit(4), DUP]), Some(44));
        assert_eq!(digits(&[lit(1), lit(2), OVER]), Some(12));
        assert_eq!(digits(&[lit(1), lit(2), lit(3), PICK, 2]), Some(13));
        assert_eq!(digits(&[lit(1), lit(2), lit(3), ROT]), Some(21), "the first goes to the third place");
        assert_eq!(value(&[lit(1), lit(2), lit(3), ROT, DROP, DROP]), Some(3));
        for code in [&[DROP][..], &[lit(1), SWAP], &[lit(1), lit(2), ROT], &[lit(1), PICK, 1], &[OVER]] {
            assert_eq!(value(code), None, "{code:?}");
        }
    }

    #[test]
    fn computes_with_correct_signedness() {
        let minus_seven = [CONST1S, 0xf9];
        let with = |code: &[u8]| value(&[&minus_seven, code].concat());
        assert_eq!(with(&[ABS]), Some(7));
        assert_eq!(with(&[NEG]), Some(7));
        assert_eq!(with(&[NOT]), Some(6));
        assert_eq!(with(&[lit(2), DIV]), Some(-3), "signed");
        assert_eq!(with(&[lit(16), MOD]), Some(9), "without a sign");
        assert_eq!(with(&[lit(1), SHRA]), Some(-4));
        assert_eq!(with(&[CONST1U, 60, SHR]), Some(15));
        assert_eq!(with(&[lit(1), XOR]), Some(-8));
        assert_eq!(with(&[lit(0), DIV]), None);
        assert_eq!(with(&[lit(0), MOD]), None);
        assert_eq!(with(&[CONST1U, 64, SHL]), None);
        assert_eq!(value(&[BREG0 + 7, 8, PLUS_UCONST, 0x80, 1, lit(9), MINUS]), Some(70 + 8 + 128 - 9));
    }

    #[test]
    fn reads_words_and_parts_of_words() {
        assert_eq!(value(&[CONST1U, 200, DEREF]), Some(400));
        // The word at 200 is 400, 0x190.
        assert_eq!(value(&[CONST1U, 200, DEREF_SIZE, 1]), Some(0x90));
        assert_eq!(value(&[CONST1U, 201, DEREF_SIZE, 1]), Some(1));
        assert_eq!(value(&[CONST1U, 200, DEREF_SIZE, 4]), Some(0x190));
        assert_eq!(value(&[CONST1U, 207, DEREF_SIZE, 2]), None, "in two words");
    }

    #[test]
    fn limits_loops_and_checks_branch_targets() {
        assert_eq!(value(&[lit(1), SKIP, 1, 0, lit(2), NOP]), Some(1));
        assert_eq!(value(&[lit(5), lit(1), BRA, 1, 0, NEG, NOP]), Some(5));
        assert_eq!(value(&[lit(5), lit(0), BRA, 1, 0, NEG, NOP]), Some(-5));
        // Counts 3, 2, 1, 0.
        assert_eq!(value(&[lit(3), lit(1), MINUS, DUP, BRA, 0xfa, 0xff]), Some(0));
        assert_eq!(value(&[SKIP, 0xfd, 0xff]), None, "for ever");
        assert_eq!(value(&[SKIP, 9, 0]), None, "beyond the end");
        assert_eq!(value(&[SKIP, 0, 0x80]), None, "before the beginning");
    }

    /// As GNU ld writes it: the frame grows after the second instruction.
    #[test]
    fn evaluates_a_linkage_table_by_the_pc() {
        let code =
            |pc: u8| [BREG0 + 7, 8, CONST1U, pc, lit(15), AND, lit(11), GE, lit(3), SHL, PLUS].to_vec();
        assert_eq!(value(&code(0x46)), Some(78));
        assert_eq!(value(&code(0x4b)), Some(86));
    }
}
