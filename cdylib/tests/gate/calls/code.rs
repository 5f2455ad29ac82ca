//! The instructions of one function, and their order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::image::Image;

/// Callee-saved registers.
const PRESERVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

pub(crate) struct Code {
    range: Range<u64>,
    instructions: BTreeMap<u64, Instruction>,
    /// The instructions that can precede each one.
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

    /// True for the function's end, if only calls precede it.
    pub(crate) fn ends_in_calls(&self, address: u64) -> bool {
        let mut ways = self.ways.get(&address).into_iter().flatten();
        self.range.end == address && ways.all(|way| is_call(&self.instructions[way]))
    }

    /// Records that the instruction at `to` can follow the one at `from`.
    pub(crate) fn note_way(&mut self, from: u64, to: u64) {
        self.ways.entry(to).or_default().insert(from);
    }

    /// True if the jump's target was just computed by an addition, as from a table of offsets.
    pub(crate) fn jumps_by_table(&self, jump: &Instruction) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let register = jump.op0_register();
        let mut before = self.instructions.range(..jump.ip()).rev().map(|(_, before)| before);
        jump.op0_kind() == OpKind::Register
            && before
                .find(|before| writes(&mut factory, before, register))
                .is_some_and(|sum| sum.mnemonic() == Mnemonic::Add)
    }

    /// The targets in the function's jump tables: 32-bit offsets from the table's start, an address
    /// that the function takes. A table ends at an entry that leads out of the function.
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

    /// The constants that `register` can hold before the instruction at `address`, with `None` for
    /// other values.
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

    /// The instructions that set the value of `register` before the instruction at `address`;
    /// `None` if one is unknown: in a caller, a callee, or on the stack.
    pub(crate) fn definitions(&self, address: u64, register: Register) -> Option<Vec<Instruction>> {
        let mut factory = InstructionInfoFactory::new();
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut pending = vec![(address, register.full_register())];
        while let Some((address, register)) = pending.pop() {
            if !seen.insert((address, register)) {
                continue;
            }
            // The instruction before the function's first one is in its caller.
            let ways = self.ways.get(&address).filter(|_| address != self.range.start)?;
            for &way in ways {
                let before = self.instructions[&way];
                let is_call = is_call(&before);
                // The kernel preserves all registers except rax, rcx and r11.
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
