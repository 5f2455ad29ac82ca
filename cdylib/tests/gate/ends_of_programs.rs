//! Programs of Debian that exit, fork and start others in their own ways: status and output are as
//! without the library, and profiles are complete.

use crate::support::{Lack, Profile, Scratch, exit_code, plain, profiled, quietly, run, skip};

/// Runs a program under the profiler. Panics unless it exits and prints as without, and all
/// profiles are complete; its own must have samples. Returns the number of profiles.
#[track_caller]
fn expect_real_program(program: &str, arguments: &[&str], status: i32) -> usize {
    let scratch = Scratch::new();
    let alone = run(plain(program).args(arguments).current_dir(scratch.root()));
    assert_eq!(exit_code(alone.status), status, "{}", alone.stderr);
    let mut command = profiled(program, &scratch.path("prof"));
    let finished = run(quietly(&mut command).args(arguments).current_dir(scratch.root()));
    assert_eq!(exit_code(finished.status), status, "{}", finished.stderr);
    assert_eq!((finished.text(), finished.complaints()), (alone.text(), alone.complaints()), "{program}");
    let names = scratch.names("prof");
    assert!(names.iter().any(|name| name == "prof"), "{program} lost its whole profile: there are {names:?}");
    for name in &names {
        let path = scratch.path(name);
        let bytes = std::fs::metadata(&path).map(|file| file.len()).unwrap_or(0);
        assert!(bytes > 0, "{program} lost the whole profile {name}");
        assert!(Profile::read(&path).samples() > 0 || name != "prof", "{program}: no samples in {name}");
    }
    names.len()
}

/// A tick for a profiled shell that is not a subshell.
const SHELL_TICK: &str = "[ -z \"$LD_PRELOAD\" ] || kill -PROF $$";

/// A tick for a profiled subshell.
const SUBSHELL_TICK: &str = "[ -z \"$LD_PRELOAD\" ] || sh -c 'kill -PROF $PPID'";

/// A loop that takes a shell some milliseconds.
const SHELL_WORK: &str = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done";

/// dash exits by `_exit`, uses `vfork`, and forks subshells: all have complete profiles.
#[test]
fn a_shell_has_a_complete_profile() {
    assert_eq!(
        expect_real_program(
            "/usr/bin/dash",
            &["-c", &format!("{SHELL_TICK}; {SHELL_WORK}; echo $i; exit 3")],
            3
        ),
        1
    );
    let script = format!(
        "({SUBSHELL_TICK}; {SHELL_WORK}; echo $i; exit 4); echo $?; /bin/echo x | /bin/cat; {SHELL_TICK}; {SHELL_WORK}; exit 5"
    );
    assert!(expect_real_program("/usr/bin/dash", &["-c", &script], 5) >= 2);
}

/// python3 exits by `os._exit`, starts programs by `subprocess`, and has `multiprocessing` workers
/// that exit by `os._exit`: all have complete profiles.
#[test]
fn pythons_processes_have_complete_profiles() {
    let work = "(tick(), sum(i * i for i in range(10000)))";
    let tick = "import os\ndef tick(): 'LD_PRELOAD' in os.environ and os.kill(os.getpid(), 27)";
    let script = format!("{tick}\n{work}\nos._exit(6)");
    assert_eq!(expect_real_program("/usr/bin/python3", &["-c", &script], 6), 1);
    let script = format!(
        "{tick}
import multiprocessing, subprocess, sys
def work(n): return (n, {work})[0]
print(subprocess.run(['/bin/echo', 'from a child'], capture_output=True).stdout)
print(subprocess.run('exit 9', shell=True, preexec_fn=os.getpid).returncode)
with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(work, range(4)))
child = multiprocessing.get_context('fork').Process(target=work, args=(1,))
child.start(); child.join(); print(child.exitcode)
{work}; sys.exit(7)"
    );
    assert!(expect_real_program("/usr/bin/python3", &["-c", &script], 7) >= 2);
}

/// perl exits by `POSIX::_exit`, forks, and starts programs: all have complete profiles.
#[test]
fn perls_processes_have_complete_profiles() {
    let script = "use POSIX; $| = 1; sub work { kill PROF => $$ if $ENV{LD_PRELOAD}; 1 for 1..3e4; }
        work(); if (!fork) { work(); POSIX::_exit(3) } wait;
        print $? >> 8, qq(\\n); print `echo x`; system(qw(echo y)); POSIX::_exit(8)";
    assert!(expect_real_program("/usr/bin/perl", &["-e", script], 8) >= 2);
}

/// xargs runs a shell, GNU make two jobs: status and output are as without the library.
#[test]
fn programs_that_start_many_others_exit_as_without_the_library() {
    let script = format!(
        "seq 20 | xargs -n 1 -P 1 sh -c '{{ {SHELL_TICK}; {SHELL_WORK}; }} > /dev/null; echo $0'; {SHELL_TICK}; {SHELL_WORK}; exit 2"
    );
    assert!(expect_real_program("/usr/bin/dash", &["-c", &script], 2) >= 20);
    if std::path::Path::new("/usr/bin/make").exists() {
        let rules = (1..=8)
            .map(|i| format!("all: t{i}\nt{i}:; @{SHELL_TICK}; {SHELL_WORK}; true\n"))
            .collect::<String>();
        let script = format!(
            "{SHELL_TICK}; {SHELL_WORK}; printf '%s' '{}' > rules; make -j2 -f rules all; make -f rules no; exit 2",
            rules.replace('$', "$$")
        );
        assert!(expect_real_program("/usr/bin/dash", &["-c", &script], 2) >= 8);
    } else {
        skip(Lack::Tool, "no make");
    }
}
