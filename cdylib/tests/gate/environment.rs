//! The environment variables: what they enable, file names, and standard error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{
    Finished, Linkage, Profile, Scratch, SessionTime, exit_code, is_full, plain, preload, profiled, run,
};

fn app(scratch: &Scratch) -> PathBuf {
    scratch.compile("app.c", Linkage::None, &[])
}

/// An application with the profiler at 1 Hz. In the first second of CPU time, it sends itself the
/// only ticks.
fn quiet_app(scratch: &Scratch, orders: &[&str]) -> Command {
    let mut command = profiled(app(scratch), &scratch.path("prof"));
    command.env("CPUPROFILE_FREQUENCY", "1").args(orders);
    command
}

fn ticks(count: &str) -> [&str; 3] {
    ["raise", count, "PROF"]
}

#[track_caller]
fn samples(path: &Path) -> usize {
    Profile::read(path).samples()
}

/// The process ID that the application's `spawn` reports.
#[track_caller]
fn child_of(finished: &Finished) -> String {
    let text = finished.text();
    text.lines()
        .find_map(|line| line.strip_prefix("child "))
        .expect("the application reports its child")
        .to_owned()
}

/// A profiled program prints one line at exit, in the format of gperftools.
#[test]
fn a_profiled_program_prints_one_summary_line() {
    let scratch = Scratch::new();
    let finished = run(&mut quiet_app(&scratch, &["print", "hello", "raise", "5", "PROF", "exit", "3"]));
    assert_eq!((exit_code(finished.status), finished.text().as_str()), (3, "hello\n"));
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    assert!(finished.stderr.starts_with("PROFILE: interrupts/evictions/bytes = 5/"), "{}", finished.stderr);
    assert_eq!(samples(&scratch.path("prof")), 5);
    assert_eq!(scratch.names("prof"), ["prof"]);
}

#[test]
fn without_the_library_a_tick_kills() {
    let scratch = Scratch::new();
    let finished = run(plain(app(&scratch)).args(ticks("1")));
    assert_eq!(exit_code(finished.status), 128 + 27);
}

/// `CPUPROFILE_QUIET=1` silences the summary line; other values do not.
#[test]
fn quiet_silences_the_summary_line() {
    let scratch = Scratch::new();
    let finished = run(quiet_app(&scratch, &ticks("2")).env("CPUPROFILE_QUIET", "1")).expect_success();
    assert_eq!(finished.stderr, "");
    assert_eq!(samples(&scratch.path("prof")), 2);
    let finished = run(quiet_app(&scratch, &ticks("2")).env("CPUPROFILE_QUIET", "0")).expect_success();
    assert_eq!(finished.end_lines(), 1);
}

/// The figure `name` in the line that `CPUPROFILE_STATISTICS` requests.
#[track_caller]
fn figure(line: &str, name: &str) -> u64 {
    let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name}: {line}")).parse().expect("a number")
}

/// `CPUPROFILE_STATISTICS=1` prints a line with figures of ticks and walks, and a line for each
/// thread, even with `CPUPROFILE_QUIET`.
#[test]
fn prints_statistics_of_session_and_threads_on_request() {
    let scratch = Scratch::new();
    let profile = scratch.path("prof");
    for quiet in ["0", "1"] {
        let mut command = quiet_app(&scratch, &["raise", "2", "PROF", "deep", "50", "3"]);
        command.env("CPUPROFILE_QUIET", quiet).env("CPUPROFILE_MAX_DEPTH", "40");
        let child = crate::support::start(command.env("CPUPROFILE_STATISTICS", "1").stdin(Stdio::null()));
        let process = child.id();
        let finished = crate::support::wait(child).expect_success();
        let [line, thread] = finished.complaints()[..] else { panic!("not two lines: {}", finished.stderr) };
        let start = format!("sigprof: thread: process={process} thread={process} samples=5 cpu_micros=");
        assert!(thread.starts_with(&start) && thread.ends_with(" name=app"), "{thread}");
        assert!(line.starts_with("sigprof: statistics: samples=5 "), "{line}");
        assert!(line.ends_with(&format!(" profile={}", profile.display())), "{line}");
        let expected = [
            ("timer_ticks", 0),
            ("foreign_ticks", 5),
            ("walks", 5),
            ("complete", 2),
            ("depth", 3),
            ("no_slot", 0),
            ("threads", 1),
            ("unnamed_samples", 0),
        ];
        for (name, value) in expected {
            assert_eq!(figure(line, name), value, "{name}: {line}");
        }
        assert!((5..100).contains(&figure(line, "rule_misses")), "{line}");
        assert!(figure(line, "rule_hits") > figure(line, "rule_misses"), "{line}");
        assert_eq!(samples(&profile), 5);
    }
    for off in [Some("0"), None] {
        let mut command = quiet_app(&scratch, &ticks("2"));
        command.envs(off.map(|value| ("CPUPROFILE_STATISTICS", value)));
        assert_eq!(run(&mut command).expect_success().complaints(), Vec::<&str>::new(), "{off:?}");
    }
}

