//! Programs that may use little memory: they get what they got without the library, but for what it takes itself, and never
//! come to harm.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, names_in, plain, profiled, rounds, run,
};

/// What the profiler may take of a limit, in KiB: its library, the rules, the handlers' stacks, and a table of the least
/// size; and what glibc takes for the arenas of a program whose memory is short.
const OWN_SHARE: usize = 6 << 10;

/// Seconds after which a program that has not ended is. Python waits for itself under some limits, with the library and without.
const PATIENCE: u32 = 12;
/// The same where it has ended without the library: a busy machine may keep it so long, and a hang outlasts this, too.
const LAST_PATIENCE: u32 = 300;

/// The same command under a limit of so many KiB; `what` is the letter of `ulimit`.
fn limited(command: &Command, what: char, kibibytes: usize, patience: u32) -> Finished {
    let mut shell = plain("sh");
    let script = format!("ulimit -{what} {kibibytes}; exec timeout {patience} env \"$@\"");
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

/// Runs a program under each of these limits, with the library and without. Under any of them it must not be ended by a
/// signal; and where it succeeds with what is left of a limit beside our share, it must succeed as before under the limit.
/// And it is profiled under more than one in `share` of them.
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
        let bare = limited(plain(program).args(words), what, limit.saturating_sub(OWN_SHARE), PATIENCE);
        // What ends without the library must end with it.
        let patience = if bare.status.success() { LAST_PATIENCE } else { PATIENCE };
        let found = limited(&command, what, limit, patience);
        let status = exit_code(found.status);
        // An interpreter that finds no memory for its own start aborts.
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
            // Whatever was left out was told.
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

/// A C program under limits of its address space, from where nothing fits to where all does.
#[test]
fn a_limit_of_address_space_harms_no_app() {
    let scratch = Scratch::new();
    let program = scratch.compile("tight.c", Linkage::None, &[]);
    expect_unharmed(&program, &["8192"], 'v', 4 << 10..48 << 10, rounds(4093, 509), 4);
}

/// The same under limits of its data.
#[test]
fn a_limit_of_data_harms_no_app() {
    let scratch = Scratch::new();
    let program = scratch.compile("tight.c", Linkage::None, &[]);
    expect_unharmed(&program, &["4096"], 'd', 1 << 10..32 << 10, rounds(4093, 509), 6);
}

/// Python under limits of its address space.
#[test]
fn a_limit_of_address_space_harms_no_interpreter() {
    // What it ignores is a tick all the same if it is profiled, and nothing otherwise.
    let script = "import os, signal
signal.signal(signal.SIGPROF, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGPROF)
print(sum(i * i % 7 for i in range(30000)))";
    let python = Path::new("/usr/bin/python3");
    expect_unharmed(python, &["-c", script], 'v', 8 << 10..96 << 10, rounds(16_381, 2039), 4);
}
