//! Programs that replace themselves by another, or start others.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, plain, preload, profiled, program_source,
    repository_root, rounds, run, shared_library, tool,
};

/// Perl under the profiler, at the highest rate.
fn perl(scratch: &Scratch, script: &str) -> Command {
    let mut command = profiled("/usr/bin/perl", &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "10000").args(["-e", script]);
    command
}

fn compile(scratch: &Scratch, linkage: Linkage) -> PathBuf {
    // Bound at load time: lazy binding takes more of a handler's stack than all else.
    scratch.compile("exec.c", linkage, &["-Wl,-z,now"])
}

/// Runs a case of `programs/exec.c` under the profiler, at the highest rate.
fn run_case(scratch: &Scratch, program: &PathBuf, case: &[&str]) -> Finished {
    run(profiled(program, &scratch.path("prof")).env("CPUPROFILE_FREQUENCY", "10000").args(case))
}

/// Panics unless `text` was printed and status is 0. A program killed by our timer prints nothing.
#[track_caller]
fn expect_text(finished: &Finished, text: &str, case: &str) {
    let status = exit_code(finished.status);
    assert_eq!(
        (finished.text().as_str(), status),
        (text, 0),
        "{case}: the new program ended early\n{}",
        finished.stderr
    );
}

/// A program with two libraries preloaded: the one under test, and `second` after it.
fn preload_two(program: PathBuf, second: &Path) -> Command {
    let mut command = preload(program);
    let both = format!("{} {}", shared_library().display(), second.display());
    match std::env::var_os("SIGPROF_TEST_EMULATOR") {
        Some(_) => command.env("QEMU_SET_ENV", format!("LD_PRELOAD={both}")),
        None => command.env("LD_PRELOAD", both),
    };
    command
}

/// The functions, the number of additional arguments of the new program, and its environment.
/// Variants with a number pass lists that fill the registers, do not, or far exceed them.
const FUNCTIONS: [(&str, usize, &str); 19] = [
    ("execve", 0, "set"),
    ("execveat", 0, "set"),
    ("fexecve", 0, "set"),
    ("execv", 0, "unset"),
    ("execvp", 0, "unset"),
    ("execvpe", 0, "set"),
    ("execl", 0, "unset"),
    ("execl-3", 3, "unset"),
    ("execl-4", 4, "unset"),
    ("execl-5", 5, "unset"),
    ("execl-6", 6, "unset"),
    ("execl-300", 300, "unset"),
    ("execlp", 0, "unset"),
    ("execlp-300", 300, "unset"),
    ("execle", 0, "set"),
    ("execle-2", 2, "set"),
    ("execle-3", 3, "set"),
    ("execle-5", 5, "set"),
    ("execle-300", 300, "set"),
];

/// Perl replaces itself by `execvp`, and `env` by perl without the library: the new program has no
/// leftover timer and is not killed, and the first program's profile has its samples.
#[test]
fn a_program_that_replaces_another_is_not_killed_by_its_timer() {
    let scratch = Scratch::new();
    for round in 0..rounds(2, 10) {
        let script = r#"kill PROF => $$ if $ENV{LD_PRELOAD}; 1 for 1..2e6;
            exec "env", "-i", "/usr/bin/perl", "-e", "1 for 1..2e6; print qq(alive)""#;
        let finished = run(&mut perl(&scratch, script)).expect_success();
        assert_eq!(finished.text(), "alive", "round {round}");
        assert!(Profile::read(&scratch.path("prof")).samples() > 0, "round {round}");
    }
}

/// An application with computing threads calls each of the nine functions: the new program gets
/// arguments and environment, and is not killed; the profile has the application's samples.
#[test]
fn every_function_passes_arguments_and_environment() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    for (function, arguments, environment) in FUNCTIONS {
        let expected = format!("alive {arguments} {environment}\n");
        expect_text(&run(plain(&program).args(["replace", function])), &expected, function);
        for _ in 0..rounds(1, 2) {
            expect_text(&run_case(&scratch, &program, &["replace", function]), &expected, function);
            assert!(
                Profile::read(&scratch.path("prof")).samples() > 0,
                "{function}: nothing was written before"
            );
            std::fs::remove_file(scratch.path("prof")).expect("our own file");
        }
    }
}

/// The application passes about as many arguments as registers: the next definition gets all.
#[test]
fn lists_are_passed_as_arrays() {
    let scratch = Scratch::new();
    let program = scratch.compile("exec_lists.c", Linkage::None, &[]);
    let next = scratch.compile_library("next_exec.c", &[]);
    let finished = run(&mut preload_two(program, &next)).expect_success();
    let numbers = |count: usize| (1..=count).map(|i| format!(" {i}")).collect::<String>();
    let mut expected: Vec<String> =
        [1, 3, 4, 5, 6, 7, 8].map(|count| format!("execv path:{}", numbers(count))).into();
    expected.push(format!("execvp path:{0}{0}", numbers(7)));
    let of_execle = [1, 3, 4, 5, 6, 7].map(numbers).into_iter().chain([numbers(7).repeat(2)]);
    expected.extend(of_execle.map(|list| format!("execve path:{list} E=1 F=2")));
    assert_eq!(finished.text().lines().collect::<Vec<_>>(), expected);
}

