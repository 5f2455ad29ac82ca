//! Functions of a unit, and calls inlined into them.

use super::Slice;
use gimli::{Abbreviation, AttributeValue, EntriesRaw, UnitOffset, UnitRef};
use std::ops::Range;

/// Limit of inlined calls nested at one address; compilers reach some dozens.
const MAX_INLINED: usize = 512;
/// Average limit per address, beyond FEW_INLINED calls in the unit.
const USUALLY_INLINED: usize = 32;
const FEW_INLINED: usize = 16 * MAX_INLINED;
/// Limit of nested functions, as in Pascal and GNU C.
const MAX_NESTED: usize = 64;
/// Limit of ranges per unit. The largest units have some hundred thousand; damage can repeat them.
pub(super) const MAX_RANGES: u32 = 20_000_000;

/// The function and inlined calls at an address.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) function: UnitOffset,
    /// The contiguous part of its code that contains the address.
    pub(super) range: Range<u64>,
    /// Inlined calls, outermost first.
    pub(super) inlined: Vec<InlinedCall>,
}

#[derive(Clone, Debug)]
pub(super) struct InlinedCall {
    pub(super) entry: UnitOffset,
    /// Call site; the file is an index in the unit's line table.
    pub(super) call_file: u64,
    pub(super) call_line: u64,
    pub(super) call_column: u64,
    depth: isize,
}

#[derive(Default)]
struct CodeRanges {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<gimli::RangeListsOffset>,
    call_file: u64,
    call_line: u64,
    call_column: u64,
}

/// Finds the functions of sorted `addresses`. An error in the unit ends the search.
pub(super) fn find(unit: UnitRef<'_, Slice<'_>>, addresses: &[u64]) -> Vec<Option<Chain>> {
    let mut walk = Walk {
        unit,
        addresses,
        chains: vec![None; addresses.len()],
        budget: MAX_RANGES,
        inlined_left: FEW_INLINED.saturating_add(addresses.len().saturating_mul(USUALLY_INLINED)),
    };
    // Results before an error are kept.
    let _ = walk.run();
    walk.chains
}

/// Adds the bounds of a unit's functions and inlined calls, and subtracts the number of ranges in range
/// lists from `budget`. The search stops at an error in the unit.
pub(super) fn add_bounds(unit: UnitRef<'_, Slice<'_>>, budget: &mut u32, addresses: &mut Vec<u64>) {
    let mut add = || -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if matches!(abbreviation.tag(), gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine) {
                let code = read_code(unit, &mut entries, abbreviation)?;
                each_range(unit, &code, budget, |range| addresses.extend([range.start, range.end]))?;
            } else {
                entries.skip_attributes(abbreviation.attributes())?;
            }
        }
        Ok(())
    };
    // Bounds before an error are kept.
    let _ = add();
}

struct Walk<'a, 'data> {
    unit: UnitRef<'a, Slice<'data>>,
    addresses: &'a [u64],
    chains: Vec<Option<Chain>>,
    budget: u32,
    inlined_left: usize,
}

