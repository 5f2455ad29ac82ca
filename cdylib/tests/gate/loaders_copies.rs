//! Two profilers in one program: copies of the library, or also Debian's gperftools. The signal has
//! one handler and the process one timer: one profiles, and the other prints at most one line.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    Finished, Lack, Linkage, Profile, Scratch, exit_code, plain, quietly_with_threads, run, shared_library,
    skip, tool,
};

const INCUMBENT: &str = "/usr/lib/x86_64-linux-gnu/libprofiler.so.0";

fn loading(scratch: &Scratch) -> PathBuf {
    scratch.compile("loading.c", Linkage::None, &[])
}

/// A copy of the library under test, as another file with the given name.
fn copy(scratch: &Scratch, directory: &str, name: &str) -> PathBuf {
    let path = scratch.directory(directory).join(name);
    std::fs::copy(shared_library(), &path).expect("the library can be copied");
    path
}

/// A copy of Debian's library, or `None` if it is not installed.
fn incumbent(scratch: &Scratch) -> Option<PathBuf> {
    let path = scratch.path("incumbent.so");
    if std::fs::copy(INCUMBENT, &path).is_err() {
        skip(Lack::Tool, format_args!("no {INCUMBENT}"));
        return None;
    }
    Some(path)
}

/// `program` in a directory for output. The timer does not expire in the first second of CPU time.
fn command(scratch: &Scratch, program: &Path, orders: &str) -> Command {
    let mut command = plain(program);
    command.env("CPUPROFILE_FREQUENCY", "1").current_dir(out(scratch)).args(orders.split(' '));
    command
}

fn out(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("out");
    if path.exists() { path } else { scratch.directory("out") }
}

fn preload<const N: usize>(command: &mut Command, libraries: [&Path; N]) {
    let libraries: Vec<&str> = libraries.iter().map(|path| path.to_str().expect("a plain path")).collect();
    command.env("LD_PRELOAD", libraries.join(" ")).env("CPUPROFILE", "prof");
}

/// Panics unless the application printed "hello" and exited with status 3, and there is one profile
/// with `ticks` samples and `lines` diagnostics.
#[track_caller]
fn expect_one_profile(scratch: &Scratch, finished: &Finished, ticks: usize, lines: usize, what: &str) {
    let text = finished.text();
    let ended = (exit_code(finished.status), text.lines().last());
    assert_eq!(ended, (3, Some("hello")), "{what}: the application was harmed: {}", finished.stderr);
    let names = crate::support::names_in(&out(scratch), "");
    assert_eq!(names, ["prof"], "{what}: not one profile: {}", finished.stderr);
    let found = Profile::read(&out(scratch).join("prof")).samples();
    assert_eq!(found, ticks, "{what}: the application lost ticks: {}", finished.stderr);
    assert_eq!(
        (finished.end_lines(), finished.complaints().len()),
        (1, lines),
        "{what}: {}",
        finished.stderr
    );
}

/// Two copies of the library are preloaded: one profiles, and a diagnostic names the other.
#[test]
fn one_of_two_preloaded_copies_profiles() {
    for name in ["libprofiler.so.0", "another.so"] {
        for turned in [false, true] {
            let scratch = Scratch::new();
            let other = copy(&scratch, "elsewhere", name);
            let pair = if turned { [other.as_path(), shared_library()] } else { [shared_library(), &other] };
            let mut command = command(&scratch, &loading(&scratch), "tick 20 print hello exit 3");
            preload(&mut command, pair);
            let finished = run(&mut command);
            expect_one_profile(&scratch, &finished, 20, 1, &format!("{pair:?}"));
            let line = finished.complaints()[0];
            assert!(pair.iter().all(|path| line.contains(path.to_str().expect("plain"))), "{line}");
        }
    }
}

