//! Applications that use limits, threads, forks, timers and signals in unusual ways. They run and
//! exit as without the library, and have a profile.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::support::{
    Finished, Linkage, Mapping, Profile, Scratch, assignment, expect_status, in_shell, line_in, plain,
    preload, profiled, program_source, quietly, quietly_with_threads, rounds, run, samples_at, start, tool,
    wait, wait_for, wait_for_end,
};

fn app(scratch: &Scratch) -> PathBuf {
    scratch.compile("app.c", Linkage::None, &[])
}

fn edges(scratch: &Scratch) -> PathBuf {
    scratch.compile("edges.c", Linkage::None, &[])
}

/// Runs a case of `programs/edges.c` with profiling on and a silent timer.
fn run_profiled_edge(scratch: &Scratch, case: &[&str]) -> Finished {
    run(quietly(&mut profiled(edges(scratch), &scratch.path("prof"))).args(case))
}

/// Runs a case that starts the profiler itself, preloaded and linked, with the profile's name.
fn run_starting_edge(case: &str, variables: &[(&str, &str)], check: impl Fn(&Scratch, &Finished)) {
    for linkage in [Linkage::None, Linkage::Shared] {
        let scratch = Scratch::new();
        let program = scratch.compile("edges.c", linkage, &[]);
        let mut command = if linkage == Linkage::None { preload(program) } else { plain(program) };
        let finished =
            run(quietly(&mut command).envs(variables.iter().copied()).arg(case).arg(scratch.path("prof")));
        println!("{linkage:?}");
        check(&scratch, &finished);
    }
}

/// A thread with a pending cancellation calls `exit`: the library's exit hook does not cancel it.
#[test]
fn a_thread_with_a_pending_cancellation_exits() {
    let scratch = Scratch::new();
    expect_status(&run(plain(edges(&scratch)).arg("cancelled-exit")), 3);
    expect_status(&run_profiled_edge(&scratch, &["cancelled-exit"]), 3);
    Profile::read(&scratch.path("prof"));
}

/// A thread with a pending cancellation calls `ProfilerStop`: the call returns.
#[test]
fn a_thread_with_a_pending_cancellation_stops_the_profiler() {
    run_starting_edge("cancelled-stop", &[], |scratch, finished| {
        expect_status(finished, 0);
        assert_eq!(
            (finished.text().as_str(), finished.end_lines()),
            ("returned\n", 1),
            "{}",
            finished.stderr
        );
        assert_eq!(samples_at(&scratch.path("prof")), 2);
    });
}

/// The application forks while other threads call the C interface: no child hangs on a held lock.
#[test]
fn children_of_a_busy_program_do_not_hang() {
    let scratch = Scratch::new();
    expect_status(&run_profiled_edge(&scratch, &["fork-storm", &rounds(3, 50).to_string()]), 0);
    Profile::read(&scratch.path("prof"));
}

/// The application has an address space limit: it can allocate as much as without the library.
#[test]
fn leaves_a_limited_address_space_to_the_application() {
    let scratch = Scratch::new();
    let program = edges(&scratch);
    let path = scratch.path("prof");
    expect_status(
        &run(plain("sh").args(["-c", "ulimit -v 200000; exec \"$0\" allocate 150"]).arg(&program)),
        0,
    );
    let finished = run(in_shell("ulimit -v 200000", &program, &path).args(["allocate", "150"]));
    expect_status(&finished, 0);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    Profile::read(&path);
}

/// A child of `vfork`, in shared memory, resets the signal's disposition: the parent's is kept.
#[test]
fn a_child_of_vfork_resets_its_own_handler_only() {
    let scratch = Scratch::new();
    expect_status(&run_profiled_edge(&scratch, &["reset-in-vforked-child"]), 0);
    assert_eq!(samples_at(&scratch.path("prof")), 0);
}

#[test]
fn sig_err_as_a_handler_is_refused() {
    expect_status(&run_profiled_edge(&Scratch::new(), &["impossible-handler"]), 0);
}

#[test]
fn the_application_can_use_itimer_prof_after_a_stop() {
    run_starting_edge("own-timer-after-a-stop", &[], |scratch, finished| {
        expect_status(finished, 0);
        assert_eq!(samples_at(&scratch.path("prof")), 2);
    });
}

#[test]
fn the_application_can_use_itimer_prof_before_a_start() {
    let scratch = Scratch::new();
    expect_status(&run(preload(edges(&scratch)).arg("own-timer-before-a-start")), 0);
}

/// The application uses `alarm` after a session of clock `wall`: the alarm works.
#[test]
fn the_application_can_use_alarm_after_a_stop() {
    run_starting_edge("alarm-after-a-stop", &[("CPUPROFILE_REALTIME", "1")], |scratch, finished| {
        expect_status(finished, 0);
        Profile::read(&scratch.path("prof"));
    });
}

