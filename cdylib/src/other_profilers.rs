//! Other profilers in the program: a second copy of this library, or gperftools'.
//!
//! Only one can use the signal and the timer. If the environment starts them, the first in the
//! loader's search order profiles, which also receives the program's calls. Profilers without
//! visible symbols (in a namespace, linked into the program, or opened by it) are recognised by
//! their handler (`control/ticks.rs`).

use core::ffi::c_void;
use sigprof::interface;

/// Whether this is the archive, linked into the program.
pub(crate) fn is_in_program() -> bool {
    interface::is_in_program(is_in_program as *const c_void)
}

/// The file of an earlier profiler. Not for signal context.
pub(crate) fn earlier_profiler() -> Option<Vec<u8>> {
    let first = interface::first_symbol(c"ProfilerStart");
    // The program's own definition may do nothing, and is initialised last.
    let is_other_library =
        !first.is_null() && !interface::is_own_code(first) && !interface::is_in_program(first);
    is_other_library.then(|| interface::file_of(first as usize)).flatten()
}
