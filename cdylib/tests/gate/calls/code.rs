//! The instructions of one function, and how they follow each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::image::Image;

/// Registers that a callee leaves as they were.
const PRESERVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// See the module.
pub(crate) struct Code {
    range: Range<u64>,
    instructions: BTreeMap<u64, Instruction>,
    /// The instructions from which each one is come to.
    ways: BTreeMap<u64, BTreeSet<u64>>,
}

impl Code {
    pub(crate) fn decode(image: &Image, range: Range<u64>) -> Self {
        let bytes = image.bytes(range.clone()).expect("a function has code");
        let decoder = Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE);
        let instructions = decoder.into_iter().map(|instruction| (instruction.ip(), instruction)).collect();
        Self { range, instructions, ways: BTreeMap::new() }
    }

    pub(crate) fn at(&self, address: u64) -> Option<Instruction> {
        self.instructions.get(&address).copied()
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        self.range.contains(&address)
    }

    /// True for the function's end, where every way to it is a call.
    pub(crate) fn ends_in_calls(&self, address: u64) -> bool {
        let mut ways = self.ways.get(&address).into_iter().flatten();
        self.range.end == address && ways.all(|way| is_call(&self.instructions[way]))
    }

    /// Notes that the instruction at `from` can be followed by the one at `to`.
    pub(crate) fn note_way(&mut self, from: u64, to: u64) {
        self.ways.entry(to).or_default().insert(from);
    }

    /// True where the jump's target was just added up, which is what a table of offsets is for; a pointer is not.
    pub(crate) fn jumps_by_table(&self, jump: &Instruction) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let register = jump.op0_register();
        let mut before = self.instructions.range(..jump.ip()).rev().map(|(_, before)| before);
        jump.op0_kind() == OpKind::Register
            && before
                .find(|before| writes(&mut factory, before, register))
                .is_some_and(|sum| sum.mnemonic() == Mnemonic::Add)
    }

    /// The places that the function's jump tables name: offsets of 32 bits from the table's own start, which is an
    /// address that the function takes. A table ends where an entry leads out of the function.
    pub(crate) fn jump_tables(&self, image: &Image) -> BTreeSet<u64> {
        let takes_address = |instruction: &&Instruction| {
            instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand()
        };
        let tables = self.instructions.values().filter(takes_address);
        tables.flat_map(|table| self.jump_table(image, table.ip_rel_memory_address())).collect()
    }

    fn jump_table(&self, image: &Image, table: u64) -> impl Iterator<Item = u64> {
        (0..).map_while(move |entry| {
            let at = table + 4 * entry;
            let offset = i32::from_le_bytes(image.bytes(at..at + 4)?.try_into().ok()?);
            let place = table.wrapping_add_signed(i64::from(offset));
            (self.holds(place) && self.instructions.contains_key(&place)).then_some(place)
        })
    }

    /// The constants that `register` can hold before the instruction at `address`; None among them where it can hold
    /// something else.
    pub(crate) fn constants(&self, address: u64, register: Register) -> BTreeSet<Option<i64>> {
        let constant = |definition: &Instruction| match (definition.mnemonic(), definition.op1_kind()) {
            (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64) => {
                Some(definition.immediate(1) as i64)
            }
            (Mnemonic::Xor, _) => Some(0),
            _ => None,
        };
        let definitions = self.definitions(address, register);
        definitions.map_or_else(|| BTreeSet::from([None]), |found| found.iter().map(constant).collect())
    }

    /// The instructions that have put into `register` what it holds before the instruction at `address`; None where one
    /// of them is unknown: a caller, a callee, or the stack.
    pub(crate) fn definitions(&self, address: u64, register: Register) -> Option<Vec<Instruction>> {
        let mut factory = InstructionInfoFactory::new();
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut pending = vec![(address, register.full_register())];
        while let Some((address, register)) = pending.pop() {
            if !seen.insert((address, register)) {
                continue;
            }
            // The function's first instruction has its caller before it.
            let ways = self.ways.get(&address).filter(|_| address != self.range.start)?;
            for &way in ways {
                let before = self.instructions[&way];
                let is_call = is_call(&before);
                // The kernel keeps all registers but three, of which the processor's manual tells two.
                if before.mnemonic() == Mnemonic::Syscall && register != Register::RAX {
                    pending.push((way, register));
                    continue;
                }
                if is_call && !PRESERVED.contains(&register) {
                    return None;
                }
                if is_call || !writes(&mut factory, &before, register) {
                    pending.push((way, register));
                    continue;
                }
                match (before.mnemonic(), before.op1_kind()) {
                    (Mnemonic::Mov, OpKind::Register) => {
                        pending.push((way, before.op1_register().full_register()))
                    }
                    (Mnemonic::Mov | Mnemonic::Lea, OpKind::Memory) if before.is_ip_rel_memory_operand() => {
                        found.push(before);
                    }
                    (Mnemonic::Mov, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64) => {
                        found.push(before);
                    }
                    (Mnemonic::Xor, OpKind::Register) if before.op0_register() == before.op1_register() => {
                        found.push(before);
                    }
                    _ => return None,
                }
            }
        }
        Some(found)
    }
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

fn writes(factory: &mut InstructionInfoFactory, instruction: &Instruction, register: Register) -> bool {
    let is_write = |access| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let used = factory.info(instruction).used_registers();
    used.iter().any(|used| used.register().full_register() == register && is_write(used.access()))
}
