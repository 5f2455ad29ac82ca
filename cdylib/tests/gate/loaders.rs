//! Programs that open the library late, close it, open it again, or load it in a namespace or
//! inside a plugin. The kernel and libc hold addresses of its functions, so it must stay mapped.

use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(target_arch = "x86_64")]
use crate::support::unloading::{Settings, run_unseen_unloading};
use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, plain, quietly, quietly_with_threads, run, shared_library,
};

fn loading(scratch: &Scratch) -> PathBuf {
    scratch.compile("loading.c", Linkage::None, &[])
}

/// `programs/loading.c` with `orders`, in which LIBRARY, PLUGIN and PROF are replaced by
/// paths. The timer does not expire in the first second of CPU time.
fn command(scratch: &Scratch, program: &Path, orders: &str) -> Command {
    let mut command = plain(program);
    if orders.contains("thread ") {
        quietly_with_threads(&mut command)
    } else {
        quietly(&mut command)
    };
    for word in orders.split(' ') {
        match word {
            "LIBRARY" => command.arg(shared_library()),
            "PLUGIN" => command.arg(scratch.path("libprofiled_plugin.so")),
            "PROF" => command.arg(scratch.path("prof")),
            word => command.arg(word),
        };
    }
    command
}

fn run_orders(scratch: &Scratch, program: &Path, orders: &str) -> Finished {
    run(&mut command(scratch, program, orders))
}

#[track_caller]
fn expect_status(finished: &Finished, status: i32, what: &str) {
    let text = finished.text();
    assert_eq!(
        exit_code(finished.status),
        status,
        "{what}: the application was harmed: {} {text}",
        finished.stderr
    );
}

#[track_caller]
fn samples(scratch: &Scratch) -> usize {
    Profile::read(&scratch.path("prof")).samples()
}

/// A program opens the library, profiles, and closes it, a hundred times in each mode, and gets
/// signals afterwards: each session has its profile, and no signal runs unmapped code.
#[test]
fn can_be_opened_and_closed_a_hundred_times() {
    for (mode, place) in [("local", ""), ("global", ""), ("deep", ""), ("local", "thread ")] {
        let scratch = Scratch::new();
        let program = loading(&scratch);
        let orders = format!("{place}times 100 open LIBRARY {mode} start PROF tick 3 stop close tick 2");
        let finished = run_orders(&scratch, &program, &orders);
        expect_status(&finished, 0, mode);
        assert_eq!(finished.text(), "started 1\n".repeat(100), "{mode}");
        assert_eq!((finished.end_lines(), finished.complaints()), (100, vec![]), "{mode}");
        assert_eq!(samples(&scratch), 3, "{mode}");
    }
}

/// A program closes the library during a session: it continues, and its profile is complete.
#[test]
fn can_be_closed_during_a_session() {
    for (mode, place) in [("local", ""), ("global", ""), ("deep", ""), ("apart", ""), ("local", "thread ")] {
        let scratch = Scratch::new();
        let program = loading(&scratch);
        let orders = format!("{place}open LIBRARY {mode} start PROF tick 3 close tick 2 exit 3");
        let finished = run_orders(&scratch, &program, &orders);
        expect_status(&finished, 3, mode);
        assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{mode}");
        assert_eq!(samples(&scratch), 5, "{mode}");
    }
}

/// `CPUPROFILE` is set when a program opens the library: it is profiled until it exits, although it
/// closes and opens the library.
#[test]
fn profiles_a_program_that_opens_it_with_cpuprofile_set() {
    let scratch = Scratch::new();
    let orders = "open LIBRARY local tick 3 close tick 2 times 9 open LIBRARY local tick 1 close";
    let mut command = command(&scratch, &loading(&scratch), orders);
    let finished = run(command.env("CPUPROFILE", scratch.path("prof")));
    expect_status(&finished, 0, "opened again");
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert_eq!(samples(&scratch), 14);
}

/// A program forks after it closed the library: the child survives signals and exits, and the
/// parent's profile is intact.
#[test]
fn a_program_can_fork_after_it_closed_the_library() {
    for mode in ["local", "apart"] {
        let scratch = Scratch::new();
        let orders = format!("open LIBRARY {mode} start PROF tick 3 close fork tick 2 exit 0");
        let finished = run_orders(&scratch, &loading(&scratch), &orders);
        expect_status(&finished, 0, mode);
        assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{mode}");
        assert_eq!((samples(&scratch), scratch.names("prof")), (5, vec!["prof".to_owned()]), "{mode}");
    }
}

