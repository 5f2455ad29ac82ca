//! Faults that `torture.rs` found, each as a row.

use crate::support::{Linkage, Scratch, exit_code, profiled, run};

/// A program forks while another thread flushes, and its children open libraries: none hangs.
#[test]
fn a_child_forked_during_a_flush_can_open_libraries() {
    let scratch = Scratch::new();
    let plugin = scratch.compile_library("plugin_tick.c", &[]);
    let program = scratch.compile("torture_fork_flush.c", Linkage::Shared, &[]);
    let mut command = profiled(program, &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").env("CPUPROFILE_QUIET", "1").env("CPUPROFILE_FOLLOW_FORK", "0");
    let finished = run(command.arg(plugin).arg("50"));
    assert_eq!(exit_code(finished.status), 0, "a child hung in dlopen: {}", finished.stderr);
    assert_eq!(finished.text(), "done\n");
}
