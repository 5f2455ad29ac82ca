//! The amount of work of a test: little in the gate, all in the full check.

const FULL: &str = "SIGPROF_TEST_FULL";

/// Whether this is the full check. Only there may a test measure time.
pub(crate) fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// How often a test repeats what may fail rarely: `gate` or, in the full check, `full` times.
pub(crate) fn rounds(gate: usize, full: usize) -> usize {
    if is_full() { full } else { gate }
}