/// Without a value of `CPUPROFILE`, even the signal's default action is unchanged.
#[test]
fn an_empty_name_means_off() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    for name in [None, Some("")] {
        let mut command = preload(&program);
        command.args(["print", "hello", "burn", "50", "exit", "4"]).current_dir(scratch.root());
        command.envs(name.map(|name| ("CPUPROFILE", name)));
        let finished = run(&mut command);
        assert_eq!((exit_code(finished.status), finished.text().as_str()), (4, "hello\n"));
        assert_eq!(finished.stderr, "");
    }
    assert_eq!(scratch.names(""), ["app"]);
}

/// The frequency determines the period in the header; a diagnostic reports an unusable value.
#[test]
fn the_frequency_is_the_headers_period() {
    let fine = [("100", 10_000), ("250", 4_000), ("1000", 1_000), ("10000", 100), ("1", 1_000_000)];
    let replaced =
        [("0", 10_000), ("-5", 10_000), ("often", 10_000), ("10001", 100), ("99999999999999999999", 100)];
    let scratch = Scratch::new();
    let program = app(&scratch);
    let run_at = |frequency: &str| {
        let mut command = profiled(&program, &scratch.path("prof"));
        let finished = run(command.env("CPUPROFILE_FREQUENCY", frequency).args(ticks("1"))).expect_success();
        assert_eq!(finished.end_lines(), 1, "{frequency}: {}", finished.stderr);
        (Profile::read(&scratch.path("prof")).period_micros, finished)
    };
    for (frequency, period) in fine {
        let (written, finished) = run_at(frequency);
        assert_eq!((written, finished.complaints()), (period, vec![]), "{frequency}");
    }
    for (frequency, period) in replaced {
        let (written, finished) = run_at(frequency);
        let [complaint] = finished.complaints()[..] else {
            panic!("{frequency}: not one line: {}", finished.stderr)
        };
        assert!(complaint.contains("CPUPROFILE_FREQUENCY") && complaint.contains(frequency), "{complaint}");
        assert_eq!(written, period, "{frequency}");
    }
}

#[test]
fn the_default_frequency_is_100() {
    let scratch = Scratch::new();
    let mut command = profiled(app(&scratch), &scratch.path("prof"));
    let finished =
        run(command.args(["burn", "300", "tell"]).env("CPUPROFILE_STATISTICS", "1")).expect_success();
    let [_, _] = finished.complaints()[..] else { panic!("more than was asked for: {}", finished.stderr) };
    expect_burnt(&finished, &scratch.path("prof"));
}

/// Panics unless the profile has a period of 10 ms and samples; in the full check, unless they
/// represent the 300 ms that the application used.
#[track_caller]
fn expect_burnt(finished: &Finished, path: &Path) {
    let (profile, time) = (Profile::read(path), SessionTime::only(finished));
    assert_eq!((profile.period_micros, profile.samples()), (10_000, time.samples), "{}", finished.stderr);
    assert!(time.samples > 0, "{}", finished.stderr);
    if !is_full() {
        return;
    }
    let text = finished.text();
    let represented_until =
        text.lines().find_map(|line| line.strip_prefix("represented_until ")).expect("a line");
    let represented_until: f64 = represented_until.parse().expect("seconds");
    // The resolution of libc's `clock`.
    let burnt = 0.3 - 1e-6;
    let outcome = time
        .adds_up(0.01, 1)
        .and_then(|()| time.is_of(burnt, finished))
        .and_then(|()| time.is_accounted_except(finished.used - represented_until, 0.01));
    outcome.unwrap_or_else(|failure| panic!("{failure}; {text}"));
}

/// An unknown `CPUPROFILE_CLOCK` and an impossible `CPUPROFILE_TIMER_SIGNAL`: a diagnostic for
/// each, and the profile has the defaults.
#[test]
fn reports_an_unknown_clock_and_an_impossible_signal() {
    let scratch = Scratch::new();
    let mut command = profiled(app(&scratch), &scratch.path("prof"));
    command.envs([("CPUPROFILE_CLOCK", "sundial"), ("CPUPROFILE_TIMER_SIGNAL", "SIGSEGV")]);
    let finished =
        run(command.args(["burn", "300", "tell"]).env("CPUPROFILE_STATISTICS", "1")).expect_success();
    let mut lines = finished.complaints();
    lines.retain(|line| line.contains("CPUPROFILE_"));
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "sigprof: CPUPROFILE_CLOCK=sundial is not a clock (auto, cpu, itimer, perf, wall); using auto",
            "sigprof: CPUPROFILE_TIMER_SIGNAL=SIGSEGV must be SIGPROF or SIGRTMIN to SIGRTMAX; using SIGPROF",
        ]
    );
    assert_eq!(finished.complaints().len(), lines.len() + 2, "{}", finished.stderr);
    expect_burnt(&finished, &scratch.path("prof"));
}

