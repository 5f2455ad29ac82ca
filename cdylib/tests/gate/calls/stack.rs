//! The stack that a function uses, from the instructions that change the stack pointer.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// The stack pointer's position at an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stack {
    /// Bytes used of the stack on which the function was called.
    pub(crate) used: u64,
    /// The stack pointer is on another stack, and will be restored.
    is_elsewhere: bool,
}

impl Stack {
    /// The position after `instruction`, and after its callee returned.
    pub(crate) fn behind(self, instruction: &Instruction) -> Self {
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            return self;
        }
        let is_first =
            |register| instruction.op0_kind() == OpKind::Register && instruction.op0_register() == register;
        let moved = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Sub | Mnemonic::Add, kind) if is_first(Register::RSP) => {
                assert_ne!(kind, OpKind::Register, "a stack frame of variable size: {instruction:?}");
                let bytes = instruction.immediate(1) as i64;
                if instruction.mnemonic() == Mnemonic::Sub { bytes } else { -bytes }
            }
            // To another stack, or back.
            (Mnemonic::Mov, OpKind::Register) if is_first(Register::RSP) => {
                return Self { is_elsewhere: !self.is_elsewhere, ..self };
            }
            _ => {
                let known = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push);
                assert!(known || !is_first(Register::RSP), "a stack pointer from elsewhere: {instruction:?}");
                -i64::from(instruction.stack_pointer_increment())
            }
        };
        if self.is_elsewhere { self } else { Self { used: self.used.saturating_add_signed(moved), ..self } }
    }

    /// The position at a callee's entry.
    pub(crate) fn with_return_address(self) -> Self {
        if self.is_elsewhere { self } else { Self { used: self.used + 8, ..self } }
    }

    /// The bytes used, if the stack pointer is on the stack on which the function was called.
    pub(crate) fn here(self) -> Option<u64> {
        (!self.is_elsewhere).then_some(self.used)
    }
}
