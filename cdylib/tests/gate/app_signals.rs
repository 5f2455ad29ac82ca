//! Applications that set, block, ignore, wait for and read the profiling signal in all the ways that libc knows: what they are told
//! and what reaches them is as without the library.

use std::{ffi::OsStr, path::Path};

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, plain, profiled, program_source, repository_root, run,
    shared_library, tool,
};

const SIGPROF: &str = "27";
const SIGUSR1: &str = "10";

/// Runs `programs/dispositions.c` with and without the library, and panics where their output differs.
#[track_caller]
fn expect_the_same_answers(function: &str) {
    let scratch = Scratch::new();
    let program = scratch.compile("dispositions.c", Linkage::None, &[]);
    for number in [SIGPROF, SIGUSR1] {
        let expected = run(plain(&program).args([function, number])).expect_success().text();
        let mut command = profiled(&program, &scratch.path("prof"));
        let given = run(command.env("CPUPROFILE_FREQUENCY", "1").args([function, number]));
        let differing = expected
            .lines()
            .zip(given.text().lines())
            .find(|(a, b)| a != b)
            .map(|(a, b)| format!("{a:?} became {b:?}"));
        assert!(
            given.text() == expected,
            "{function} on signal {number}: the application is told something else, or not served: {differing:?}\nstderr: {}",
            given.stderr
        );
        assert!(expected.lines().count() > 10, "the program tells too little: {expected}");
    }
}

/// Runs a case of `programs/app_signals.c` with the library preloaded and profiling on.
fn run_case(scratch: &Scratch, case: &[&str], frequency: &str) -> Finished {
    let program = scratch.compile("app_signals.c", Linkage::None, &[]);
    run(profiled(program, &scratch.path("prof")).env("CPUPROFILE_FREQUENCY", frequency).args(case))
}

#[track_caller]
fn expect_done(finished: &Finished, lost: &str) {
    let status = exit_code(finished.status);
    assert!(
        status == 0 && finished.text() == "done\n",
        "{lost}: status {status}\n{}\n{}",
        finished.text(),
        finished.stderr
    );
}

/// An application that sets its handler by `signal` is told what it set, and its handler is called as libc promises.
#[test]
fn signal_tells_and_serves_as_ever() {
    expect_the_same_answers("signal");
}

/// The same by `bsd_signal`.
#[test]
fn bsd_signal_tells_and_serves_as_ever() {
    expect_the_same_answers("bsd_signal");
}

/// The same by `ssignal`.
#[test]
fn ssignal_tells_and_serves_as_ever() {
    expect_the_same_answers("ssignal");
}

/// The same by `sysv_signal`, whose handler runs once and does not block its signal.
#[test]
fn sysv_signal_tells_and_serves_as_ever() {
    expect_the_same_answers("sysv_signal");
}

/// The same by the name that `signal` has in strictly conforming programs.
#[test]
fn strictly_conforming_signal_tells_and_serves_as_ever() {
    expect_the_same_answers("__sysv_signal");
}

/// The same by `sigset`, which also blocks and unblocks, with `sighold` and `sigrelse`.
#[test]
fn sigset_tells_and_serves_as_ever() {
    expect_the_same_answers("sigset");
}

/// An application that ignores the signal by `sigignore` does not get it.
#[test]
fn sigignore_ignores_as_ever() {
    expect_the_same_answers("sigignore");
}

/// `siginterrupt` changes the present setting and those that `signal` makes later.
#[test]
fn siginterrupt_changes_flags_as_ever() {
    expect_the_same_answers("siginterrupt");
}

/// `sigaction` with all signals masked, with flags, and with `SA_RESETHAND`.
#[test]
fn sigaction_tells_and_serves_as_ever() {
    expect_the_same_answers("sigaction");
}

/// The same by glibc's second name.
#[test]
fn the_second_name_of_sigaction_is_no_way_around() {
    expect_the_same_answers("__sigaction");
}

/// The same by `sigvec`, which programs linked long ago call.
#[test]
#[cfg(target_arch = "x86_64")]
fn sigvec_tells_and_serves_as_ever() {
    expect_the_same_answers("sigvec");
}