/// One file is preloaded by its path and a symbolic link: it is loaded once, without diagnostics.
#[test]
fn one_file_preloaded_by_two_paths_is_loaded_once() {
    let scratch = Scratch::new();
    let link = scratch.path("link.so");
    std::os::unix::fs::symlink(shared_library(), &link).expect("a symbolic link");
    let mut command = command(&scratch, &loading(&scratch), "tick 20 print hello exit 3");
    preload(&mut command, [&link, shared_library()]);
    expect_one_profile(&scratch, &run(&mut command), 20, 0, "a link");
}

/// The library and gperftools' are preloaded in either order: the only profile has all ticks.
#[test]
fn one_profiles_if_preloaded_with_gperftools() {
    for turned in [false, true] {
        let scratch = Scratch::new();
        let Some(other) = incumbent(&scratch) else { return };
        let pair = if turned { [other.as_path(), shared_library()] } else { [shared_library(), &other] };
        let mut command = command(&scratch, &loading(&scratch), "tick 20 print hello exit 3");
        preload(&mut command, pair);
        let finished = run(&mut command);
        expect_one_profile(&scratch, &finished, 20, 1, &format!("{pair:?}"));
    }
}

/// A program is linked with one of the two, and the other is preloaded: one is loaded.
#[test]
fn one_profiles_if_linked_and_the_other_preloaded() {
    let scratch = Scratch::new();
    let Some(other) = incumbent(&scratch) else { return };
    let linked = scratch.compile("loading.c", Linkage::Shared, &[]);
    let mut command = command(&scratch, &linked, "tick 20 print hello exit 3");
    preload(&mut command, [&other]);
    expect_one_profile(&scratch, &run(&mut command), 20, 0, "linked with the library under test");

    let linked = scratch.path("linked");
    let mut compiler = tool("gcc");
    compiler
        .arg(crate::support::program_source("loading.c"))
        .arg("-I")
        .arg(crate::support::system_header_directory());
    compiler.args(["-Wl,--no-as-needed", INCUMBENT, "-lpthread", "-ldl", "-o"]).arg(&linked);
    run(&mut compiler).expect_success();
    let mut command = self::command(&scratch, &linked, "tick 20 print hello exit 3");
    preload(&mut command, [shared_library()]);
    expect_one_profile(&scratch, &run(&mut command), 20, 0, "linked with gperftools'");
}

/// A program contains the static library, and exports its names or not, and the shared one is
/// preloaded: one of them profiles.
#[test]
fn one_profiles_if_in_the_program_and_preloaded() {
    for flags in [&["-Wl,-u,ProfilerStart"][..], &["-Wl,-u,ProfilerStart", "-rdynamic"]] {
        let scratch = Scratch::new();
        let program = scratch.compile("loading.c", Linkage::Static, flags);
        let mut command = command(&scratch, &program, "tick 20 print hello exit 3");
        preload(&mut command, [shared_library()]);
        expect_one_profile(&scratch, &run(&mut command), 20, 1, &format!("{flags:?}"));
    }
}

/// A program under the profiler opens a second copy, in its namespace or another, and tries to
/// start it: each is refused with a diagnostic, and the first one's profile has all ticks.
#[test]
fn a_copy_opened_under_the_profiler_is_refused() {
    for mode in ["local", "global", "deep", "apart"] {
        let scratch = Scratch::new();
        let other = copy(&scratch, "elsewhere", "libprofiler.so.0");
        let orders = format!("tick 5 open {} {mode} tick 5 start second tick 5", other.display());
        let orders = format!("{orders} stop close tick 5 print hello exit 3");
        let mut command = command(&scratch, &loading(&scratch), &orders);
        preload(&mut command, [shared_library()]);
        let finished = run(&mut command);
        expect_one_profile(&scratch, &finished, 20, 2, mode);
        assert_eq!(
            finished.text(),
            "started 0\nhello\n",
            "{mode}: the application was told that it is profiled twice"
        );
    }
}