impl Walk<'_, '_> {
    fn run(&mut self) -> gimli::Result<()> {
        let unit = self.unit.unit;
        let mut entries = unit.entries_raw(None)?;
        // The enclosing functions that contain an address, with the depth of their entries.
        let mut functions: Vec<(isize, UnitOffset)> = Vec::new();
        while !entries.is_empty() {
            let (entry, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while functions.last().is_some_and(|(outer, _)| *outer >= depth) {
                functions.pop();
            }
            match abbreviation.tag() {
                gimli::DW_TAG_subprogram => {
                    let code = read_code(self.unit, &mut entries, abbreviation)?;
                    if self.enter_function(entry, &code)? && functions.len() < MAX_NESTED {
                        functions.push((depth, entry));
                    }
                }
                gimli::DW_TAG_inlined_subroutine if !functions.is_empty() => {
                    let code = read_code(self.unit, &mut entries, abbreviation)?;
                    if let Some((_, function)) = functions.last() {
                        self.enter_inlined(*function, entry, depth, &code)?;
                    }
                }
                _ => entries.skip_attributes(abbreviation.attributes())?,
            }
        }
        Ok(())
    }

    /// Assigns the function to its addresses; true if there are any. A function with a higher start
    /// replaces another: it is nested, or the linker dropped the other and left ranges from 0 or 1.
    fn enter_function(&mut self, entry: UnitOffset, code: &CodeRanges) -> gimli::Result<bool> {
        let mut is_any = false;
        let (unit, addresses, chains) = (self.unit, self.addresses, &mut self.chains);
        let left = &mut self.inlined_left;
        each_range(unit, code, &mut self.budget, |range| {
            for place in within(addresses, &range) {
                if chains[place].as_ref().is_none_or(|chain| chain.range.start < range.start) {
                    *left += chains[place].as_ref().map_or(0, |chain| chain.inlined.len());
                    chains[place] =
                        Some(Chain { function: entry, range: range.clone(), inlined: Vec::new() });
                    is_any = true;
                }
            }
        })?;
        Ok(is_any)
    }

    fn enter_inlined(
        &mut self,
        function: UnitOffset,
        entry: UnitOffset,
        depth: isize,
        code: &CodeRanges,
    ) -> gimli::Result<()> {
        let (unit, addresses, chains) = (self.unit, self.addresses, &mut self.chains);
        let left = &mut self.inlined_left;
        each_range(unit, code, &mut self.budget, |range| {
            for place in within(addresses, &range) {
                let Some(chain) = chains[place].as_mut().filter(|chain| chain.function == function) else {
                    continue;
                };
                // A sibling with the same address does not contain this call.
                while chain.inlined.last().is_some_and(|outer| outer.depth >= depth) {
                    chain.inlined.pop();
                    *left += 1;
                }
                if chain.inlined.len() < MAX_INLINED && *left > 0 {
                    *left -= 1;
                    let CodeRanges { call_file, call_line, call_column, .. } = *code;
                    chain.inlined.push(InlinedCall { entry, call_file, call_line, call_column, depth });
                }
            }
        })
    }
}

/// Returns the indices of the addresses in a range.
fn within(addresses: &[u64], range: &Range<u64>) -> Range<usize> {
    let first = addresses.partition_point(|&address| address < range.start);
    let count = addresses[first..].iter().take_while(|&&address| address < range.end).count();
    first..first + count
}

fn read_code<'data>(
    unit: UnitRef<'_, Slice<'data>>,
    entries: &mut EntriesRaw<'_, '_, Slice<'data>>,
    abbreviation: &Abbreviation,
) -> gimli::Result<CodeRanges> {
    let mut code = CodeRanges::default();
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        let number = || match attribute.value() {
            AttributeValue::FileIndex(number) => number,
            value => value.udata_value().unwrap_or(0),
        };
        match attribute.name() {
            gimli::DW_AT_low_pc => code.low = unit.attr_address(attribute.value())?,
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(size) => code.size = Some(size),
                value => code.high = unit.attr_address(value)?,
            },
            gimli::DW_AT_ranges => code.ranges = unit.attr_ranges_offset(attribute.value())?,
            gimli::DW_AT_call_file => code.call_file = number(),
            gimli::DW_AT_call_line => code.call_line = number(),
            gimli::DW_AT_call_column => code.call_column = number(),
            _ => {}
        }
    }
    Ok(code)
}

fn each_range(
    unit: UnitRef<'_, Slice<'_>>,
    code: &CodeRanges,
    budget: &mut u32,
    mut each: impl FnMut(Range<u64>),
) -> gimli::Result<()> {
    let mut each = |begin: u64, end: u64| {
        // Linkers write 0 for dropped code.
        if begin != 0 && begin < end {
            each(begin..end);
        }
    };
    if let Some(offset) = code.ranges {
        let mut ranges = unit.ranges(offset)?;
        while let Some(range) = ranges.next()? {
            *budget = budget.checked_sub(1).ok_or(gimli::Error::InvalidAddressRange)?;
            each(range.begin, range.end);
        }
    } else if let Some(begin) = code.low {
        each(begin, code.high.or(code.size.and_then(|size| begin.checked_add(size))).unwrap_or(0));
    }
    Ok(())
}
