//! Static programs, linked with the archive: they profile themselves, with complete stacks.

use std::path::PathBuf;

use crate::support::{
    Profile, Root, Scratch, Symbolizer, expect_status, plain, program_source, quietly, repository_root, run,
    shared_library, tool,
};

fn compile_static(scratch: &Scratch, flags: &[&str]) -> PathBuf {
    let program = scratch.path("static_program");
    let mut compiler = tool("gcc");
    compiler.args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra"]).args(flags);
    compiler.arg("-I").arg(repository_root().join("include")).arg(program_source("static_program.c"));
    compiler.arg(shared_library().with_file_name("libprofiler.a"));
    compiler.args(["-lutil", "-lrt", "-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
    run(&mut compiler).expect_success();
    program
}

/// Runs the static program, which profiles itself; panics unless all stacks are complete.
#[track_caller]
fn expect_complete_chains_in_a_static_program(flags: &[&str]) {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let finished = run(quietly(&mut plain(compile_static(&scratch, flags))).arg(&path));
    expect_status(&finished, 0);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    let profile = Profile::read(&path);
    assert_eq!(profile.samples(), 10);
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        let chain = ["innermost", "middle", "outermost", "main"];
        assert!(symbols.calls(&profile, record, &chain), "{names:?}");
        assert_eq!(symbols.root(&profile, record), Root::Process, "{names:?}");
    }
}

/// `-static` leaves no search table of the call frame information.
#[test]
fn stacks_of_a_static_program_are_complete() {
    expect_complete_chains_in_a_static_program(&["-static"]);
}

#[test]
fn stacks_of_a_static_program_with_a_table_are_complete() {
    expect_complete_chains_in_a_static_program(&["-static", "-Wl,--eh-frame-hdr"]);
}

/// `-static-pie` has a search table by default; the program is loaded at any address.
#[test]
fn stacks_of_a_static_pie_are_complete() {
    expect_complete_chains_in_a_static_program(&["-static-pie"]);
    expect_complete_chains_in_a_static_program(&["-static-pie", "-Wl,--no-eh-frame-hdr"]);
}