/// A program loads the library in two namespaces: the second is refused with a diagnostic, because
/// the signal has one handler; the first one's profile is complete.
#[test]
fn a_second_namespace_is_refused() {
    let scratch = Scratch::new();
    let orders = "open LIBRARY apart start PROF tick 3 open LIBRARY apart start /nowhere/prof tick 2 exit 3";
    let finished = run_orders(&scratch, &loading(&scratch), orders);
    expect_status(&finished, 3, "two namespaces");
    assert_eq!(finished.text(), "started 1\nstarted 0\n", "the application was told that it is profiled");
    let [line] = finished.complaints()[..] else { panic!("not one line: {}", finished.stderr) };
    let file = shared_library().to_str().expect("a plain path");
    assert!(line.contains("/nowhere/prof") && line.contains(file), "{line}");
    assert_eq!((finished.end_lines(), samples(&scratch)), (1, 5));
}

/// A program with several threads opens the library with `CPUPROFILE` set: the environment, which
/// they may be reading, is not moved.
#[test]
fn the_environment_of_threads_is_not_moved() {
    let scratch = Scratch::new();
    let orders = "beside open LIBRARY local environment CPUPROFILE_USE_PID tick 2 exit 3";
    let mut command = command(&scratch, &loading(&scratch), orders);
    let finished = run(command.env("CPUPROFILE", scratch.path("prof")));
    expect_status(&finished, 3, orders);
    assert_eq!(finished.text(), "CPUPROFILE_USE_PID is not set\n", "the environment was moved");
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert!(samples(&scratch) >= 2, "the application lost its profile");
}

fn plugin(scratch: &Scratch) {
    scratch.compile_library_with("profiled_plugin.c", Linkage::Static, &[]);
}

/// An application closes a plugin that contains the static library, during, after or before a
/// session: later signals run the handler, and the profile is complete.
#[test]
fn a_plugin_with_the_static_library_can_be_closed() {
    let cases = [
        ("open PLUGIN local call begin tick 3 close tick 2 exit 3", 5),
        ("open PLUGIN local call begin tick 3 call end close tick 2 exit 3", 3),
        ("times 50 open PLUGIN local call begin tick 3 call end close tick 2", 3),
        ("thread open PLUGIN deep call begin tick 3 close tick 2 exit 3", 5),
    ];
    for (orders, expected) in cases {
        let scratch = Scratch::new();
        plugin(&scratch);
        let mut command = command(&scratch, &loading(&scratch), orders);
        let finished = run(command.env("PLUGIN_PROFILE", scratch.path("prof")));
        expect_status(&finished, if orders.contains("exit") { 3 } else { 0 }, orders);
        assert_eq!(finished.complaints(), Vec::<&str>::new(), "{orders}");
        assert_eq!(samples(&scratch), expected, "{orders}");
    }
}

/// An application opens and closes such a plugin with `CPUPROFILE` set: it is profiled.
#[test]
fn a_plugin_profiles_its_application_by_the_environment() {
    let scratch = Scratch::new();
    plugin(&scratch);
    let orders = "open PLUGIN local tick 3 close tick 2 exit 3";
    let finished = run(command(&scratch, &loading(&scratch), orders).env("CPUPROFILE", scratch.path("prof")));
    expect_status(&finished, 3, orders);
    assert_eq!((finished.end_lines(), samples(&scratch)), (1, 5));
}

/// A program opens the library, then opens and closes others unseen by it, with ticks in each: no
/// stack is walked by rules of an earlier library.
#[test]
#[cfg(target_arch = "x86_64")]
fn other_libraries_can_be_unloaded_unseen() {
    let scratch = Scratch::new();
    let settings = Settings { frequency: 1, rounds: 50, order: "calm" };
    let (_, profile) = run_unseen_unloading(&scratch, &settings);
    // Ticks: while it is loaded, in it, in a function that it calls, and while it is unloaded.
    assert_eq!(profile.samples(), 4 * (50 + 2));
}
