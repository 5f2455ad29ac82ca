//! Hosts at the edges of what programs do: with broken descriptors and odd files, with stacks, threads, forks and
//! signals of their own making. They run and end as they would without the library, and the profile is there.

mod support;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{
    Finished, Linkage, Mapping, Profile, Record, Root, Scratch, Symbolizer, exit_code, plain, preload,
    profiled, repository_root, run, shared_library, start, tool, wait,
};

/// What makes a profile larger than a pipe: chains that differ, each half as large.
const LARGE_PROFILE: [&str; 15] =
    ["deep", "4000", "1", "deep", "3999", "1", "deep", "3998", "1", "deep", "3997", "1", "deep", "3996", "1"];

fn host(scratch: &Scratch) -> PathBuf {
    scratch.compile("host.c", Linkage::None, &[])
}

fn edges(scratch: &Scratch) -> PathBuf {
    scratch.compile("edges.c", Linkage::None, &[])
}

/// Adds the variables that turn the profiler on; its timer stays silent for the first second of CPU time.
fn quietly(command: &mut Command) -> &mut Command {
    command.env("CPUPROFILE_FREQUENCY", "1")
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

/// Runs `program` under the profiler with one descriptor a pipe that is `state`: `full` or `closed`.
fn with_pipe(scratch: &Scratch, state: &str, descriptor: u32, program: &Path, profile: &Path) -> Command {
    let mut command = plain(scratch.compile("with_pipe.c", Linkage::None, &[]));
    command.args([state, &descriptor.to_string(), "env"]);
    command
        .arg(assignment("LD_PRELOAD", shared_library()))
        .arg(assignment("CPUPROFILE", profile))
        .arg(program);
    command
}

/// Runs `program` under the profiler in a shell that first does what `preparation` says.
fn in_shell(preparation: &str, program: &Path, profile: &Path) -> Command {
    let script = format!(
        "{preparation}; LD_PRELOAD=$1 CPUPROFILE=$2; export LD_PRELOAD CPUPROFILE; shift 2; exec \"$@\""
    );
    let mut command = plain("sh");
    command.args(["-c", &script, "sh"]).arg(shared_library()).arg(profile).arg(program);
    command
}

fn assignment(name: &str, value: &Path) -> String {
    format!("{name}={}", value.display())
}

#[track_caller]
fn expect_status(finished: &Finished, status: i32) {
    let text = finished.text();
    assert_eq!(exit_code(finished.status), status, "stdout: {text}\nstderr: {}", finished.stderr);
}

/// Panics unless standard error is one line with the path and the reason.
#[track_caller]
fn expect_one_line(finished: &Finished, path: &Path, reason: &str) {
    let [line] = finished.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("not one line: {:?}", finished.stderr)
    };
    assert!(line.contains(path.to_str().expect("a path in UTF-8")), "no path in: {line}");
    assert!(line.to_lowercase().contains(reason), "not {reason:?}: {line}");
}

#[track_caller]
fn samples(path: &Path) -> usize {
    Profile::read(path).samples()
}

