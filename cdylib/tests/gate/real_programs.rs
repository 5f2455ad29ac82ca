//! Unmodified programs under the preloaded library: output and exit status are as without it, and
//! there is a profile. `full/real_programs.rs` examines the profiles.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::real_programs::{
    compile_c, compile_rust, compiler_proper, generated_c, generated_lines, generated_repository,
    profile_of_child, run_both,
};
use crate::support::{
    Finished, Linkage, Profile, Root, Scratch, Symbolizer, exit_code, plain, profiled, program_source,
    quietly, run, start, wait,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A program that computes is interrupted as often as the kernel can.
const FREQUENCY: u32 = 1000;

/// Panics unless each tick of a script has a stack through the interpreter to the entry point.
#[track_caller]
fn expect_ticks_of_a_script(interpreter: &str, script: &str, chain: &[&str]) {
    const TICKS: usize = 20;
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let mut command = profiled(interpreter, &path);
    run(quietly(&mut command).args([if interpreter.ends_with("perl") { "-e" } else { "-c" }, script]))
        .expect_success();
    let profile = Profile::read(&path);
    let mut symbolizer = Symbolizer::default();
    let found = profile.records.iter().filter(|record| {
        let names = symbolizer.names(&profile, record);
        let mut rest = names.iter();
        symbolizer.root(&profile, record) == Root::Process
            && chain.iter().all(|function| rest.any(|name| name == function))
    });
    assert_eq!(found.map(|record| record.count).sum::<usize>(), TICKS);
}

#[test]
fn ticks_of_a_python_script_lead_through_the_interpreter() {
    let script = "import os, signal\nfor i in range(20): os.kill(os.getpid(), signal.SIGPROF)";
    expect_ticks_of_a_script("/usr/bin/python3", script, &["_PyEval_EvalFrameDefault", "Py_RunMain"]);
}

#[test]
fn ticks_of_a_perl_script_lead_through_the_interpreter() {
    expect_ticks_of_a_script(
        "/usr/bin/perl",
        "kill PROF => $$ for 1 .. 20",
        &["Perl_runops_standard", "perl_run"],
    );
}

#[test]
fn interpreters_run_unchanged() {
    for (interpreter, script) in [("/usr/bin/python3", "busy.py"), ("/usr/bin/perl", "busy.pl")] {
        let scratch = Scratch::new();
        run_both(&scratch, interpreter, FREQUENCY, |command| command.arg(program_source(script)).arg("3"));
        assert_eq!(Profile::read(&scratch.path("prof")).period_micros, 1000);
    }
}

#[test]
fn gzip_and_sort_run_unchanged() {
    let scratch = Scratch::new();
    let input = scratch.write("input", generated_lines(50_000));
    run_both(&scratch, "/usr/bin/gzip", FREQUENCY, |command| command.arg("-9cn").arg(&input));
    Profile::read(&scratch.path("prof"));
    // It handles SIGPROF itself, to remove files before it dies.
    for threads in ["--parallel=1", "--parallel=2"] {
        run_both(&scratch, "/usr/bin/sort", FREQUENCY, |command| {
            command.args([threads, "-k2n", "-k1r", "-S", "1M", "-T"]).arg(scratch.root()).arg(&input)
        });
        Profile::read(&scratch.path("prof"));
    }
}

/// The driver writes the plain name, and each child its own file.
#[test]
fn gcc_and_its_children_run_unchanged() {
    let scratch = Scratch::new();
    let source = scratch.write("input.c", generated_c(20));
    let object = scratch.path("output.o");
    let gcc = Path::new("/usr/bin/gcc");
    run_both(&scratch, gcc, FREQUENCY, |command| compile_c(command, &source, &object));
    let with = std::fs::read(&object).expect("gcc wrote its output");
    run(compile_c(&mut plain(gcc), &source, &object)).expect_success();
    assert!(
        with == std::fs::read(&object).expect("gcc wrote its output"),
        "another object file than without"
    );
    Profile::read(&scratch.path("prof"));
    Profile::read(&profile_of_child(&scratch, &compiler_proper()));
}

#[test]
fn git_runs_unchanged() {
    let scratch = Scratch::new();
    let repository = generated_repository(&scratch, 20);
    run_both(&scratch, "/usr/bin/git", FREQUENCY, |command| {
        command.arg("--no-pager").arg("-C").arg(&repository).args([
            "log",
            "-p",
            "--word-diff-regex=.",
            "main",
        ])
    });
    Profile::read(&scratch.path("prof"));
}

/// A C++ program with threads, exceptions, and a plugin that is loaded and unloaded; a Rust program
/// without frame pointers.
#[test]
fn compiled_programs_run_unchanged() {
    let scratch = Scratch::new();
    let program = scratch.compile("throwing.cc", Linkage::None, &[]);
    let plugin = scratch.compile_library("plugin.cc", &[]);
    let finished = run_both(&scratch, &program, FREQUENCY, |command| command.arg(&plugin).arg("50"));
    assert_eq!(exit_code(finished.status), 7);
    Profile::read(&scratch.path("prof"));
    let finished = run_both(&scratch, compile_rust(&scratch), FREQUENCY, |command| command.arg("50000"));
    assert_eq!(exit_code(finished.status), 3);
    Profile::read(&scratch.path("prof"));
}

/// sort handles SIGPROF: it removes its temporary files and kills itself by the signal.
#[test]
fn sort_removes_its_files_when_it_gets_the_signal() {
    let scratch = Scratch::new();
    let without = kill_sort_at_work(&scratch, plain("/usr/bin/sort"));
    let with = kill_sort_at_work(&scratch, profiled("/usr/bin/sort", &scratch.path("prof")));
    assert_eq!(exit_code(without.status), 128 + Signal::SIGPROF as i32);
    assert_eq!(exit_code(with.status), 128 + Signal::SIGPROF as i32, "stderr: {}", with.stderr);
}

/// Sends SIGPROF to a sort that waits for input and has temporary files; panics if one remains.
#[track_caller]
fn kill_sort_at_work(scratch: &Scratch, mut sort: Command) -> Finished {
    let temporary = tempfile::tempdir_in(scratch.root()).expect("a temporary directory");
    sort.args(["-S", "1M", "--parallel=1", "-T"]).arg(temporary.path()).stdin(Stdio::piped());
    let mut child = start(&mut sort);
    let mut input = child.stdin.take().expect("standard input is a pipe");
    if let Err(error) = input.write_all(generated_lines(400_000).as_bytes()) {
        panic!("sort does not read its input: {error}; it ended with {:?}", wait(child));
    }
    let files = || std::fs::read_dir(temporary.path()).expect("the directory is there").count();
    let begin = Instant::now();
    while files() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(540), "sort writes no temporary file");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(child.id().try_into().expect("a process id")), Signal::SIGPROF)
        .expect("sort is running");
    let finished = wait(child);
    drop(input);
    assert_eq!(files(), 0, "sort left temporary files");
    finished
}
