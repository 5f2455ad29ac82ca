//! Calls that are in the code, but were not executed (`-c`).

use super::symbols::Executable;
use crate::formats::gmon::Histogram;

/// Opcode of a call with a relative address of 4 bytes, on x86.
const CALL: u8 = 0xe8;
const CALL_BYTES: u64 = 5;

/// Returns callers and callees: pairs of indices of symbols. The search is a heuristic: bytes of other
/// instructions can look like a call of a function's first byte. GNU gprof, if `is_compatible`, only
/// finds calls of functions at higher addresses, to code with a histogram.
pub(super) fn find(
    executable: &Executable,
    histograms: &[Histogram],
    is_compatible: bool,
) -> Vec<(usize, usize)> {
    let (text, symbols) = (&executable.text, executable.symbols());
    let bytes = |from: u64, to: u64| {
        let range = from.checked_sub(text.start)? as usize..to.checked_sub(text.start)? as usize;
        text.bytes.get(range)
    };
    let target = |address: u64| {
        let (opcode, distance) = bytes(address, address.checked_add(CALL_BYTES)?)?.split_first()?;
        if *opcode != CALL {
            return None;
        }
        let distance = i32::from_le_bytes(distance.try_into().ok()?);
        let target = (address + CALL_BYTES).wrapping_add_signed(distance.into());
        let is_covered = histograms.iter().any(|one| (one.low..one.high).contains(&target));
        let is_found = !is_compatible || distance >= 0 && is_covered;
        let callee = executable.find(target).filter(|_| is_found)?;
        (symbols[callee].start == target).then_some(callee)
    };
    let mut calls = Vec::new();
    for (caller, symbol) in symbols.iter().enumerate() {
        let mut address = symbol.start.max(text.start);
        while address < symbol.end.min(text.end()) {
            match target(address) {
                Some(callee) => {
                    calls.push((caller, callee));
                    address += CALL_BYTES;
                }
                None => address += 1,
            }
        }
    }
    calls
}
