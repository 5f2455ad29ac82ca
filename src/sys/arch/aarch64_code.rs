//! Decoder of the aarch64 instructions that unwinding relies on, as pure functions of bytes (Arm
//! Architecture Reference Manual for A-profile, section C6.2: BL, BLR, BLRAA, MOVZ, SVC).

use super::ReturnAddressLocation;

pub(crate) const DIRECT_CALL_BYTES: usize = 4;
/// Bytes before a return address that [`is_after_call`] reads.
pub(crate) const CALL_BYTES: usize = 4;
/// Bytes at the PC that [`return_address_location`] and [`is_signal_return`] read.
pub(crate) const BYTES_AT_PC: usize = 8;

/// `mov x8, #139` (rt_sigreturn); `svc #0`.
const SIGNAL_RETURN: [u8; BYTES_AT_PC] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];

/// Returns nothing: pushes do not locate the return address, which may be in a register.
pub(crate) fn leading_pushes(_code: &[u8]) -> impl Iterator<Item = (u16, usize)> {
    core::iter::empty()
}

pub(crate) fn pops_before_return(_code: &[u8]) -> Option<usize> {
    None
}

/// Returns the target of the direct call before `return_address`.
pub(crate) fn call_target(code: [u8; DIRECT_CALL_BYTES], return_address: usize) -> Option<usize> {
    let instruction = u32::from_le_bytes(code);
    let words = (instruction << 6) as i32 >> 6;
    let call = return_address.wrapping_sub(DIRECT_CALL_BYTES);
    (instruction >> 26 == 0b100101).then(|| call.wrapping_add_signed(words as isize * 4))
}

/// Returns None: the frame pointer locates the frame record.
pub(crate) fn return_address_location(_code: &[u8; BYTES_AT_PC]) -> Option<ReturnAddressLocation> {
    None
}

/// Returns false: `ret` does not locate the return address on the stack.
pub(crate) fn is_return(_code: &[u8; BYTES_AT_PC]) -> bool {
    false
}

pub(crate) fn is_signal_return(code: &[u8; BYTES_AT_PC]) -> bool {
    *code == SIGNAL_RETURN
}

pub(crate) fn is_after_call(code: &[u8; CALL_BYTES]) -> bool {
    let instruction = u32::from_le_bytes(*code);
    let is_direct = instruction >> 26 == 0b100101;
    let is_indirect = instruction & 0xffff_fc1f == 0xd63f_0000;
    // With a check of the target's signature: key A or B, modifier zero or a register.
    let is_checked = instruction & 0xfeff_f800 == 0xd63f_0800;
    is_direct || is_indirect || is_checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_calls() {
        let call = |instruction: u32| is_after_call(&instruction.to_le_bytes());
        // bl; blr x3; blraaz x3; blraa x3, x4; blrab x3, sp.
        for instruction in [0x9400_0001, 0x97ff_ffff, 0xd63f_0060, 0xd63f_087f, 0xd73f_0864, 0xd73f_0c7f] {
            assert!(call(instruction), "{instruction:#x}");
        }
        // b; br x3; ret; nop.
        for instruction in [0x1400_0001, 0xd61f_0060, 0xd65f_03c0, 0xd503_201f] {
            assert!(!call(instruction), "{instruction:#x}");
        }
    }

    #[test]
    fn returns_the_target_of_a_direct_call() {
        let target = |instruction: u32| call_target(instruction.to_le_bytes(), 0x1004);
        assert_eq!(target(0x9400_0002), Some(0x1008));
        assert_eq!(target(0x97ff_ffff), Some(0xffc));
        assert_eq!(target(0xd63f_0060), None);
    }
}
