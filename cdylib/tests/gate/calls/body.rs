//! One function: the calls that its instructions can make, with the stack that it has used at each.
//!
//! Instructions are followed from the function's first one, through both sides of each branch and
//! all entries of jump tables. Code that only an unwinder enters (clean-up after a panic) is
//! deliberately not found: a panic is a separate finding.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::{
    code::Code,
    image::{Image, Pointer},
    stack::Stack,
};

/// The target of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A function of the library: called, jumped to, or its address taken.
    Own(u64),
    /// Another library's symbol: called, or its address taken.
    Import(String),
    /// The kernel, by the system call's number; `None` if that is not a constant.
    System(Option<i64>),
    /// A thread-local variable, at an address that the loader chooses.
    ThreadLocal,
    /// The value of a pointer at run time.
    Unknown,
}

/// An instruction that leads out of its function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) at: u64,
    pub(crate) target: Target,
    /// Stack bytes used by the function at that point, including this call's return address; `None`
    /// if the target is not called on this stack, or only its address is taken.
    pub(crate) stack: Option<u64>,
}

pub(crate) struct Body {
    pub(crate) exits: Vec<Exit>,
    /// The most stack bytes that the function itself uses.
    pub(crate) stack: u64,
    /// Whether it can return to its caller.
    pub(crate) returns: bool,
}

/// Follows the instructions of the function at `range`; `returns` tests whether a target returns.
pub(crate) fn follow(image: &Image, range: Range<u64>, returns: &mut dyn FnMut(&Target) -> bool) -> Body {
    let body = Body { exits: Vec::new(), stack: 0, returns: false };
    let mut walk = Walk { image, start: range.start, code: Code::decode(image, range.clone()), body };
    let mut seen = BTreeSet::new();
    let mut pending = vec![(range.start, Stack::default())];
    while let Some((address, stack)) = pending.pop() {
        if seen.insert(address) {
            for (next, stack) in walk.step(address, stack, returns) {
                walk.code.note_way(address, next);
                pending.push((next, stack));
            }
        }
    }
    walk.name_pointers();
    walk.body
}

struct Walk<'i> {
    image: &'i Image,
    start: u64,
    code: Code,
    body: Body,
}

