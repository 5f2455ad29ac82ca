//! What x86-64 machine code tells about its frame, where nothing else does.
//!
//! Instructions are in Intel's "Software Developer's Manual", volume 2. Pure functions of bytes.

/// Where the return address of a function stands that was interrupted before its frame was made, or after it was
/// taken down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnAddressPlace {
    /// At the stack pointer; the frame pointer is still, or again, the caller's.
    Top,
    /// Above the caller's frame pointer, which is at the stack pointer.
    BelowFramePointer,
}

const PUSH_FRAME_POINTER: &[u8] = &[0x55];
/// `mov rbp, rsp` has two encodings.
const SET_FRAME_POINTER: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
/// The landing mark of indirect branches, `endbr64`.
const LANDING: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
/// `pop rbp; ret`.
const POP_AND_RETURN: &[u8] = &[0x5d, 0xc3];
/// `ret`, `ret` with the prefix that old processors liked, `ret n`.
const RETURNS: [&[u8]; 3] = [&[0xc3], &[0xf3, 0xc3], &[0xc2]];
/// `rt_sigreturn`'s number to `rax`, in two encodings, and `syscall`.
const SIGNAL_RETURNS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// Bytes at the PC that [`return_address_place`] and [`is_signal_return`] look at.
pub(crate) const BYTES_AT_PC: usize = 9;

/// Bytes before a return address that [`ends_in_call`] looks at: the longest `call`.
pub(crate) const BYTES_OF_CALL: usize = 7;

/// Where the return address is when `code` is about to run, if that is in the first or last instructions of a
/// function that keeps a frame pointer, or at a return.
pub(crate) fn return_address_place(code: &[u8; BYTES_AT_PC]) -> Option<ReturnAddressPlace> {
    let entered = code.strip_prefix(LANDING).unwrap_or(code);
    let sets = |code: &[u8]| SET_FRAME_POINTER.iter().any(|instruction| code.starts_with(instruction));
    if entered.strip_prefix(PUSH_FRAME_POINTER).is_some_and(sets)
        || RETURNS.iter().any(|instruction| code.starts_with(instruction))
    {
        Some(ReturnAddressPlace::Top)
    } else if sets(code) || code.starts_with(POP_AND_RETURN) {
        Some(ReturnAddressPlace::BelowFramePointer)
    } else {
        None
    }
}

/// True where `code` returns from a signal handler.
pub(crate) fn is_signal_return(code: &[u8; BYTES_AT_PC]) -> bool {
    SIGNAL_RETURNS.iter().any(|instructions| code.starts_with(instructions))
}

/// True when a `call` ends where `code` ends: no other address is a return address.
pub(crate) fn ends_in_call(code: &[u8; BYTES_OF_CALL]) -> bool {
    /// `call` to a displacement of 32 bits.
    const CALL_RELATIVE: u8 = 0xe8;
    let [_, _, relative, ..] = code;
    *relative == CALL_RELATIVE
        || (2..=BYTES_OF_CALL).any(|length| is_indirect_call(code.split_at(BYTES_OF_CALL - length).1))
}

/// True for `call` through a register or memory: opcode, ModRM byte, maybe a SIB byte, maybe a displacement.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at_pc(code: &[u8]) -> [u8; BYTES_AT_PC] {
        core::array::from_fn(|i| code.get(i).copied().unwrap_or(0x90))
    }

    fn before(code: &[u8]) -> [u8; BYTES_OF_CALL] {
        let padding = BYTES_OF_CALL - code.len();
        core::array::from_fn(|i| i.checked_sub(padding).map_or(0x90, |i| code[i]))
    }

    #[test]
    fn the_ends_of_functions_are_known() {
        use ReturnAddressPlace::{BelowFramePointer, Top};
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
            // push rbp as one of many; pop rbp, pop r12; leave; a landing mark alone.
            (&[0x55, 0x53], None),
            (&[0x5d, 0x41, 0x5c], None),
            (&[0xc9, 0xc3], None),
            (&[0xf3, 0x0f, 0x1e, 0xfa], None),
        ] {
            assert_eq!(return_address_place(&at_pc(code)), place, "{code:x?}");
        }
    }

    #[test]
    fn a_return_from_a_signal_handler_is_known() {
        assert!(is_signal_return(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]));
        assert!(is_signal_return(&at_pc(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05])));
        assert!(!is_signal_return(&at_pc(&[0xb8, 0x0e, 0, 0, 0, 0x0f, 0x05])));
    }

    #[test]
    fn calls_are_told_from_other_code() {
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
            assert!(ends_in_call(&before(call)), "{call:x?}");
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
            assert!(!ends_in_call(&before(other)), "{other:x?}");
        }
    }
}
