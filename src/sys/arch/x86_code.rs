//! Decoder of the x86 instructions that unwinding relies on, as pure functions of bytes (Intel 64
//! and IA-32 Architectures Software Developer's Manual, volume 2).

use super::ReturnAddressLocation;

#[cfg(target_arch = "x86_64")]
mod own {
    pub(super) const ENDBR: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    /// DWARF numbers of the registers in the order of their encodings.
    pub(super) const BY_ENCODING: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    /// The REX.B prefix of one-register instructions for r8 to r15.
    pub(super) const UPPER_REGISTERS: Option<u8> = Some(0x41);
    /// Both encodings of `mov rbp, rsp`.
    pub(super) const SET_FRAME_POINTER: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
    /// `mov rax, 15` (rt_sigreturn) in two encodings; `syscall`.
    pub(super) const SIGNAL_RETURNS: &[&[u8]] =
        &[&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];
}

#[cfg(target_arch = "x86")]
mod own {
    pub(super) const ENDBR: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfb];
    pub(super) const BY_ENCODING: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    pub(super) const UPPER_REGISTERS: Option<u8> = None;
    pub(super) const SET_FRAME_POINTER: [&[u8]; 2] = [&[0x89, 0xe5], &[0x8b, 0xec]];
    /// Empty: the trampolines of the kernel and glibc have CFI.
    pub(super) const SIGNAL_RETURNS: &[&[u8]] = &[];
}

use own::{BY_ENCODING, ENDBR, SET_FRAME_POINTER, SIGNAL_RETURNS, UPPER_REGISTERS};

/// Bytes of a direct call: `e8` and the distance to its target.
pub(crate) const DIRECT_CALL_BYTES: usize = 5;

/// Returns the register pushes at the start of `code`: DWARF number, offset after the push.
pub(crate) fn leading_pushes(code: &[u8]) -> impl Iterator<Item = (u16, usize)> {
    let mut offset = if code.starts_with(ENDBR) { 4 } else { 0 };
    core::iter::from_fn(move || {
        let (register, length) = one_register(code.get(offset..)?, 0x50)?;
        offset += length;
        Some((register, offset))
    })
}

/// Counts the pops between here and the return; None if there are other instructions.
pub(crate) fn pops_before_return(code: &[u8]) -> Option<usize> {
    let (mut rest, mut pops) = (code, 0);
    while let Some((_, length)) = one_register(rest, 0x58) {
        rest = rest.get(length..)?;
        pops += 1;
    }
    matches!(rest, [0xc3, ..] | [0xf3, 0xc3, ..]).then_some(pops)
}

/// Returns the target of the direct call before `return_address`.
pub(crate) fn call_target(code: [u8; DIRECT_CALL_BYTES], return_address: usize) -> Option<usize> {
    let [0xe8, a, b, c, d] = code else { return None };
    Some(return_address.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as isize))
}

/// Returns the operand's DWARF number and the length of an instruction with opcode `base`.
fn one_register(code: &[u8], base: u8) -> Option<(u16, usize)> {
    let encoding = |opcode: u8| opcode.checked_sub(base).filter(|&low| low < 8);
    match code {
        [prefix, opcode, ..] if Some(*prefix) == UPPER_REGISTERS => {
            Some((u16::from(encoding(*opcode)?) + 8, 2))
        }
        [opcode, ..] => Some((*BY_ENCODING.get(usize::from(encoding(*opcode)?))?, 1)),
        [] => None,
    }
}

const PUSH_FRAME_POINTER: &[u8] = &[0x55];
/// `pop rbp; ret`.
const POP_AND_RETURN: &[u8] = &[0x5d, 0xc3];
/// `ret`, `repz ret` (for old AMD processors), `ret n`.
const RETURNS: [&[u8]; 3] = [&[0xc3], &[0xf3, 0xc3], &[0xc2]];

/// Bytes at the PC that [`return_address_location`] and [`is_signal_return`] read.
pub(crate) const BYTES_AT_PC: usize = 9;

/// Bytes before a return address that [`is_after_call`] reads: the longest `call`.
pub(crate) const CALL_BYTES: usize = 7;

/// Returns the location of the return address if the PC is in the first or last instructions of a
/// function with a frame pointer, or at a return.
pub(crate) fn return_address_location(code: &[u8; BYTES_AT_PC]) -> Option<ReturnAddressLocation> {
    let entered = code.strip_prefix(ENDBR).unwrap_or(code);
    let sets = |code: &[u8]| SET_FRAME_POINTER.iter().any(|instruction| code.starts_with(instruction));
    if entered.strip_prefix(PUSH_FRAME_POINTER).is_some_and(sets) || is_return(code) {
        Some(ReturnAddressLocation::Top)
    } else if sets(code) || code.starts_with(POP_AND_RETURN) {
        Some(ReturnAddressLocation::BelowFramePointer)
    } else {
        None
    }
}

/// Whether `code` is a return: the return address is at the stack pointer.
pub(crate) fn is_return(code: &[u8; BYTES_AT_PC]) -> bool {
    RETURNS.iter().any(|instruction| code.starts_with(instruction))
}

pub(crate) fn is_signal_return(code: &[u8; BYTES_AT_PC]) -> bool {
    SIGNAL_RETURNS.iter().any(|instructions| code.starts_with(instructions))
}

/// Whether `code` ends with a `call`, as the code before each return address does.
pub(crate) fn is_after_call(code: &[u8; CALL_BYTES]) -> bool {
    const CALL_RELATIVE: u8 = 0xe8;
    let [_, _, relative, ..] = code;
    *relative == CALL_RELATIVE
        || (2..=CALL_BYTES).any(|length| is_indirect_call(code.split_at(CALL_BYTES - length).1))
}

