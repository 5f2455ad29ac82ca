//! Ways to link programs with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Profile, Scratch, exit_code, is_full, plain, repository_root, rounds, run, shared_library, tool,
};

fn dependencies(is_static: bool) -> Vec<&'static str> {
    match (std::env::var_os("SIGPROF_TEST_LIBRARY"), is_static) {
        (Some(_), false) => vec!["-lstdc++", "-lunwind", "-lpthread"],
        (Some(_), true) => vec!["-lstdc++", "-lunwind", "-llzma", "-lpthread"],
        (None, false) => vec!["-lgcc_s", "-lutil", "-lrt", "-lm", "-lpthread", "-ldl"],
        (None, true) => vec!["-lgcc_eh", "-lutil", "-lrt", "-lm", "-lpthread", "-ldl"],
    }
}

fn compiler(name: &str, flags: &[&str]) -> Command {
    let mut compiler = tool(name);
    compiler.args(["-O2", "-I"]).arg(repository_root().join("include")).args(flags);
    if name == "g++" {
        compiler.args(["-x", "c++"]);
    }
    compiler.arg(crate::support::program_source("linked_app.c")).args(["-x", "none"]);
    compiler
}

/// Panics unless the program prints hello and its profile has all five ticks.
#[track_caller]
fn expect_profile(scratch: &Scratch, command: Command, what: &str) {
    expect_ticks(scratch, command, what, |ticks| ticks == 5);
}

#[track_caller]
fn expect_ticks(scratch: &Scratch, mut command: Command, what: &str, is_right: impl Fn(usize) -> bool) {
    let prof = scratch.path("prof");
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "1"));
    let ended = (exit_code(finished.status), finished.text());
    assert_eq!(ended, (3, "hello\n".to_owned()), "{what}: the application was harmed: {}", finished.stderr);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{what}");
    let ticks = Profile::read(&prof).samples();
    assert!(is_right(ticks), "{what}: the application lost its profile: {ticks} ticks");
    std::fs::remove_file(prof).expect("our own file");
}

/// A program of any kind is linked with the static library, also with section garbage collection or
/// LTO: it is profiled by its own calls, and by the environment.
#[test]
fn the_static_library_works_in_programs_of_all_kinds() {
    let kinds: [(&[&str], bool); 7] = [
        (&[], false),
        (&["-no-pie", "-fno-pie"], false),
        (&["-static"], true),
        (&["-static-pie"], true),
        (&["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"], false),
        (&["-flto"], false),
        (&["-static", "-flto", "-Wl,--gc-sections"], true),
    ];
    for name in ["gcc", "g++"] {
        // Each link takes half a second.
        for (flags, is_static) in kinds.into_iter().take(rounds(3, usize::MAX)) {
            let scratch = Scratch::new();
            let program = scratch.path("linked");
            let mut compiler = compiler(name, flags);
            compiler.arg(shared_library().with_file_name("libprofiler.a")).args(dependencies(is_static));
            run(compiler.arg("-o").arg(&program)).expect_success();
            let what = format!("{name} {flags:?}");
            let mut by_itself = plain(&program);
            by_itself.arg(scratch.path("prof"));
            expect_profile(&scratch, by_itself, &what);
            let mut by_environment = plain(&program);
            by_environment.env("CPUPROFILE", scratch.path("prof"));
            expect_profile(&scratch, by_environment, &what);
            // With this clock, the library's `pthread_create` is used.
            let mut by_wall = plain(&program);
            by_wall.env("CPUPROFILE", scratch.path("prof")).env("CPUPROFILE_CLOCK", "wall");
            expect_ticks(&scratch, by_wall, &what, |ticks| ticks >= 5 && (!is_full() || ticks < 50));
        }
    }
}

/// Links a program, which may call the profiler, with the shared library.
fn linked_with_shared(scratch: &Scratch, source: &str, flag: &str) -> PathBuf {
    let (program, directory) = (scratch.path("linked"), scratch.directory("lib"));
    for name in ["libprofiler.so", "libprofiler.so.0"] {
        std::os::unix::fs::symlink(shared_library(), directory.join(name)).expect("a symbolic link");
    }
    let mut compiler = tool("gcc");
    compiler
        .arg("-I")
        .arg(repository_root().join("include"))
        .arg(crate::support::program_source(source))
        .arg(flag);
    compiler.arg("-L").arg(&directory).arg(format!("-Wl,-rpath,{}", directory.display())).arg("-lprofiler");
    run(compiler.arg("-o").arg(&program)).expect_success();
    program
}

fn needs_profiler(program: &Path) -> bool {
    run(tool("readelf").arg("-dW").arg(program)).expect_success().text().contains("[libprofiler.so.0]")
}

/// A program is linked with `--as-needed -lprofiler`: it keeps the library only if it calls it.
#[test]
fn only_a_program_that_calls_the_library_keeps_it_as_needed() {
    let scratch = Scratch::new();
    let calling = linked_with_shared(&scratch, "linked_app.c", "-Wl,--as-needed");
    assert!(needs_profiler(&calling));
    let mut command = plain(calling);
    command.arg(scratch.path("prof"));
    expect_profile(&scratch, command, "calling");
    for (flag, is_kept) in [("-Wl,--as-needed", false), ("-Wl,--no-as-needed", true)] {
        let scratch = Scratch::new();
        let silent = linked_with_shared(&scratch, "small_app.c", flag);
        assert_eq!(needs_profiler(&silent), is_kept, "{flag}");
        let finished = run(plain(silent).env("CPUPROFILE", scratch.path("prof")));
        assert_eq!((exit_code(finished.status), finished.text()), (3, "hello\n".to_owned()));
        assert_eq!((finished.end_lines(), scratch.path("prof").exists()), (usize::from(is_kept), is_kept));
    }
}