/// `CPUPROFILE_REALTIME`: ticks come while the program waits; otherwise it would not exit.
#[test]
fn realtime_ticks_come_while_the_program_waits() {
    let scratch = Scratch::new();
    let mut command = profiled(app(&scratch), &scratch.path("prof"));
    run(command.env("CPUPROFILE_REALTIME", "1").args(["pause", "5"])).expect_success();
    assert!(samples(&scratch.path("prof")) >= 5);
}

/// `CPUPROFILESIGNAL`: each delivery toggles, and each session has its own file.
#[test]
fn a_signal_toggles_profiling() {
    let number = nix::sys::signal::Signal::SIGUSR2 as i32;
    for name in [number.to_string().as_str(), "SIGUSR2", "USR2"] {
        let scratch = Scratch::new();
        // The tick between the two sessions belongs to neither.
        let orders = "raise 1 USR2 raise 3 PROF raise 1 USR2 raise 1 PROF raise 1 USR2 raise 2 PROF exit 6";
        let orders: Vec<&str> = orders.split(' ').collect();
        let finished = run(quiet_app(&scratch, &orders).env("CPUPROFILESIGNAL", name));
        assert_eq!((exit_code(finished.status), finished.complaints()), (6, vec![]), "{name}");
        assert_eq!(finished.end_lines(), 2, "{name}: {}", finished.stderr);
        assert_eq!(scratch.names("prof"), ["prof.0", "prof.1"], "{name}");
        assert_eq!(samples(&scratch.path("prof.0")), 3, "{name}");
        assert_eq!(samples(&scratch.path("prof.1")), 2, "{name}");
    }
}

/// The signal of `CPUPROFILESIGNAL` never comes: there is no file.
#[test]
fn without_the_signal_there_is_no_profile() {
    let scratch = Scratch::new();
    let mut command = quiet_app(&scratch, &["burn", "50"]);
    run(command.env("CPUPROFILESIGNAL", "SIGUSR2").env("CPUPROFILE_FREQUENCY", "100")).expect_success();
    assert_eq!(scratch.names("prof"), Vec::<String>::new());
}

/// `CPUPROFILESIGNAL` is not a signal, or cannot be caught: a diagnostic, and the program runs.
#[test]
fn reports_an_impossible_toggle_signal() {
    for name in ["SIGNONSENSE", "0", "-1", "4096", "KILL", "9", "STOP"] {
        let scratch = Scratch::new();
        let finished = run(quiet_app(&scratch, &["exit", "2"]).env("CPUPROFILESIGNAL", name));
        assert_eq!(exit_code(finished.status), 2, "{name}: {}", finished.stderr);
        let [complaint] = finished.complaints()[..] else {
            panic!("{name}: not one line: {}", finished.stderr)
        };
        assert!(complaint.contains("CPUPROFILESIGNAL") && complaint.contains(name), "{complaint}");
    }
}

/// A program that a profiled program starts writes its own file, with its process ID in the name.
#[test]
fn a_child_is_named_by_its_process() {
    let scratch = Scratch::new();
    let orders = "raise 4 PROF spawn raise 3 PROF spawn raise 2 PROF exit 9";
    let finished = run(&mut quiet_app(&scratch, &orders.split(' ').collect::<Vec<_>>()));
    assert_eq!((exit_code(finished.status), finished.end_lines()), (9, 3), "{}", finished.stderr);
    let text = finished.text();
    let children: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("child ")).collect();
    // The middle program reports the innermost one before the outermost reports the middle one.
    let [innermost, middle] = children[..] else { panic!("{text}") };
    assert_eq!(samples(&scratch.path("prof")), 4);
    assert_eq!(samples(&scratch.path(&format!("prof_{middle}"))), 3);
    assert_eq!(samples(&scratch.path(&format!("prof_{innermost}"))), 2);
    assert_eq!(scratch.names("prof").len(), 3);
}