/// A program opens two copies and starts the second one, during or after the first one's session:
/// it is refused, and a diagnostic names the handler's file.
#[test]
fn a_second_copy_is_refused() {
    for stop in ["", "tick 5 stop "] {
        let scratch = Scratch::new();
        let other = copy(&scratch, "elsewhere", "libprofiler.so.0");
        let library = shared_library().display();
        let orders = format!(
            "open {library} local start prof tick 5 {stop}open {} local start second",
            other.display()
        );
        let orders = format!("{orders} tick 5 print hello exit 3");
        let finished = run(&mut command(&scratch, &loading(&scratch), &orders));
        expect_one_profile(&scratch, &finished, 10, 1, stop);
        assert_eq!(finished.text(), "started 1\nstarted 0\nhello\n");
        let line = finished.complaints()[0];
        assert!(
            line.contains("second") && line.contains(shared_library().to_str().expect("plain")),
            "{line}"
        );
    }
}

/// A program under the profiler opens gperftools' library, which starts too: the profile at the
/// common path is valid and has the application's time.
#[test]
fn gperftools_opened_under_the_profiler_keeps_the_profile() {
    let scratch = Scratch::new();
    let Some(other) = incumbent(&scratch) else { return };
    let orders = format!("burn 5 open {} local default burn 10 print hello exit 3", other.display());
    let mut command = command(&scratch, &loading(&scratch), &orders);
    preload(&mut command, [shared_library()]);
    let finished = run(command.env("CPUPROFILE_FREQUENCY", "100"));
    assert_eq!((exit_code(finished.status), finished.text().as_str()), (3, "hello\n"), "{}", finished.stderr);
    assert_eq!(crate::support::names_in(&out(&scratch), ""), ["prof"], "{}", finished.stderr);
    let found = Profile::read(&out(&scratch).join("prof")).samples();
    assert!(found >= 10, "the application lost all but {found} of its samples: {}", finished.stderr);
}

/// A program under gperftools opens the library: it is refused with a diagnostic.
#[test]
fn is_refused_under_gperftools() {
    let scratch = Scratch::new();
    let Some(other) = incumbent(&scratch) else { return };
    let library = shared_library().display();
    let orders = format!("tick 5 open {library} local tick 5 start second close tick 5 print hello exit 3");
    let mut command = command(&scratch, &loading(&scratch), &orders);
    preload(&mut command, [&other]);
    let finished = run(&mut command);
    expect_one_profile(&scratch, &finished, 15, 2, "opened under gperftools");
    assert!(finished.text().starts_with("started 0\n"), "the application was told that it is profiled twice");
}

/// The program of the test below, which contains the crate: it runs this test in its own process.
#[test]
fn program_with_the_crate() {
    let Some(path) = std::env::var_os("CRATE_PROFILE") else { return };
    let started =
        sigprof::Profiler::builder().clock(sigprof::Clock::Itimer).frequency(1).start(Path::new(&path));
    for _ in 0..5 {
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGPROF).expect("it is handled");
    }
    match started {
        Ok(profiler) => println!("profiled {}", profiler.stop().expect("a summary").samples),
        Err(sigprof::Error::HandlerTaken { .. }) => println!("refused"),
        Err(error) => panic!("{error}"),
    }
}

/// A program that contains the crate runs under the preloaded library: the crate returns an error
/// during the library's session, and otherwise profiles.
#[test]
fn the_crate_is_refused_under_the_library() {
    let program = std::env::current_exe().expect("this program");
    for (variable, outcome, name) in [("CPUPROFILE", "refused", "prof"), ("UNUSED", "profiled 5", "of-crate")]
    {
        let scratch = Scratch::new();
        let mut command =
            command(&scratch, &program, "--exact loaders_copies::program_with_the_crate --nocapture");
        preload(&mut command, [shared_library()]);
        quietly_with_threads(&mut command).env_remove("CPUPROFILE");
        command.env(variable, "prof").env("CRATE_PROFILE", "of-crate");
        let finished = run(&mut command).expect_success();
        let text = finished.text();
        assert!(text.lines().any(|line| line == outcome), "{variable}: not {outcome:?}: {text}");
        assert_eq!(crate::support::names_in(&out(&scratch), ""), [name], "{variable}: {}", finished.stderr);
        assert_eq!(Profile::read(&out(&scratch).join(name)).samples(), 5, "{variable}: {}", finished.stderr);
    }
}
