//! Common code of the shared library's tests: it builds the library, runs programs under it, and
//! reads their profiles.
//!
//! `SIGPROF_TEST_LIBRARY=/path/to/libprofiler.so.0 cargo test -p sigprof-cdylib` runs the same
//! tests with another library with the same interface, such as gperftools'. `SIGPROF_TEST_SECONDS`
//! is the time after which a program hangs.
//!
//! `SIGPROF_TEST_EMULATOR="qemu-aarch64 -L /usr/aarch64-linux-gnu"` runs the programs under test by
//! an emulator. The library and the `gcc` in PATH must be for its machine. Only tests that compile
//! all programs that they profile can run this way.
#![allow(dead_code, unused_imports, reason = "each test crate uses its own part of this module")]

#[path = "../../../tests/support/built.rs"]
mod built;
#[path = "../../../tests/support/checker.rs"]
mod checker;
mod compiled;
mod library;
pub(crate) mod outcome;
mod process;
mod profile;
mod readers;
pub(crate) mod real_programs;
mod scratch;
#[path = "../../../tests/support/skip.rs"]
mod skip;
mod spools;
mod symbols;
pub(crate) mod thread_lines;
#[path = "../../../tests/support/tier.rs"]
mod tier;
mod time;
pub(crate) mod unloading;
mod waiting;
pub(crate) mod wall;

pub(crate) use library::{repository_root, shared_library, system_header_directory};
pub(crate) use outcome::{expect_one_line, expect_profile, expect_status, expect_unharmed, expect_words};
pub(crate) use process::{
    Finished, assignment, exit_code, has_ended, in_shell, is_for_aarch64, is_root, lacks_mounts, plain,
    preload, profiled, quietly, quietly_with_threads, run, start, tool, wait,
};
pub(crate) use profile::{Mapping, Profile, Record};
pub(crate) use readers::{Report, callers_in_go_pprof, go_pprof_top, google_pprof_text};
pub(crate) use scratch::{Linkage, Scratch, check_syntax, names_in, program_source};
pub(crate) use skip::{Lack, skip};
pub(crate) use spools::{SpoolRig, samples_at, samples_in};
pub(crate) use symbols::{Root, Symbolizer};
pub(crate) use tier::{is_full, rounds};
pub(crate) use time::{SessionTime, kernel_tick};
pub(crate) use waiting::{line_in, wait_for, wait_for_end};