/// Nobody reads stderr any more: the line that cannot be written raises no SIGPIPE.
#[test]
fn a_reader_of_stderr_that_is_gone_changes_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let finished =
        run(with_pipe(&scratch, "closed", 2, &host(&scratch), &path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    Profile::read(&path);
}

/// Stderr is a full pipe: the line is left out, and the program ends.
#[test]
fn a_full_pipe_on_stderr_is_not_waited_for() {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let finished =
        run(with_pipe(&scratch, "full", 2, &host(&scratch), &path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    Profile::read(&path);
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
        assert_eq!(samples(&scratch.path("prof")), 2);
    });
}

/// CPUPROFILE names a pipe by its descriptor, and the pipe takes nothing: given up within seconds, with one line.
#[test]
fn a_full_pipe_for_a_profile_is_given_up() {
    let scratch = Scratch::new();
    let path = Path::new("/dev/fd/9");
    let finished =
        run(with_pipe(&scratch, "full", 9, &host(&scratch), path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, path, "timed out");
}

/// A named pipe that a test holds open at both ends, so that neither opening it nor reading it waits for the other.
fn named_pipe(scratch: &Scratch) -> (PathBuf, File) {
    let path = scratch.path("pipe");
    run(tool("mkfifo").arg(&path)).expect_success();
    let both_ends = OpenOptions::new().read(true).write(true).open(&path).expect("the pipe is ours");
    (path, both_ends)
}

/// CPUPROFILE names a FIFO whose reader does not read: given up when it is full.
#[test]
fn a_named_pipe_that_nobody_empties_is_given_up() {
    let scratch = Scratch::new();
    let (path, _never_read) = named_pipe(&scratch);
    let mut command = profiled(host(&scratch), &path);
    let finished = run(quietly(&mut command)
        .env("CPUPROFILE_MAX_DEPTH", "4096")
        .args(LARGE_PROFILE)
        .args(["exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, &path, "timed out");
}

/// CPUPROFILE names a FIFO that nobody has opened for reading: refused at once, since opening it would wait.
#[test]
fn a_named_pipe_without_a_reader_is_given_up() {
    let scratch = Scratch::new();
    let (path, both_ends) = named_pipe(&scratch);
    drop(both_ends);
    let finished = run(profiled(host(&scratch), &path).args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, &path, "no such device");
}

/// CPUPROFILE names a FIFO with a reader: it gets the whole profile, though that is larger than the pipe.
#[test]
fn a_named_pipe_with_a_reader_gets_the_whole_profile() {
    let scratch = Scratch::new();
    let (path, both_ends) = named_pipe(&scratch);
    let mut reader = File::open(&path).expect("the pipe is ours");
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    let mut command = profiled(host(&scratch), &path);
    let finished = run(quietly(&mut command)
        .env("CPUPROFILE_MAX_DEPTH", "4096")
        .args(LARGE_PROFILE)
        .args(["exit", "3"]));
    // The last writer goes: the reader sees the end.
    drop(both_ends);
    let bytes = reading.join().expect("the reader does not panic").expect("a pipe can be read");
    expect_status(&finished, 3);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert!(bytes.len() > 1 << 16, "{} bytes fit into a pipe", bytes.len());
    assert_eq!(samples(&scratch.write("prof", bytes)), 5);
}

/// Forks while other threads use the interface all the time: no child finds a lock that nobody will ever release.
#[test]
fn children_of_a_busy_program_do_not_hang() {
    let scratch = Scratch::new();
    expect_status(&run_profiled_edge(&scratch, &["fork-storm", "50"]), 0);
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
    assert_eq!(samples(&scratch.path("prof")), 0);
}

/// `signal(SIGPROF, SIG_ERR)` fails as for any other signal.
#[test]
fn an_impossible_handler_is_refused() {
    expect_status(&run_profiled_edge(&Scratch::new(), &["impossible-handler"]), 0);
}

/// CPUPROFILE leads to the file that the program's own output goes to: refused, and the output is all there.
#[test]
fn the_programs_own_output_is_not_overwritten() {
    let scratch = Scratch::new();
    let program = host(&scratch);
    let output = scratch.path("output");
    for path in [Path::new("/dev/stdout"), Path::new("/dev/fd/1"), &output] {
        let preparation = format!("exec > '{}'", output.display());
        let mut command = in_shell(&preparation, &program, path);
        let finished = run(command.args(["print", "before", "burn", "60", "print", "after", "exit", "3"]));
        expect_status(&finished, 3);
        expect_one_line(&finished, path, "output");
        assert_eq!(fs::read_to_string(&output).expect("the output is there"), "before\nafter\n");
        assert_eq!(scratch.names(""), ["host", "output"]);
    }
}

/// A symbolic link stays a link; the file behind it, and behind another one, holds the profile.
#[test]
fn the_file_behind_a_link_is_written() {
    let scratch = Scratch::new();
    let program = host(&scratch);
    scratch.directory("far");
    let target = scratch.write("far/target", "old");
    symlink("far/target", scratch.path("near")).expect("our own directory");
    symlink(scratch.path("near"), scratch.path("link")).expect("our own directory");
    for name in ["near", "link"] {
        fs::write(&target, "old").expect("our own file");
        let finished =
            run(quietly(&mut profiled(&program, &scratch.path(name))).args(["raise", "3", "PROF"]));
        expect_status(&finished, 0);
        assert_eq!(samples(&target), 3, "{name}");
    }
    assert_eq!(fs::read_link(scratch.path("near")).expect("still a link"), Path::new("far/target"));
    assert_eq!(fs::read_link(scratch.path("link")).expect("still a link"), scratch.path("near"));
    assert_eq!(fs::read_dir(scratch.path("far")).expect("our own directory").count(), 1);
}

/// A link to a file that is not there yet: the file is made.
#[test]
fn the_missing_file_behind_a_link_is_created() {
    let scratch = Scratch::new();
    let link = scratch.path("link");
    symlink("target", &link).expect("our own directory");
    expect_status(&run(quietly(&mut profiled(host(&scratch), &link)).args(["raise", "3", "PROF"])), 0);
    assert_eq!(fs::read_link(&link).expect("still a link"), Path::new("target"));
    assert_eq!(samples(&scratch.path("target")), 3);
    assert_eq!(scratch.names(""), ["host", "link", "target"]);
}

/// The profile does not fit: the file behind the link is the old one, whole, or is not there.
#[test]
fn a_profile_that_does_not_fit_leaves_no_part_behind_a_link() {
    for old in [None, Some("old")] {
        let scratch = Scratch::new();
        let program = host(&scratch);
        let (link, target) = (scratch.path("link"), scratch.path("target"));
        symlink("target", &link).expect("our own directory");
        if let Some(old) = old {
            scratch.write("target", old);
        }
        let finished = run(in_shell("ulimit -f 1", &program, &link).args(["burn", "60", "exit", "3"]));
        expect_status(&finished, 3);
        expect_one_line(&finished, &link, "file too large");
        let left = fs::read(&target).ok();
        assert!(
            left.as_deref() == old.map(str::as_bytes),
            "{} bytes are left",
            left.map_or(0, |left| left.len())
        );
        let names = ["host", "link", "target"];
        assert_eq!(scratch.names(""), names[..if old.is_some() { 3 } else { 2 }]);
    }
}

/// A file that the user may not write, in a directory where another could take its place: it stays as it is.
#[test]
fn a_read_only_file_is_not_replaced() {
    let scratch = Scratch::new();
    let program = host(&scratch);
    let path = scratch.write("prof", "old");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("our own file");
    fs::set_permissions(scratch.root(), Permissions::from_mode(0o777)).expect("our own directory");
    let Some(mut command) = as_ordinary_user(&scratch, &program, &path) else {
        println!("skipped: no setpriv to become a user whom permissions bind");
        return;
    };
    let finished = run(command.args(["burn", "60", "exit", "3"]));
    expect_status(&finished, 3);
    expect_one_line(&finished, &path, "permission denied");
    assert_eq!(fs::read_to_string(&path).expect("the file is there"), "old");
}

/// The program with the profiler, run by a user whom permissions bind: by nobody, when the tests run as root.
fn as_ordinary_user(scratch: &Scratch, program: &Path, profile: &Path) -> Option<Command> {
    if !nix::unistd::geteuid().is_root() {
        return Some(profiled(program, profile));
    }
    if !Path::new("/usr/bin/setpriv").exists() {
        return None;
    }
    // A copy, since the build's own folder may be closed to others.
    let library = scratch.path("libprofiler.so.0");
    fs::copy(shared_library(), &library).expect("the library can be copied");
    let mut command = plain("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "env"]);
    command.arg(assignment("LD_PRELOAD", &library)).arg(assignment("CPUPROFILE", profile)).arg(program);
    Some(command)
}

/// A profile that takes the place of a file has that file's permissions.
#[test]
fn permissions_of_an_existing_file_are_kept() {
    let scratch = Scratch::new();
    let program = host(&scratch);
    let path = scratch.write("prof", "old");
    for mode in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our own file");
        expect_status(&run(quietly(&mut profiled(&program, &path)).args(["raise", "3", "PROF"])), 0);
        let permissions = fs::metadata(&path).expect("the file is there").permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
        assert_eq!(samples(&path), 3);
    }
}

/// Alternate stacks that have room for little more than the kernel's own frame, or less: no tick uses them.
#[test]
fn small_alternate_stacks_are_not_used() {
    let scratch = Scratch::new();
    let linked = scratch.compile("signal_stacks.c", Linkage::Shared, &[]);
    for size in ["2048", "3072", "3584", "4096"] {
        for when in ["before", "after"] {
            for mut command in [plain(&linked), preload(&linked)] {
                let path = scratch.path(&format!("prof-{size}-{when}"));
                let finished = run(quietly(&mut command).arg(&path).args([size, when]));
                println!("{size} bytes, {when} the start");
                expect_status(&finished, 0);
                let sent: usize = finished.text().trim().parse().expect("the number of ticks");
                assert!(samples(&path) >= sent);
            }
        }
    }
}

/// After ProfilerStop the host may use the timer of CPU time and its signal for itself.
#[test]
fn the_timer_of_cpu_time_is_the_hosts_after_a_stop() {
    run_starting_edge("own-timer-after-a-stop", &[], |scratch, finished| {
        expect_status(finished, 0);
        assert_eq!(samples(&scratch.path("prof")), 2);
    });
}

/// So it may before any start.
#[test]
fn the_timer_of_cpu_time_is_the_hosts_before_a_start() {
    let scratch = Scratch::new();
    expect_status(&run(preload(edges(&scratch)).arg("own-timer-before-a-start")), 0);
}

/// After a session that used the alarm's timer and signal, the host's alarm works.
#[test]
fn the_alarm_is_the_hosts_after_a_stop() {
    run_starting_edge("alarm-after-a-stop", &[("CPUPROFILE_REALTIME", "1")], |scratch, finished| {
        expect_status(finished, 0);
        Profile::read(&scratch.path("prof"));
    });
}

/// Links `programs/static_program.c` with the static library and without the dynamic loader.
fn compile_static(scratch: &Scratch, flags: &[&str]) -> PathBuf {
    let program = scratch.path("static_program");
    let mut compiler = tool("gcc");
    compiler.args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra"]).args(flags);
    compiler.arg("-I").arg(repository_root().join("include")).arg(committed("static_program.c"));
    compiler.arg(shared_library().with_file_name("libprofiler.a"));
    compiler.args(["-lutil", "-lrt", "-lm", "-lpthread", "-ldl", "-o"]).arg(&program);
    run(&mut compiler).expect_success();
    program
}

fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Runs the static program, which profiles itself, and panics unless all chains lead to its entry point.
#[track_caller]
fn expect_whole_chains_in_a_static_program(flags: &[&str]) {
    let scratch = Scratch::new();
    let path = scratch.path("prof");
    let finished = run(quietly(&mut plain(compile_static(&scratch, flags))).arg(&path));
    expect_status(&finished, 0);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    let profile = Profile::read(&path);
    assert_eq!(profile.samples(), 10);
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        let chain = ["innermost", "middle", "outermost", "main"];
        assert!(symbols.calls(&profile, record, &chain), "{names:?}");
        assert_eq!(symbols.root(&profile, record), Root::Process, "{names:?}");
    }
}

/// Linked with `-static`, which leaves no index of the call frame information: whole chains all the same.
#[test]
fn a_static_programs_chains_are_whole() {
    expect_whole_chains_in_a_static_program(&["-static"]);
}

/// Linked with `-static` and an index of the call frame information: whole chains.
#[test]
fn an_indexed_static_programs_chains_are_whole() {
    expect_whole_chains_in_a_static_program(&["-static", "-Wl,--eh-frame-hdr"]);
}

/// Linked with `-static-pie`, which has that index unless told otherwise: whole chains, wherever the program is loaded.
#[test]
fn a_static_program_that_is_loaded_anywhere_has_whole_chains() {
    expect_whole_chains_in_a_static_program(&["-static-pie"]);
    expect_whole_chains_in_a_static_program(&["-static-pie", "-Wl,--no-eh-frame-hdr"]);
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

/// A handler of the host that jumps out of a walk takes nothing of ours with it, however often.
#[test]
fn stacks_are_given_after_jumps_out_of_walks() {
    let scratch = Scratch::new();
    expect_status(&run(preload(edges(&scratch)).args(["jump-out-of-walks", "5000"])), 0);
    expect_status(&run_profiled_edge(&scratch, &["jump-out-of-walks", "5000"]), 0);
}

/// Runs a case of `programs/switched_stacks.c`, and gives its profile: one tick in each of a hundred rounds.
#[track_caller]
fn profile_on_switched_stack(scratch: &Scratch, case: &str) -> Profile {
    let program = scratch.compile("switched_stacks.c", Linkage::None, &[]);
    let finished = run(quietly(&mut profiled(program, &scratch.path("prof"))).arg(case));
    expect_status(&finished, 0);
    let profile = Profile::read(&scratch.path("prof"));
    assert_eq!(profile.samples(), 100, "{case}");
    profile
}

/// The chains of a coroutine lead to its entry function, and end as the C library's call frame information says.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_coroutines_chains_lead_to_its_entry() {
    let scratch = Scratch::new();
    let profile = profile_on_switched_stack(&scratch, "coroutine");
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        assert!(symbols.calls(&profile, record, &["tick", "nested", "coroutine_entry"]), "{names:?}");
        let behind = names.iter().skip_while(|name| !name.contains("coroutine_entry")).skip(1);
        let is_start = |name: &String| name.contains("start_context") || name.contains("libc.so");
        assert!(behind.clone().count() <= 1 && behind.clone().all(is_start), "{names:?}");
    }
}

/// Code that moved the stack pointer itself is walked by what it says about that, to the thread's beginning.
#[test]
#[cfg(target_arch = "x86_64")]
fn chains_lead_from_one_stack_to_another() {
    for case in ["above", "below"] {
        let scratch = Scratch::new();
        let profile = profile_on_switched_stack(&scratch, case);
        let mut symbols = Symbolizer::default();
        for record in &profile.records {
            expect_switched_chain(&mut symbols, &profile, record);
        }
    }
}

#[track_caller]
fn expect_switched_chain(symbols: &mut Symbolizer, profile: &Profile, record: &Record) {
    let names = symbols.names(profile, record);
    let chain = ["tick", "nested", "switching_entry", "call_on_stack", "switch_stack"];
    assert!(symbols.calls(profile, record, &chain), "{names:?}");
    assert!(matches!(symbols.root(profile, record), Root::LibC(_)), "{names:?}");
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
    let counts = [first, second, forked].map(|name| samples(&scratch.path(name)));
    assert_eq!(counts, [3, 4, 2]);
}

/// A profiling timer's own signal cannot switch profiling.
#[test]
fn a_timers_signal_is_no_toggle() {
    let scratch = Scratch::new();
    let program = host(&scratch);
    for signal in ["SIGPROF", "PROF", "27", "SIGALRM"] {
        let mut command = profiled(&program, &scratch.path("prof"));
        let finished = run(command.env("CPUPROFILESIGNAL", signal).args(["burn", "60", "exit", "3"]));
        expect_status(&finished, 3);
        let [line] = finished.stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("not one line: {:?}", finished.stderr)
        };
        assert!(line.contains(&format!("CPUPROFILESIGNAL={signal}")), "{line}");
        assert_eq!(scratch.names(""), ["host"]);
    }
}

/// The toggle comes to a thread with the smallest stack there is.
#[test]
fn a_thread_with_a_small_stack_may_toggle() {
    let scratch = Scratch::new();
    let mut command = profiled(edges(&scratch), &scratch.path("prof"));
    let finished = run(quietly(&mut command).env("CPUPROFILESIGNAL", "SIGUSR2").arg("toggle-on-small-stack"));
    expect_status(&finished, 0);
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert_eq!(samples(&scratch.path("prof.0")), 2);
}

/// A profiled program finds text in its environment, and what the user wrote there; so do programs that it starts.
#[test]
fn the_environment_stays_text() {
    let scratch = Scratch::new();
    let printer = scratch.path("print_environment");
    let mut compiler = tool("rustc");
    compiler.args(["--edition=2024", "-o"]).arg(&printer).arg(committed("print_environment.rs"));
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
