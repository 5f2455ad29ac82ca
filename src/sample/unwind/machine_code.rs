//! Unwinding by machine code, if call frame information is wrong or missing. glibc's `__mpn_mul_1`
//! and related functions (floating-point input and output) push registers that their call frame
//! information omits. lld's linkage tables and the system call in `clone3` have none. The bytes at
//! a function's entry, or of the call to it, prove what is on the stack. Reads cannot fault: code
//! may be execute-only.

use super::{
    Trust,
    memory::StackReader,
    objects,
    rule::{Cfa, Row, Rule},
};
use crate::sys::{
    arch::{
        CALLEE_SAVED, HAS_LINK_REGISTER, PROGRAM_COUNTER, Registers, STACK_POINTER,
        code::{
            CALL_BYTES, DIRECT_CALL_BYTES, call_target, is_after_call, is_return, leading_pushes,
            pops_before_return,
        },
        is_user_address,
    },
    loader,
};

const WORD: usize = size_of::<usize>();

/// The largest distance of a PC from the target of the call that led to it.
const LARGEST_FUNCTION: usize = 4096;

/// Returns the rule at `pc` if the code at `entry` pushes registers. The row of call frame
/// information at `pc` must have held since `entry`, without a push. Signal-safe.
pub(crate) fn rule_after_pushes(entry: usize, pc: usize, stack: &mut StackReader) -> Option<Rule> {
    if pc <= entry {
        return None;
    }
    let code: [u8; 16] = stack.read_bytes(entry)?;
    let behind = |offset: usize| entry.wrapping_add(offset);
    let done = leading_pushes(&code).take_while(|(_, end)| behind(*end) <= pc).count();
    if done == 0 {
        return None;
    }
    let present = match stack.read_bytes::<16>(pc).and_then(|code| pops_before_return(&code)) {
        Some(pops) if pops < done => pops,
        _ => done,
    };
    let mut saved = [None; CALLEE_SAVED.len()];
    for (nth, (register, _)) in leading_pushes(&code).take(present).enumerate() {
        if let Some(place) = saved.iter_mut().zip(CALLEE_SAVED).find(|(_, number)| *number == register) {
            *place.0 = Some(-((nth + 2) as i64 * WORD as i64));
        }
    }
    Rule::compact(&Row {
        cfa: Cfa::Sum,
        register: STACK_POINTER,
        offset: ((present + 1) * WORD) as i64,
        return_address: Some(-(WORD as i64)),
        saved,
    })
}

/// Whether the code at `pc` is about to return to a call, with only the return address on the
/// stack. OpenSSL's information is wrong there. A return that jumps to a function's start does not
/// count: no call precedes it. Signal-safe.
pub(crate) fn is_about_to_return(registers: &Registers, stack: &mut StackReader) -> bool {
    stack.read_bytes(registers.pc()).is_some_and(|code| is_return(&code))
        && stack.read(registers.sp()).is_some_and(|caller| is_after_call_instruction(caller, stack))
}

/// Whether a call precedes `pc`, in a loaded DSO. Signal-safe.
pub(crate) fn is_after_call_instruction(pc: usize, stack: &mut StackReader) -> bool {
    call_before::<CALL_BYTES>(pc, stack).is_some_and(|code| is_after_call(&code))
}

/// Steps to the caller if one of the two topmost words is the return address of a direct call of
/// this code: it has pushed at most one word. Signal-safe.
pub(crate) fn step_to_caller(registers: &mut Registers, stack: &mut StackReader) -> bool {
    if HAS_LINK_REGISTER {
        return false;
    }
    let (pc, sp) = (registers.pc(), registers.sp());
    for place in [sp, sp.wrapping_add(WORD)] {
        let Some(caller) = stack.read(place).filter(|&word| is_user_address(word)) else { continue };
        let Some(code) = call_before::<DIRECT_CALL_BYTES>(caller, stack) else { continue };
        let Some(target) = call_target(code, caller) else { continue };
        if pc.checked_sub(target).is_some_and(|distance| distance < LARGEST_FUNCTION) {
            registers.set(STACK_POINTER, Some(place.wrapping_add(WORD)));
            registers.set(PROGRAM_COUNTER, Some(caller));
            return true;
        }
    }
    step_from_resolver(registers, stack)
}

/// Steps from an indirect function's resolver to the loader, which calls it before the DSO is
/// known. It pushes nothing, and the loader makes few indirect calls that could match by chance.
fn step_from_resolver(registers: &mut Registers, stack: &mut StackReader) -> bool {
    let sp = registers.sp();
    let Some(caller) = stack.read(sp).filter(|&word| loader::is_in_loader(word)) else { return false };
    let code = stack.read_bytes(caller.wrapping_sub(CALL_BYTES));
    if !code.is_some_and(|code| is_after_call(&code)) {
        return false;
    }
    registers.set(STACK_POINTER, Some(sp.wrapping_add(WORD)));
    registers.set(PROGRAM_COUNTER, Some(caller));
    true
}

