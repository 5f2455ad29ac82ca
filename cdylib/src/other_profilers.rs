//! Other profilers in the same program: a second copy of this library, or gperftools'.
//!
//! The signal has one handler, and the process one timer, so one of them can profile. Where the environment asks for it all
//! of them would begin, and it is the one that comes first in the order in which the loader looks for symbols that does:
//! calls of the program reach that one, too. Who is not found by its symbols (in a namespace of its own, linked into the
//! program, opened by it) is noticed by its handler (`control/ticks.rs`).

use core::ffi::c_void;
use sigprof::interface;

/// True for the archive that was linked into the program.
pub(crate) fn is_in_program() -> bool {
    interface::is_in_program(is_in_program as *const c_void)
}

/// The file of the profiler that comes before this one, if any does. Not for signal context.
pub(crate) fn earlier_profiler() -> Option<Vec<u8>> {
    let first = interface::first_symbol(c"ProfilerStart");
    // What the program defines itself may do nothing, and is initialised last.
    let is_other_library =
        !first.is_null() && !interface::is_own_code(first) && !interface::is_in_program(first);
    is_other_library.then(|| interface::file_of(first as usize)).flatten()
}
