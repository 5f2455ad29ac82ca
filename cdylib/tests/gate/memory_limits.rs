//! Programs with memory limits: they get as much memory as without the library, minus the library's
//! share, and are never killed.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, names_in, plain, profiled, rounds, run,
};

/// The profiler's share of a limit, in KiB: its library, rules, handler stacks and a table of the
/// least size, and glibc's arenas of a program with little memory.
const OWN_SHARE: usize = 6 << 10;

/// Seconds until a program is killed. Under some limits Python hangs, even without the library.
const TIMEOUT: u32 = 12;
/// Seconds if it exits without the library: enough for a busy machine, and less than a hang.
const LAST_TIMEOUT: u32 = 300;

/// Runs the command under a limit of so many KiB; `what` is the letter of `ulimit`.
fn limited(command: &Command, what: char, kibibytes: usize, timeout: u32) -> Finished {
    let mut shell = plain("sh");
    let script = format!("ulimit -{what} {kibibytes}; exec timeout {timeout} env \"$@\"");
    shell.args(["-c", &script, "sh"]);
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let mut word = name.to_owned();
            word.push("=");
            word.push(value);
            shell.arg(word);
        }
    }
    shell.arg(command.get_program()).args(command.get_args());
    run(&mut shell)
}

/// Runs a program under each of these limits, with and without the library. No signal may kill it.
/// It must succeed with the library if it does so without it in the limit minus the profiler's
/// share. It must be profiled under more than one in `share` of the limits.
#[track_caller]
fn expect_unharmed(
    program: &Path,
    words: &[&str],
    what: char,
    limits: Range<usize>,
    step: usize,
    share: usize,
) {
    let (mut profiles, mut without) = (0, 0);
    let limits = limits.step_by(step);
    let number = limits.len();
    for limit in limits {
        let scratch = Scratch::new();
        let profile = scratch.path("prof");
        let mut command = profiled(program, &profile);
        command
            .env("CPUPROFILE_SPOOL", scratch.path("spools"))
            .env("CPUPROFILE_FREQUENCY", "1000")
            .args(words);
        let bare = limited(plain(program).args(words), what, limit.saturating_sub(OWN_SHARE), TIMEOUT);
        // A program that exits without the library must exit with it.
        let timeout = if bare.status.success() { LAST_TIMEOUT } else { TIMEOUT };
        let found = limited(&command, what, limit, timeout);
        let status = exit_code(found.status);
        // An interpreter aborts if it finds no memory at its start.
        let is_own_end = found.stderr.contains("Fatal Python error");
        assert!(status < 128 || is_own_end, "{limit} KiB: {status}: {}", found.stderr);
        if bare.status.success() {
            assert_eq!(status, 0, "{limit} KiB: {}", found.stderr);
            assert_eq!(found.text(), bare.text(), "{limit} KiB");
        }
        if !found.status.success() {
            continue;
        }
        match names_in(&scratch.path("."), "prof").as_slice() {
            // A missing profile was reported.
            [] => {
                assert!(!found.stderr.is_empty(), "{limit} KiB: no profile, and no word");
                without += 1;
            }
            _ => {
                // The programs send themselves ticks.
                let samples = Profile::read(&profile).samples();
                assert!(samples > 0, "{limit} KiB: {}", found.stderr);
                profiles += 1;
            }
        }
    }
    println!("profiled {profiles} times of {number}, {without} times not");
    assert!(profiles * share > number, "profiled {profiles} times of {number}, {without} times not");
}

/// A C program runs under many limits of its address space: it is not harmed.
#[test]
fn an_address_space_limit_does_not_harm_the_application() {
    let scratch = Scratch::new();
    let program = scratch.compile("tight.c", Linkage::None, &[]);
    expect_unharmed(&program, &["8192"], 'v', 4 << 10..48 << 10, rounds(4093, 509), 4);
}

/// A C program runs under many limits of its data segment: it is not harmed.
#[test]
fn a_data_limit_does_not_harm_the_application() {
    let scratch = Scratch::new();
    let program = scratch.compile("tight.c", Linkage::None, &[]);
    expect_unharmed(&program, &["4096"], 'd', 1 << 10..32 << 10, rounds(4093, 509), 6);
}

/// Python runs under many limits of its address space: it is not harmed.
#[test]
fn an_address_space_limit_does_not_harm_an_interpreter() {
    // The signal that the script ignores is a tick if it is profiled.
    let script = "import os, signal
signal.signal(signal.SIGPROF, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGPROF)
print(sum(i * i % 7 for i in range(30000)))";
    let python = Path::new("/usr/bin/python3");
    expect_unharmed(python, &["-c", script], 'v', 8 << 10..96 << 10, rounds(16_381, 2039), 4);
}
