//! Program counters of call stacks.

use core::fmt;

/// A program counter of a call stack: an address in the profiled process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pc(usize);

impl Pc {
    /// Creates a PC from an address.
    pub const fn from_address(address: usize) -> Self {
        Self(address)
    }

    /// Returns the address.
    pub const fn address(self) -> usize {
        self.0
    }

    /// Returns the address to look up for a name: the innermost PC, or the byte before a return
    /// address, which belongs to the call.
    pub const fn address_for_lookup(self, is_innermost: bool) -> usize {
        if is_innermost { self.0 } else { self.0.wrapping_sub(1) }
    }
}

impl fmt::Debug for Pc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pc({:#x})", self.0)
    }
}

impl fmt::LowerHex for Pc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}
