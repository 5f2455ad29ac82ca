//! Applications at the edges of what programs do: with limits, threads, forks, timers and signals of their own making. They run and
//! end as they would without the library, and the profile is there.

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

/// Runs a case that starts the profiler itself and takes the profile's name, preloaded and linked.
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

/// The thread that ends the program is to be cancelled: it is not, in what we do at the end.
#[test]
fn a_cancelled_thread_may_exit() {
    let scratch = Scratch::new();
    expect_status(&run(plain(edges(&scratch)).arg("cancelled-exit")), 3);
    expect_status(&run_profiled_edge(&scratch, &["cancelled-exit"]), 3);
    Profile::read(&scratch.path("prof"));
}

/// The thread that stops the profiler is to be cancelled: it comes back from the call all the same.
#[test]
fn a_cancelled_thread_may_stop_the_profiler() {
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

/// Forks while other threads use the interface all the time: no child finds a lock that nobody will ever release.
#[test]
fn children_of_a_busy_program_do_not_hang() {
    let scratch = Scratch::new();
    expect_status(&run_profiled_edge(&scratch, &["fork-storm", &rounds(3, 50).to_string()]), 0);
    Profile::read(&scratch.path("prof"));
}

/// The address space that a limit leaves to the program is left to it: what it could allocate, it still can.
#[test]
fn a_limited_address_space_is_left_to_the_program() {
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

/// A child of vfork, which shares the memory, resets the signal for itself: the parent's handler stays.
#[test]
fn a_child_of_vfork_resets_its_own_handler_only() {
    let scratch = Scratch::new();
    expect_status(&run_profiled_edge(&scratch, &["reset-in-vforked-child"]), 0);
    assert_eq!(samples_at(&scratch.path("prof")), 0);
}

/// `signal(SIGPROF, SIG_ERR)` fails as for any other signal.
#[test]
fn an_impossible_handler_is_refused() {
    expect_status(&run_profiled_edge(&Scratch::new(), &["impossible-handler"]), 0);
}

/// After ProfilerStop the application may use the timer of CPU time and its signal for itself.
#[test]
fn the_timer_of_cpu_time_is_the_apps_after_a_stop() {
    run_starting_edge("own-timer-after-a-stop", &[], |scratch, finished| {
        expect_status(finished, 0);
        assert_eq!(samples_at(&scratch.path("prof")), 2);
    });
}

/// So it may before any start.
#[test]
fn the_timer_of_cpu_time_is_the_apps_before_a_start() {
    let scratch = Scratch::new();
    expect_status(&run(preload(edges(&scratch)).arg("own-timer-before-a-start")), 0);
}

/// After a session that used the alarm's timer and signal, the application's alarm works.
#[test]
fn the_alarm_is_the_apps_after_a_stop() {
    run_starting_edge("alarm-after-a-stop", &[("CPUPROFILE_REALTIME", "1")], |scratch, finished| {
        expect_status(finished, 0);
        Profile::read(&scratch.path("prof"));
    });
}

/// A plugin that was loaded and unloaded a hundred times takes no other's room in the list of mapped objects.
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

/// A handler of the application that jumps out of a walk takes nothing of ours with it, however often.
#[test]
fn stacks_are_given_after_jumps_out_of_walks() {
    let scratch = Scratch::new();
    let jumps = rounds(200, 5000).to_string();
    expect_status(&run(preload(edges(&scratch)).args(["jump-out-of-walks", &jumps])), 0);
    expect_status(&run_profiled_edge(&scratch, &["jump-out-of-walks", &jumps]), 0);
}

/// Whoever waits for a daemon to let go of stderr sees that when it does, and not only when it ends.
#[test]
fn a_daemon_lets_go_of_stderr() {
    let scratch = Scratch::new();
    let directory = scratch.directory("served");
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    // The daemon outlives its starter, and its copy of the pipe would too.
    let finished = wait(start(quietly(&mut command).arg("become-daemon").arg(&directory)));
    let ended = directory.join("ended").exists();
    scratch.write("served/release", "");
    expect_status(&finished, 0);
    let daemon = wait_for("the daemon's id", || line_in(&directory.join("pid")));
    wait_for_end(&daemon);
    assert!(!ended, "the daemon held stderr until its end");
}

/// The toggle in a forked child writes files of the child's own.
#[test]
fn a_forked_child_toggles_into_its_own_files() {
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

/// A profiling timer's own signal cannot switch profiling.
#[test]
fn a_timers_signal_is_no_toggle() {
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

/// The toggle comes to a thread with the smallest stack there is.
#[test]
fn a_thread_with_a_small_stack_may_toggle() {
    let scratch = Scratch::new();
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    let finished = run(quietly_with_threads(&mut command)
        .env("CPUPROFILESIGNAL", "SIGUSR2")
        .arg("toggle-on-small-stack"));
    expect_status(&finished, 0);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert_eq!(samples_at(&scratch.path("prof.0")), 2);
}

/// A profiled program finds text in its environment, and what the user wrote there; so do programs that it starts.
#[test]
fn the_environment_stays_text() {
    let scratch = Scratch::new();
    let printer = scratch.path("print_environment");
    let mut compiler = tool("rustc");
    compiler.args(["--edition=2024", "-o"]).arg(&printer).arg(program_source("print_environment.rs"));
    run(&mut compiler).expect_success();
    let path = scratch.path("prof");
    // `env` runs the printer with what it found itself.
    for program in [printer.as_os_str(), OsStr::new("env")] {
        let finished = run(profiled(program, &path).arg(&printer));
        expect_status(&finished, 0);
        let expected = assignment("CPUPROFILE", &path);
        assert!(finished.text().lines().any(|line| line == expected), "{}", finished.text());
    }
}