/// A static program, without next definitions, calls each function: the new program runs, and so
/// does a script without an interpreter line.
#[test]
fn a_static_program_can_replace_itself() {
    let scratch = Scratch::new();
    let program = scratch.path("exec");
    let mut compiler = tool("gcc");
    compiler.args(["-std=c11", "-O2", "-static", "-I"]).arg(repository_root().join("include"));
    compiler.arg(program_source("exec.c")).arg(shared_library().with_file_name("libprofiler.a"));
    compiler.args(["-lutil", "-lrt", "-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
    run(&mut compiler).expect_success();
    for (function, arguments, environment) in FUNCTIONS {
        let mut command = plain(&program);
        command.env("CPUPROFILE", scratch.path("prof")).env("CPUPROFILE_FREQUENCY", "10000");
        let finished = run(command.args(["replace", function]));
        expect_text(&finished, &format!("alive {arguments} {environment}\n"), function);
    }
    let script = scratch.write("script", "echo \"$# $2 ${0##*/}\"\n");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("our own file");
    for function in ["execvp", "execvpe", "execlp"] {
        let finished = run(plain(&program).args(["run-script", function]));
        expect_text(&finished, "3 b script\n", function);
    }
    expect_text(&run(plain(&program).args(["fail-in-path"])), "failed\n", "fail-in-path");
}

/// A child of `vfork` calls each function after one that fails: the parent is intact.
#[test]
fn a_child_of_vfork_can_call_exec() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    for (function, arguments, environment) in FUNCTIONS {
        let finished = run_case(&scratch, &program, &["replace-in-child", function]);
        expect_text(&finished, &format!("alive {arguments} {environment}\n"), function);
        assert!(Profile::read(&scratch.path("prof")).samples() > 0, "{function}");
    }
}

/// An application with computing threads replaces itself by itself many times, each time profiled
/// anew: no tick of one program reaches the next.
#[test]
fn a_long_chain_of_programs_is_not_killed() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    let length = rounds(20, 200).to_string();
    expect_text(&run_case(&scratch, &program, &["chain", &length]), "the end\n", "chain");
}

/// The application replaces itself after a search through a long PATH, while the calls of three
/// other threads fail: no failing call rearms the timer, and the new program is not killed.
#[test]
fn failing_calls_of_other_threads_do_not_arm_the_timer() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    for _ in 0..rounds(2, 10) {
        let finished = run_case(&scratch, &program, &["replace-beside-failures"]);
        expect_text(&finished, "alive 0 unset\n", "beside failures");
    }
}

/// A call fails: the program is still profiled.
#[test]
fn ticks_continue_after_a_failed_exec() {
    let scratch = Scratch::new();
    let script = r#"my $p = "$ENV{CPUPROFILE}"; exec { "/no/such/program" } "x";
        kill PROF => $$ for 1..5; print -e $p ? "early" : "late""#;
    let finished = run(perl(&scratch, script).env("CPUPROFILE_FREQUENCY", "1")).expect_success();
    assert_eq!(finished.text(), "late", "there was nothing to write when the call failed");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 5);
}

/// Each function fails: `errno` is the system's, and ticks come again.
#[test]
fn a_failed_call_returns_its_error_and_ticks_continue() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    expect_text(&run_case(&scratch, &program, &["fail"]), "failed\n", "fail");
}

/// The application calls a function of `exec`: nothing is allocated or locked.
#[test]
fn a_call_neither_allocates_nor_locks() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::Shared);
    let detector = scratch.compile_library("detector.c", &[]);
    let mut command = plain(program);
    command.env("LD_PRELOAD", detector).env("CPUPROFILE_FREQUENCY", "1");
    let finished = run(command.arg("fail-watched").arg(scratch.path("prof")));
    expect_text(&finished, "failed\n", "fail-watched");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 1);
}

/// A handler on an alternate stack with 768 spare bytes replaces the program: the new one runs.
#[test]
fn a_handler_on_a_small_stack_can_replace_the_program() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    // No tick interrupts the handler: the stack has no room for another frame of the kernel.
    let mut command = profiled(&program, &scratch.path("prof"));
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "1").arg("replace-on-small-stack"));
    expect_text(&finished, "alive 7 unset\n", "replace-on-small-stack");
}

/// The application blocks two signals, one of them pending, and replaces itself: blocked, pending
/// and ignored signals are as without the library, and none is caught.
#[test]
fn the_new_program_has_the_same_mask() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    let expected = run(plain(&program).arg("hand-on-mask")).expect_success().text();
    assert!(expected.contains("SigBlk:\t0000000008000800"), "{expected}");
    for _ in 0..rounds(3, 20) {
        expect_text(&run_case(&scratch, &program, &["hand-on-mask"]), &expected, "hand-on-mask");
    }
}

/// An application with computing threads starts programs by `posix_spawn`, `system` and `popen`,
/// with profiled shells that replace themselves: none is killed.
#[test]
fn programs_that_are_started_are_not_killed() {
    let scratch = Scratch::new();
    let program = compile(&scratch, Linkage::None);
    let times = rounds(2, 10);
    let finished = run_case(&scratch, &program, &["start-programs", &times.to_string()]);
    expect_text(&finished, &"alive 0 set\n".repeat(times), "start-programs");
    Profile::read(&scratch.path("prof"));
}

/// At each instruction of the functions with lists (assembly), the stack leads to the caller.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_stack_leads_through_the_functions_with_lists() {
    let scratch = Scratch::new();
    let program = scratch.compile("exec_step.c", Linkage::Shared, &["-rdynamic", "-mno-red-zone"]);
    let finished = run(&mut plain(program)).expect_success();
    let counts: Vec<usize> =
        finished.text().split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 3 && counts.iter().all(|&count| count >= 10), "{}", finished.text());
}
