//! Applications that set, block, ignore, wait for and read the profiling signal by each function of
//! libc: results and deliveries are as without the library.

use std::{ffi::OsStr, path::Path};

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, plain, profiled, program_source, repository_root, run,
    shared_library, tool,
};

const SIGPROF: &str = "27";
const SIGUSR1: &str = "10";

/// Runs `programs/dispositions.c` with and without the library; panics if their output differs.
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

/// The application sets its handler by `signal`: results and calls are as without the library.
#[test]
fn signal_works_as_without_the_library() {
    expect_the_same_answers("signal");
}

/// The application sets its handler by `bsd_signal`: results and calls are as without the library.
#[test]
fn bsd_signal_works_as_without_the_library() {
    expect_the_same_answers("bsd_signal");
}

/// The application sets its handler by `ssignal`: results and calls are as without the library.
#[test]
fn ssignal_works_as_without_the_library() {
    expect_the_same_answers("ssignal");
}

/// The application sets its handler by `sysv_signal`: it runs once, and does not block its signal.
#[test]
fn sysv_signal_works_as_without_the_library() {
    expect_the_same_answers("sysv_signal");
}

/// The application sets its handler by `__sysv_signal`, the conforming `signal`: it runs once.
#[test]
fn strictly_conforming_signal_works_as_without_the_library() {
    expect_the_same_answers("__sysv_signal");
}

/// The application calls `sigset`, `sighold`, `sigrelse`: they work as without the library.
#[test]
fn sigset_works_as_without_the_library() {
    expect_the_same_answers("sigset");
}

/// The application ignores the signal by `sigignore`: it is not delivered.
#[test]
fn sigignore_works_as_without_the_library() {
    expect_the_same_answers("sigignore");
}

/// The application calls `siginterrupt`: flags of present and later handlers change.
#[test]
fn siginterrupt_works_as_without_the_library() {
    expect_the_same_answers("siginterrupt");
}

/// The application calls `sigaction` with masks and flags: it works as without the library.
#[test]
fn sigaction_works_as_without_the_library() {
    expect_the_same_answers("sigaction");
}

/// The application calls glibc's `__sigaction`: results and calls are as without the library.
#[test]
fn underscore_sigaction_works_as_without_the_library() {
    expect_the_same_answers("__sigaction");
}

/// The application, linked long ago, calls `sigvec`: results and calls are as without the library.
#[test]
#[cfg(target_arch = "x86_64")]
fn sigvec_works_as_without_the_library() {
    expect_the_same_answers("sigvec");
}

/// A static program sets dispositions and timers by every function: it runs as without the library.
#[test]
fn signal_functions_work_in_a_static_program() {
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

/// All threads block the signal and one calls `sigwait`: it returns signals that others send and no
/// ticks, and continues after another signal's handler.
#[test]
fn sigwait_returns_signals_and_no_ticks() {
    let finished = run_case(&Scratch::new(), &["sigwait"], "250");
    expect_done(&finished, "the application's sigwait gave it a tick, or none of its own signals");
}

/// All threads block the signal and one calls `sigwaitinfo`: it returns sent signals, not ticks.
#[test]
fn sigwaitinfo_returns_signals_and_no_ticks() {
    let finished = run_case(&Scratch::new(), &["sigwaitinfo"], "250");
    expect_done(&finished, "the application's sigwaitinfo gave it a tick, or none of its own signals");
}

/// A thread calls `sigtimedwait` while another computes: the call times out when it should.
#[test]
fn sigtimedwait_times_out_without_a_signal() {
    let finished = run_case(&Scratch::new(), &["sigtimedwait"], "250");
    expect_done(&finished, "the application's sigtimedwait gave it a tick, or never ended");
}

/// A thread in `sigwait` is cancelled: it exits there, and its cleanup handlers run.
#[test]
fn sigwait_is_a_cancellation_point() {
    let finished = run_case(&Scratch::new(), &["cancelled-sigwait"], "250");
    expect_done(&finished, "a thread in sigwait cannot be cancelled");
}

/// The application reads a `signalfd`: it gets no tick, and a diagnostic reports that ticks stop.
#[test]
fn signalfd_reads_signals_and_no_ticks() {
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

/// All threads block the signal: the summary line says why there are no samples.
#[test]
fn reports_that_all_threads_block_the_signal() {
    let scratch = Scratch::new();
    // `env` blocks the signal from the start: a tick before the program does so would be a sample.
    let program = scratch.compile("app_signals.c", Linkage::None, &[]);
    let profiled = profiled(program, &scratch.path("prof"));
    let mut command = plain("env");
    command.arg("--block-signal=PROF").arg("CPUPROFILE_FREQUENCY=250");
    for (name, value) in profiled.get_envs() {
        // Set by `env` and not for it: it would be profiled itself.
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
        "the reason is not reported: {}",
        finished.stderr
    );
}

/// Ticks interrupt a handler that often leaves by `siglongjmp`: its state is kept.
#[test]
fn handlers_that_ticks_interrupt_can_jump_out() {
    let scratch = Scratch::new();
    expect_done(&run_case(&scratch, &["jumps"], "1000"), "a handler that jumps out loses its state");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// Ticks interrupt calls: `read` continues, `poll` and `nanosleep` return `EINTR`, as usual.
#[test]
fn interrupted_calls_are_restarted_as_without_the_library() {
    let scratch = Scratch::new();
    expect_done(&run_case(&scratch, &["restarts"], "1"), "a slow read was cut short by a tick");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 20);
}

/// The application ignores the signal and replaces itself: the next program ignores it too.
#[test]
fn an_ignored_signal_stays_ignored_in_the_next_program() {
    for way in ["execve", "vfork-execve", "fork-execve"] {
        let finished = run_case(&Scratch::new(), &["ignore", way], "250");
        expect_done(&finished, &format!("{way}: the next program does not ignore what this one ignored"));
    }
}

/// The application ignores the signal, and its exec fails: it still ignores it, and ticks come.
#[test]
fn ticks_come_after_a_failed_exec_if_the_signal_is_ignored() {
    let scratch = Scratch::new();
    expect_done(&run_case(&scratch, &["ignore", "missing"], "250"), "no ticks after a failed exec");
    assert!(Profile::read(&scratch.path("prof")).samples() >= 10);
}

/// GNU `timeout` kills a program that takes too long, with each clock: the status is the same, and
/// no process is left.
#[test]
fn timeout_kills_its_program_in_time() {
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