/// Whether it is `call` by register or memory: opcode, ModRM, SIB or none, displacement or none.
fn is_indirect_call(instruction: &[u8]) -> bool {
    let [0xff, modrm, rest @ ..] = instruction else { return false };
    let (mode, operation, register) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
    if operation != 2 {
        return false;
    }
    let has_sib = mode != 3 && register == 4;
    let displacement = match mode {
        0 if register == 5 => 4,
        0 if has_sib && rest.first().is_some_and(|sib| sib & 7 == 5) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    rest.len() == usize::from(has_sib) + displacement
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn reads_pushes_up_to_another_instruction() {
        // push rbx; push rbp; push r15; lea (%rdx),%rbx
        let code = [0x53, 0x55, 0x41, 0x57, 0x48, 0x8d, 0x1a];
        assert!(leading_pushes(&code).eq([(3, 1), (6, 2), (15, 4)]));
        // endbr64; push rdi; sub $8,%rsp
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x57, 0x48, 0x83, 0xec, 8];
        assert!(leading_pushes(&code).eq([(5, 5)]));
        assert_eq!(leading_pushes(&[0x48, 0x53]).count(), 0, "a prefix that is not r8 to r15's");
        assert_eq!(leading_pushes(&[0x53, 0x41]).count(), 1, "cut off");
    }

    #[test]
    fn counts_pops_only_before_a_return() {
        assert_eq!(pops_before_return(&[0x5d, 0x41, 0x5c, 0xc3, 0x90]), Some(2));
        assert_eq!(pops_before_return(&[0xf3, 0xc3]), Some(0));
        assert_eq!(pops_before_return(&[0x5d, 0x89, 0xd8, 0xc3]), None);
        assert_eq!(pops_before_return(&[0x5d]), None);
        assert_eq!(pops_before_return(&[]), None);
    }

    #[test]
    fn returns_the_target_of_a_direct_call_only() {
        assert_eq!(call_target([0xe8, 0xfb, 0xff, 0xff, 0xff], 0x1005), Some(0x1000));
        assert_eq!(call_target([0xe8, 0, 1, 0, 0], 0x1005), Some(0x1105));
        assert_eq!(call_target([0x90, 0x90, 0x90, 0xff, 0xd0], 0x1005), None, "call *%rax");
    }

    fn at_pc(code: &[u8]) -> [u8; BYTES_AT_PC] {
        core::array::from_fn(|i| code.get(i).copied().unwrap_or(0x90))
    }

    fn before(code: &[u8]) -> [u8; CALL_BYTES] {
        let padding = CALL_BYTES - code.len();
        core::array::from_fn(|i| i.checked_sub(padding).map_or(0x90, |i| code[i]))
    }

    #[test]
    fn recognises_prologues_and_epilogues() {
        use ReturnAddressLocation::{BelowFramePointer, Top};
        for (code, place) in [
            (&[0x55, 0x48, 0x89, 0xe5][..], Some(Top)),
            (&[0x55, 0x48, 0x8b, 0xec], Some(Top)),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5], Some(Top)),
            (&[0xc3], Some(Top)),
            (&[0xf3, 0xc3], Some(Top)),
            (&[0xc2, 0x08, 0x00], Some(Top)),
            (&[0x48, 0x89, 0xe5], Some(BelowFramePointer)),
            (&[0x48, 0x8b, 0xec], Some(BelowFramePointer)),
            (&[0x5d, 0xc3], Some(BelowFramePointer)),
            // push rbp as one of several; pop rbp, pop r12; leave; only endbr64.
            (&[0x55, 0x53], None),
            (&[0x5d, 0x41, 0x5c], None),
            (&[0xc9, 0xc3], None),
            (&[0xf3, 0x0f, 0x1e, 0xfa], None),
        ] {
            assert_eq!(return_address_location(&at_pc(code)), place, "{code:x?}");
        }
    }

    #[test]
    fn recognises_a_return_from_a_signal_handler() {
        assert!(is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]));
        assert!(is_signal_return(&at_pc(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05])));
        assert!(!is_signal_return(&at_pc(&[0xb8, 0x0e, 0, 0, 0, 0x0f, 0x05])));
    }

    #[test]
    fn recognises_calls() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],                   // call rax
            &[0x41, 0xff, 0xd4],             // call r12
            &[0xff, 0x10],                   // call [rax]
            &[0xff, 0x50, 8],                // call [rax + 8]
            &[0xff, 0x90, 0, 1, 0, 0],       // call [rax + 256]
            &[0xff, 0x15, 1, 2, 3, 4],       // call [rip + n]
            &[0xff, 0x14, 0xc7],             // call [rdi + rax * 8]
            &[0xff, 0x54, 0x24, 8],          // call [rsp + 8]
            &[0xff, 0x94, 0x24, 0, 1, 0, 0], // call [rsp + 256]
            &[0xff, 0x14, 0xc5, 0, 1, 0, 0], // call [rax * 8 + 256]
        ] {
            assert!(is_after_call(&before(call)), "{call:x?}");
        }
        for other in [
            &[0xff, 0xe0][..],   // jmp rax
            &[0xff, 0xc0],       // inc eax
            &[0xff, 0x14, 0xc5], // call, cut off
            &[0xe9, 1, 2, 3, 4], // jmp
            &[0xe8, 1, 2, 3],    // call, cut off
            &[0x48, 0x89, 0xe5], // mov rbp, rsp
            &[],
        ] {
            assert!(!is_after_call(&before(other)), "{other:x?}");
        }
    }
}