/// The application loads and unloads a plugin a hundred times: a later plugin is still listed.
#[test]
fn the_last_of_many_unloaded_plugins_is_listed() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let often = scratch.compile_library("plugin_tick.c", &[]);
    let last = other.compile_library("plugin_tick.c", &["-DROOM=4194304"]);
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    let finished = run(quietly(&mut command).arg("reload").arg(&often).arg("100").arg(&last));
    expect_status(&finished, 0);
    let profile = Profile::read(&scratch.path("prof"));
    assert_eq!(profile.samples(), 101);
    let is_last = |mapping: &Mapping| Path::new(&mapping.path) == last;
    let in_last =
        profile.share(|record| record.pcs.iter().any(|pc| profile.mapping_of(*pc).is_some_and(is_last)));
    assert!(in_last > 0.0, "no executable mapping of {} holds a PC", last.display());
}

/// The application's handler often jumps out of a stack walk: later stack traces still work.
#[test]
fn stack_traces_work_after_jumps_out_of_walks() {
    let scratch = Scratch::new();
    let jumps = rounds(200, 5000).to_string();
    expect_status(&run(preload(edges(&scratch)).args(["jump-out-of-walks", &jumps])), 0);
    expect_status(&run_profiled_edge(&scratch, &["jump-out-of-walks", &jumps]), 0);
}

/// A daemon closes stderr: the pipe's reader sees its end then, and not only at the daemon's exit.
#[test]
fn a_daemon_can_close_stderr() {
    let scratch = Scratch::new();
    let directory = scratch.directory("served");
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    // The daemon outlives its parent, and its copy of the pipe would too.
    let finished = wait(start(quietly(&mut command).arg("become-daemon").arg(&directory)));
    let ended = directory.join("ended").exists();
    scratch.write("served/release", "");
    expect_status(&finished, 0);
    let daemon = wait_for("the daemon's id", || line_in(&directory.join("pid")));
    wait_for_end(&daemon);
    assert!(!ended, "the daemon held stderr until its end");
}

/// A forked child toggles profiling: it writes its own files.
#[test]
fn a_toggle_in_a_forked_child_writes_its_own_files() {
    let scratch = Scratch::new();
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    let finished =
        run(quietly(&mut command).env("CPUPROFILESIGNAL", "SIGUSR2").arg("toggle-in-forked-child"));
    expect_status(&finished, 0);
    let text = finished.text();
    let child = text.trim().strip_prefix("child ").expect("the program reports its child");
    let names = scratch.names("prof");
    let [first, second, forked] = &names[..] else { panic!("{names:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("prof.0", "prof.1"));
    assert!(forked.starts_with(&format!("prof_{child}.")), "{forked}");
    let counts = [first, second, forked].map(|name| samples_at(&scratch.path(name)));
    assert_eq!(counts, [3, 4, 2]);
}

/// `CPUPROFILESIGNAL` is the signal of a profiling timer: it is refused, and profiling stays off.
#[test]
fn refuses_a_timer_signal_as_toggle_signal() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    for signal in ["SIGPROF", "PROF", "27", "SIGALRM"] {
        let mut command = profiled(&program, &scratch.path("prof"));
        let finished = run(command.env("CPUPROFILESIGNAL", signal).args(["burn", "60", "exit", "3"]));
        expect_status(&finished, 3);
        let [line] = finished.stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("not one line: {:?}", finished.stderr)
        };
        assert!(line.contains(&format!("CPUPROFILESIGNAL={signal}")), "{line}");
        assert_eq!(scratch.names(""), ["app"]);
    }
}

/// The toggle signal is sent to a thread with the smallest possible stack: profiling is toggled.
#[test]
fn toggles_on_a_small_stack() {
    let scratch = Scratch::new();
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    let finished = run(quietly_with_threads(&mut command)
        .env("CPUPROFILESIGNAL", "SIGUSR2")
        .arg("toggle-on-small-stack"));
    expect_status(&finished, 0);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert_eq!(samples_at(&scratch.path("prof.0")), 2);
}

/// A profiled program and those that it starts read their environment: the user's values, as text.
#[test]
fn the_environment_is_unchanged_text() {
    let scratch = Scratch::new();
    let printer = scratch.path("print_environment");
    let mut compiler = tool("rustc");
    compiler.args(["--edition=2024", "-o"]).arg(&printer).arg(program_source("print_environment.rs"));
    run(&mut compiler).expect_success();
    let path = scratch.path("prof");
    // `env` runs the printer with the environment that it has itself.
    for program in [printer.as_os_str(), OsStr::new("env")] {
        let finished = run(profiled(program, &path).arg(&printer));
        expect_status(&finished, 0);
        let expected = assignment("CPUPROFILE", &path);
        assert!(finished.text().lines().any(|line| line == expected), "{}", finished.text());
    }
}
