//! Tests that cannot run on this machine.
//!
//! `SIGPROF_TEST_REQUIRE` names what the machine must have: `tools`, the programs that
//! `ci/setup.sh` installs, or `all`, root's rights, namespaces and mounts too. A test that lacks
//! what is required fails. `ci/test.sh` sets the variable. Each skipped test prints a line, and
//! appends it to the file `SIGPROF_TEST_SKIPS`, which `ci/run_tests.py` prints at the end: test
//! runners hide the output of tests that pass.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// A requirement that a test lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lack {
    /// A program or a library that `ci/setup.sh` installs.
    Tool,
    /// Root's rights, or the right to create namespaces and mounts.
    Right,
    /// A feature of the kernel or the processor, which cannot be required.
    System,
}

/// Reports that the calling test cannot run, or only in part. The test then returns, or runs the
/// other part.
///
/// # Panics
/// If `SIGPROF_TEST_REQUIRE` names the missing requirement.
#[track_caller]
pub(crate) fn skip(lack: Lack, reason: impl Display) {
    let required = std::env::var("SIGPROF_TEST_REQUIRE").unwrap_or_default();
    let is_promised = match required.as_str() {
        "" => false,
        "tools" => lack == Lack::Tool,
        "all" => lack != Lack::System,
        _ => panic!("SIGPROF_TEST_REQUIRE={required:?}: must be tools, all or empty"),
    };
    assert!(!is_promised, "this test cannot run, but SIGPROF_TEST_REQUIRE={required}: {reason}");
    let thread = std::thread::current();
    let reason = reason.to_string().trim_end().replace('\n', "; ");
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("test"));
    // Not with `eprint`: the test runner captures that of a test that passes.
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
    if let Some(list) = std::env::var_os("SIGPROF_TEST_SKIPS") {
        let file = File::options().append(true).create(true).open(&list);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("SIGPROF_TEST_SKIPS: {}: {error}", Path::new(&list).display()));
    }
}