impl Walk<'_> {
    /// Records targets of the instruction at `address`. Returns the following ones, with stacks.
    fn step(
        &mut self,
        address: u64,
        stack: Stack,
        returns: &mut dyn FnMut(&Target) -> bool,
    ) -> Vec<(u64, Stack)> {
        let Some(instruction) = self.code.at(address) else {
            let name = self.image.name_at(self.start);
            // A call that is the last instruction never returns.
            assert!(
                self.code.ends_in_calls(address),
                "{name} goes on at {address:#x}, where it has no instruction"
            );
            return Vec::new();
        };
        let after = stack.behind(&instruction);
        self.body.stack = self.body.stack.max(after.used);
        let next = (instruction.next_ip(), after);
        if instruction.mnemonic() == Mnemonic::Syscall {
            self.exit(address, Target::System(None), None);
            return vec![next];
        }
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Interrupt => {
                self.note_addresses(&instruction);
                vec![next]
            }
            FlowControl::ConditionalBranch => {
                let mut ways = self.branch(address, instruction.near_branch_target(), after);
                ways.push(next);
                ways
            }
            FlowControl::UnconditionalBranch => self.branch(address, instruction.near_branch_target(), after),
            FlowControl::IndirectBranch => self.indirect_branch(&instruction, after),
            FlowControl::Call | FlowControl::IndirectCall => {
                let target = self.callee(&instruction);
                let comes_back = returns(&target);
                let called = stack.with_return_address();
                self.body.stack = self.body.stack.max(called.used);
                self.exit(address, target, called.here());
                if comes_back { vec![next] } else { Vec::new() }
            }
            FlowControl::Return => {
                self.body.returns = true;
                Vec::new()
            }
            FlowControl::Exception => Vec::new(),
            other => panic!("{}: {other:?} at {address:#x}", self.image.name_at(self.start)),
        }
    }

    /// A jump inside the function, or a tail call.
    fn branch(&mut self, at: u64, target: u64, stack: Stack) -> Vec<(u64, Stack)> {
        if self.code.holds(target) {
            return vec![(target, stack)];
        }
        self.exit(at, Target::Own(target), stack.here());
        self.body.returns = true;
        Vec::new()
    }

    fn indirect_branch(&mut self, instruction: &Instruction, stack: Stack) -> Vec<(u64, Stack)> {
        if self.code.jumps_by_table(instruction) {
            let places = self.code.jump_tables(self.image);
            assert!(!places.is_empty(), "{} has a table of no places", self.image.name_at(self.start));
            return places.into_iter().map(|place| (place, stack)).collect();
        }
        let target = self.callee(instruction);
        self.exit(instruction.ip(), target, stack.here());
        self.body.returns = true;
        Vec::new()
    }

    /// The target of a call or an indirect jump.
    fn callee(&self, instruction: &Instruction) -> Target {
        match instruction.op0_kind() {
            OpKind::NearBranch64 => Target::Own(instruction.near_branch_target()),
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                self.pointed(instruction).unwrap_or(Target::Unknown)
            }
            _ => Target::Unknown,
        }
    }

    /// The target of the pointer that the instruction reads, if the loader sets it finally.
    fn pointed(&self, instruction: &Instruction) -> Option<Target> {
        match self.image.pointer_at(instruction.ip_rel_memory_address())? {
            Pointer::Import(name) => Some(Target::Import(name.clone())),
            Pointer::Own(address) => self.image.function_at(*address).map(|_| Target::Own(*address)),
        }
    }

    /// Records functions of which the instruction takes the address, and thread-locals.
    fn note_addresses(&mut self, instruction: &Instruction) {
        let target = self.taken_address(instruction);
        let of_thread = instruction.op_kinds().any(|kind| kind == OpKind::Memory)
            && instruction.memory_segment() == Register::FS;
        for target in target.into_iter().chain(of_thread.then_some(Target::ThreadLocal)) {
            self.exit(instruction.ip(), target, None);
        }
    }

    fn taken_address(&self, instruction: &Instruction) -> Option<Target> {
        if !instruction.is_ip_rel_memory_operand() {
            None
        } else if instruction.mnemonic() == Mnemonic::Lea {
            let address = instruction.ip_rel_memory_address();
            self.image.function_at(address).map(|_| Target::Own(address))
        } else {
            self.pointed(instruction)
        }
    }

    /// Resolves targets that depend on the instructions before: registers that are called, and the
    /// numbers of system calls.
    fn name_pointers(&mut self) {
        for exit in std::mem::take(&mut self.body.exits) {
            let targets = match self.code.at(exit.at) {
                Some(call) if exit.target == Target::Unknown && call.op0_kind() == OpKind::Register => {
                    self.called_through(exit.at, call.op0_register())
                }
                _ => None,
            };
            for target in targets.unwrap_or_else(|| vec![exit.target.clone()]) {
                let number = match &target {
                    Target::System(_) => Some(Register::RAX),
                    // libc's function for all system calls.
                    Target::Import(name) if name == "syscall" && exit.stack.is_some() => Some(Register::RDI),
                    _ => None,
                };
                let numbers = number.map(|register| self.code.constants(exit.at, register));
                match numbers {
                    Some(numbers) => {
                        numbers
                            .into_iter()
                            .for_each(|number| self.exit(exit.at, Target::System(number), None));
                    }
                    None => self.exit(exit.at, target, exit.stack),
                }
            }
        }
    }

    /// The functions with addresses that each way to the call at `at` puts into `register`.
    fn called_through(&self, at: u64, register: Register) -> Option<Vec<Target>> {
        let definitions = self.code.definitions(at, register)?;
        definitions.iter().map(|definition| self.taken_address(definition)).collect()
    }

    fn exit(&mut self, at: u64, target: Target, stack: Option<u64>) {
        self.body.exits.push(Exit { at, target, stack });
    }
}
