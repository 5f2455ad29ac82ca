//! How much a test does: a little as a part of the gate, and all of it in the full check.

/// Set by `ci/full.sh`.
const FULL: &str = "SIGPROF_TEST_FULL";

/// Whether this is the full check. Only there may a test measure time.
pub(crate) fn is_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// How often a test repeats what may go wrong once in many times: `gate` times, or `full` times in the full check.
pub(crate) fn rounds(gate: usize, full: usize) -> usize {
    if is_full() { full } else { gate }
}