/// A static program that sets dispositions and timers by every function runs as without the library in it.
#[test]
fn a_static_program_has_the_same_functions() {
    let scratch = Scratch::new();
    let program = scratch.path("static_signals");
    let mut compiler = tool("gcc");
    compiler.args(["-std=c11", "-O2", "-static", "-I"]).arg(repository_root().join("include"));
    compiler.arg(program_source("static_signals.c")).arg(shared_library().with_file_name("libprofiler.a"));
    compiler.args(["-lutil", "-lrt", "-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
    run(&mut compiler).expect_success();
    let finished = run(plain(&program).arg(scratch.path("prof")));
    expect_done(&finished, "a static program cannot use the functions");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// All threads block the signal and one waits for it by `sigwait`: it gets what others send, and no tick, and continues when
/// another signal interrupts it.
#[test]
fn sigwait_gives_the_app_its_own_signals() {
    let finished = run_case(&Scratch::new(), &["sigwait"], "250");
    expect_done(&finished, "the application's sigwait gave it a tick, or none of its own signals");
}

/// The same by `sigwaitinfo`, which tells the sender.
#[test]
fn sigwaitinfo_gives_the_app_its_own_signals() {
    let finished = run_case(&Scratch::new(), &["sigwaitinfo"], "250");
    expect_done(&finished, "the application's sigwaitinfo gave it a tick, or none of its own signals");
}

/// An application that waits by `sigtimedwait` while another thread computes is told in time that nothing came.
#[test]
fn sigtimedwait_ends_in_time_without_a_signal() {
    let finished = run_case(&Scratch::new(), &["sigtimedwait"], "250");
    expect_done(&finished, "the application's sigtimedwait gave it a tick, or never ended");
}

/// A thread in `sigwait` is cancelled: it ends there, and what it registered for that is run.
#[test]
fn sigwait_is_a_cancellation_point() {
    let finished = run_case(&Scratch::new(), &["cancelled-sigwait"], "250");
    expect_done(&finished, "a thread in sigwait cannot be cancelled");
}

/// An application that reads the signal by `signalfd` finds there what others send, and no tick; one line says that ticks end.
#[test]
fn signalfd_gives_the_app_its_own_signals() {
    let scratch = Scratch::new();
    let finished = run_case(&scratch, &["signalfd"], "250");
    expect_done(&finished, "the application read a tick from its signalfd");
    assert_eq!(
        finished.complaints(),
        [
            "sigprof: profiling stopped: cannot send ticks to a program that uses their signal itself: Device or resource busy"
        ]
    );
}

/// An application that blocks the signal in all threads runs as before, and the end line says why there are no samples.
#[test]
fn a_app_that_blocks_the_signal_everywhere_learns_why_there_are_no_samples() {
    let scratch = Scratch::new();
    // From the start on: a tick that came before the program blocks the signal would be a sample.
    let program = scratch.compile("app_signals.c", Linkage::None, &[]);
    let profiled = profiled(program, &scratch.path("prof"));
    let mut command = plain("env");
    command.arg("--block-signal=PROF").arg("CPUPROFILE_FREQUENCY=250");
    for (name, value) in profiled.get_envs() {
        // Not for `env` itself, which would be profiled.
        if let (Some(name), Some(value)) = (name.to_str(), value.and_then(OsStr::to_str)) {
            command.arg(format!("{name}={value}"));
        }
    }
    command.arg(profiled.get_program()).args(profiled.get_args());
    let finished = run(command.arg("blocked"));
    expect_done(&finished, "an application that blocks the signal does not run");
    assert!(
        finished.stderr.contains(
            "(no samples: no tick arrived, although the program used CPU time: it blocks the profiling signal"
        ),
        "the reason is not told: {}",
        finished.stderr
    );
}

/// A handler of the application's for another signal is interrupted by ticks, and leaves by `siglongjmp`, again and again.
#[test]
fn handlers_that_are_ticked_may_jump_away() {
    let scratch = Scratch::new();
    expect_done(&run_case(&scratch, &["jumps"], "1000"), "a handler that jumps out loses its state");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// A slow `read` that ticks interrupt continues; `poll` and `nanosleep` say `EINTR`, as with any handler.
#[test]
fn interrupted_calls_are_restarted_as_far_as_the_system_does() {
    let scratch = Scratch::new();
    expect_done(&run_case(&scratch, &["restarts"], "1"), "a slow read was cut short by a tick");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// An application that ignores the signal and replaces itself: the next program ignores it, as without the library.
#[test]
fn what_is_ignored_stays_ignored_in_the_next_program() {
    for way in ["execve", "vfork-execve", "fork-execve"] {
        let finished = run_case(&Scratch::new(), &["ignore", way], "250");
        expect_done(&finished, &format!("{way}: the next program does not ignore what this one ignored"));
    }
}

/// An application that ignores the signal and fails to replace itself still ignores it, and is ticked again.
#[test]
fn what_is_ignored_is_ticked_after_a_failed_exec() {
    let scratch = Scratch::new();
    expect_done(&run_case(&scratch, &["ignore", "missing"], "250"), "no ticks after a failed exec");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 10);
}

/// GNU `timeout` watches a program that is slower than it may be, whatever clock both are profiled by: the same status, and
/// nobody is left.
#[test]
fn timeout_ends_its_program_in_time() {
    let timeout = Path::new("/usr/bin/timeout");
    let arguments = ["0.2", "sh", "-c", "while :; do :; done"];
    let expected = run(plain(timeout).args(arguments));
    assert_eq!(exit_code(expected.status), 124);
    for realtime in [false, true] {
        let scratch = Scratch::new();
        let mut command = profiled(timeout, &scratch.path("prof"));
        if realtime {
            command.env("CPUPROFILE_REALTIME", "1");
        }
        let finished = run(command.args(arguments));
        assert_eq!(exit_code(finished.status), exit_code(expected.status), "{}", finished.stderr);
        assert_eq!((finished.text(), finished.complaints()), (expected.text(), expected.complaints()));
    }
}