fn call_before<const N: usize>(return_address: usize, stack: &mut StackReader) -> Option<[u8; N]> {
    let start = return_address.checked_sub(N)?;
    let guard = objects::pin(start, Trust::Guessed)?;
    let _object = guard.find(start)?;
    stack.read_bytes(start)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::sample::unwind::rule::RuleKind;
    use crate::sys::memory::choose_probe;

    /// push rbx; push rbp; 10 times nop; pop rbp; pop rbx; ret
    const PUSHING: [u8; 16] = {
        let mut code = [0x90; 16];
        code[0] = 0x53;
        code[1] = 0x55;
        code[12] = 0x5d;
        code[13] = 0x5b;
        code[14] = 0xc3;
        code
    };

    fn rule_at(code: &[u8], offset: usize) -> Option<(isize, Vec<(u16, usize)>)> {
        let entry = code.as_ptr() as usize;
        let rule = rule_after_pushes(entry, entry + offset, &mut StackReader::new(0, 0))?;
        assert_eq!((rule.kind(), rule.register()), (RuleKind::Compact(Cfa::Sum), STACK_POINTER));
        let mut saved = Vec::new();
        rule.for_each_saved(|register, below| saved.push((register, below)));
        Some((rule.offset() / WORD as isize - 1, saved))
    }

    #[test]
    fn returns_the_rule_at_each_instruction_of_a_pushing_function() {
        choose_probe().unwrap();
        let code = [PUSHING, [0xcc; 16], [0xcc; 16]].concat();
        assert_eq!(rule_at(&code, 0), None);
        assert_eq!(rule_at(&code, 1), Some((1, vec![(3, 16)])));
        for offset in 2..=12 {
            assert_eq!(rule_at(&code, offset), Some((2, vec![(3, 16), (6, 24)])), "{offset}");
        }
        assert_eq!(rule_at(&code, 13), Some((1, vec![(3, 16)])));
        assert_eq!(rule_at(&code, 14), Some((0, vec![])));
    }

    #[test]
    fn returns_no_rule_if_the_entry_pushes_nothing() {
        choose_probe().unwrap();
        let code = [0x90; 48];
        assert_eq!(rule_at(&code, 8), None);
        assert!(rule_after_pushes(8, 9, &mut StackReader::new(0, 0)).is_none(), "no memory");
    }

    #[test]
    fn accepts_only_return_addresses_of_calls_to_this_code() {
        // A call and its target, in this program's DSO.
        static CODE: [u8; 64] = {
            let mut code = [0x90u8; 64];
            code[8] = 0xe8;
            (code[9], code[10], code[11], code[12]) = (19, 0, 0, 0);
            code
        };
        choose_probe().unwrap();
        objects::prepare();
        let start = CODE.as_ptr() as usize;
        let (caller, target) = (start + 13, start + 32);
        let check = |words: [usize; 3], pc: usize| {
            let sp = words.as_ptr() as usize;
            let mut registers = Registers::from_values(&[(STACK_POINTER, sp), (PROGRAM_COUNTER, pc), (3, 7)]);
            let stepped = step_to_caller(&mut registers, &mut StackReader::new(sp, 0));
            stepped.then(|| (registers.pc(), registers.sp() - sp, registers.get(3)))
        };
        assert_eq!(check([caller, 0, 0], target), Some((caller, 8, Some(7))));
        assert_eq!(check([2, caller, 0], target + 11), Some((caller, 16, Some(7))));
        assert_eq!(check([1, 2, caller], target), None, "too far up");
        assert_eq!(check([caller, 0, 0], target - 1), None, "a call of what comes behind");
        assert_eq!(check([caller, 0, 0], target + LARGEST_FUNCTION), None);
        assert_eq!(check([caller + 1, 0, 0], target), None, "no call before it");
        let copy = CODE.to_vec();
        let start = copy.as_ptr() as usize;
        assert_eq!(check([start + 13, 0, 0], start + 32), None, "of no object");
    }

    #[test]
    fn distinguishes_a_return_from_a_jump_by_ret() {
        // call; nop ...; ret
        static CODE: [u8; 48] = {
            let mut code = [0x90u8; 48];
            (code[8], code[9], code[10], code[11], code[12]) = (0xe8, 0, 0, 0, 0);
            code[32] = 0xc3;
            code
        };
        choose_probe().unwrap();
        objects::prepare();
        let start = CODE.as_ptr() as usize;
        let check = |word: usize, pc: usize| {
            let words = [word, 0];
            let sp = words.as_ptr() as usize;
            let registers = Registers::from_values(&[(STACK_POINTER, sp), (PROGRAM_COUNTER, pc)]);
            is_about_to_return(&registers, &mut StackReader::new(sp, 0))
        };
        assert!(check(start + 13, start + 32));
        assert!(!check(start + 13, start + 31), "no return");
        assert!(!check(start + 20, start + 32), "no call before it");
        assert!(!check(8, start + 32), "no code");
    }
}