/// `CPUPROFILE_USE_PID` and launchers of parallel programs change the name (`{}`: process ID).
#[test]
fn ranks_and_processes_name_the_file() {
    let cases: [(&[(&str, &str)], &str); 11] = [
        (&[("CPUPROFILE_USE_PID", "1")], "prof_{}"),
        (&[("CPUPROFILE_USE_PID", "0")], "prof"),
        (&[("PMIX_RANK", "5")], "prof.rank-5"),
        (&[("PMIX_RANK", "")], "prof"),
        (&[("PMIX_RANK", "5"), ("CPUPROFILE_USE_PID", "1")], "prof.rank-5_{}"),
        (&[("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "5")], "prof.slurmid-5"),
        (&[("SLURM_JOB_ID", "1")], "prof_{}"),
        (&[("SLURM_PROCID", "5")], "prof"),
        (&[("OMPI_HOME", "/somewhere")], "prof_{}"),
        (&[("PMI_RANK", "12")], "prof.rank-12"),
        (
            &[("PMIX_RANK", "1"), ("SLURM_JOB_ID", "2"), ("SLURM_PROCID", "3"), ("PMI_RANK", "4")],
            "prof.rank-1",
        ),
    ];
    for (variables, pattern) in cases {
        let scratch = Scratch::new();
        let child = crate::support::start(quiet_app(&scratch, &ticks("2")).envs(variables.iter().copied()));
        let name = pattern.replace("{}", &child.id().to_string());
        crate::support::wait(child).expect_success();
        assert_eq!(samples(&scratch.path(&name)), 2, "{variables:?}");
        assert_eq!(scratch.names("prof"), [name], "{variables:?}");
    }
}

#[test]
fn a_child_of_a_rank_has_rank_and_process_in_its_name() {
    let scratch = Scratch::new();
    let mut command = quiet_app(&scratch, &["spawn", "raise", "2", "PROF"]);
    let finished = run(command.env("PMIX_RANK", "7")).expect_success();
    let child = format!("prof.rank-7_{}", child_of(&finished));
    assert_eq!(scratch.names("prof"), ["prof.rank-7".to_owned(), child.clone()]);
    assert_eq!(samples(&scratch.path(&child)), 2);
}

/// `CPUPROFILE_MAX_DEPTH` truncates stacks at the outer end; the default is 254, the maximum 4096.
#[test]
fn the_depth_limit_truncates_stacks() {
    for (limit, depth, expected) in [
        (Some("5"), "50", 5..=5),
        (Some("1"), "50", 1..=1),
        (None, "1000", 254..=254),
        (Some("4096"), "1000", 1001..=1020),
        (Some("4096"), "9000", 4096..=4096),
    ] {
        let scratch = Scratch::new();
        let mut command = quiet_app(&scratch, &["deep", depth, "3"]);
        if let Some(limit) = limit {
            command.env("CPUPROFILE_MAX_DEPTH", limit);
        }
        let finished = run(&mut command).expect_success();
        assert_eq!(finished.complaints(), Vec::<&str>::new());
        let profile = Profile::read(&scratch.path("prof"));
        assert_eq!(profile.samples(), 3, "{limit:?}");
        assert!(expected.contains(&profile.deepest()), "{limit:?}: {} PCs", profile.deepest());
    }
}

#[test]
fn a_relative_name_is_relative_to_the_start_directory() {
    let scratch = Scratch::new();
    let (start, elsewhere) = (scratch.directory("start"), scratch.directory("elsewhere"));
    let mut command = profiled(app(&scratch), Path::new("prof"));
    command
        .env("CPUPROFILE_FREQUENCY", "1")
        .current_dir(&start)
        .arg("chdir")
        .arg(&elsewhere)
        .args(ticks("2"));
    run(&mut command).expect_success();
    assert_eq!(samples(&start.join("prof")), 2);
    assert_eq!(std::fs::read_dir(&elsewhere).expect("the directory is there").count(), 0);
}

#[test]
fn an_older_profile_is_replaced() {
    let scratch = Scratch::new();
    scratch.write("prof", vec![b'x'; 1 << 20]);
    run(&mut quiet_app(&scratch, &ticks("2"))).expect_success();
    assert_eq!(samples(&scratch.path("prof")), 2);
    assert_eq!(scratch.names("prof"), ["prof"]);
}

/// A program that relies on the lowest free descriptor gets it, and is profiled.
#[test]
fn the_lowest_descriptors_stay_free() {
    let scratch = Scratch::new();
    let program = app(&scratch);
    let orders = ["open", "/dev/null", "open", "/dev/null"];
    let expected = run(plain(&program).args(orders)).expect_success().text();
    let finished = run(profiled(&program, &scratch.path("prof")).args(orders)).expect_success();
    assert_eq!(finished.text(), expected);
    assert_eq!(finished.end_lines(), 1);
}
