//! Program counters and call chains.

use core::fmt;

/// A program counter of a call chain: an address in the profiled process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pc(usize);

impl Pc {
    /// From an address in this process.
    pub const fn from_address(address: usize) -> Self {
        Self(address)
    }

    /// The address itself.
    pub const fn address(self) -> usize {
        self.0
    }

    /// The address to look up for a name: the PC of the innermost frame is the next instruction itself; all others
    /// are return addresses, and one less lies in the call.
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
