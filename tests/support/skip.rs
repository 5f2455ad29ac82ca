//! Tests that cannot run on this machine.
//!
//! `SIGPROF_TEST_REQUIRE` names what has been promised: `tools`, the programs that `ci/setup.sh` installs, or `all`, root's
//! rights with namespaces and mounts too. A test that lacks what was promised fails. `ci/test.sh` sets the variable.
//! Each test that is skipped prints a line, and appends it to the file `SIGPROF_TEST_SKIPS`, which `ci/run_tests.py` prints
//! at the end: the test runners show nothing of what a passed test prints.
#![allow(dead_code, reason = "each test crate uses its own part of this module")]

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// What a test lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lack {
    /// A program or a library that `ci/setup.sh` installs.
    Tool,
    /// Root's rights, or the right to make namespaces and mounts.
    Right,
    /// Something of the kernel or the processor, which nobody can promise.
    System,
}

/// Reports that the calling test cannot run, or only in part. The test then returns, or runs the other part.
///
/// # Panics
///
/// If `SIGPROF_TEST_REQUIRE` promises what is lacking.
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
    // Not by `eprint`, which the test runner takes from a test that passes.
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
    if let Some(list) = std::env::var_os("SIGPROF_TEST_SKIPS") {
        let file = File::options().append(true).create(true).open(&list);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("SIGPROF_TEST_SKIPS: {}: {error}", Path::new(&list).display()));
    }
}
