//! Programs in a sandbox with a filter that rejects `process_vm_readv` by an error or a signal, or
//! kills the process: they run as without the profiler, and their stacks are complete.

use std::ffi::OsStr;
use std::path::Path;

use crate::support::{
    Linkage, Profile, Record, Root, Scratch, SessionTime, Symbolizer, is_full, plain, profiled, run,
    shared_library,
};

/// Runs `program` under the profiler in `sandbox` (none if empty), without timer ticks.
#[track_caller]
fn profile_in_sandbox(scratch: &Scratch, sandbox: &str, program: &Path, arguments: &[&str]) -> Profile {
    let path = scratch.path(&format!("prof-{sandbox}"));
    let assignment = |name: &str, value: &Path| format!("{name}={}", value.display());
    let profiled = [
        "env".to_owned(),
        assignment("LD_PRELOAD", shared_library()),
        assignment("CPUPROFILE", &path),
        "CPUPROFILE_FREQUENCY=1".to_owned(),
        // No per-thread timer ticks.
        "CPUPROFILE_CLOCK=itimer".to_owned(),
        program.display().to_string(),
    ];
    let mut command = plain(scratch.compile("sandbox.c", Linkage::None, &[]));
    command.arg(sandbox).args(profiled).args(arguments.iter().map(OsStr::new));
    let finished = run(&mut command).expect_success();
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{sandbox}");
    Profile::read(&path)
}

/// The actions of a filter for a forbidden call.
const SANDBOXES: [&str; 3] = ["errno", "trap", "kill"];

/// The stacks of `programs/large_frames.c`, innermost frame first.
const CHAINS: [&[&str]; 3] = [
    &["tick", "run_rounds"],
    &["tick", "under_20_kib", "run_rounds"],
    &["tick", "under_20_kib", "under_200_kib", "under_a_page", "under_40_kib", "run_rounds"],
];

#[test]
fn frames_larger_than_pages_are_crossed_in_a_sandbox() {
    let scratch = Scratch::new();
    let program = scratch.compile("large_frames.c", Linkage::None, &[]);
    for sandbox in SANDBOXES {
        let profile = profile_in_sandbox(&scratch, sandbox, &program, &[]);
        assert_eq!(profile.samples(), 300, "{sandbox}");
        let mut symbols = Symbolizer::default();
        for chain in CHAINS {
            for is_main in [true, false] {
                let is_there = |record: &Record| {
                    let root = symbols.root(&profile, record);
                    symbols.calls(&profile, record, chain)
                        && if is_main { root == Root::Process } else { matches!(root, Root::LibC(_)) }
                };
                let share = profile.share(is_there) * 300.0;
                assert_eq!(share.round(), 50.0, "{sandbox}: {chain:?}, on the main thread: {is_main}");
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_walk_leads_from_one_stack_to_another_in_a_sandbox() {
    let scratch = Scratch::new();
    let program = scratch.compile("switched_stacks.c", Linkage::None, &[]);
    for sandbox in SANDBOXES {
        for case in ["above", "below"] {
            let profile = profile_in_sandbox(&scratch, sandbox, &program, &[case]);
            assert_eq!(profile.samples(), 100, "{sandbox}, {case}");
            let mut symbols = Symbolizer::default();
            for record in &profile.records {
                let names = symbols.names(&profile, record);
                let chain = ["tick", "nested", "switching_entry", "call_on_stack", "switch_stack"];
                assert!(symbols.calls(&profile, record, &chain), "{sandbox}, {case}: {names:?}");
                assert!(
                    matches!(symbols.root(&profile, record), Root::LibC(_)),
                    "{sandbox}, {case}: {names:?}"
                );
            }
        }
    }
}

/// If the system refuses events, threads have timers, and a diagnostic reports it.
#[test]
fn reports_another_clock_without_events() {
    let scratch = Scratch::new();
    let program = scratch.compile("callers.c", Linkage::None, &[]);
    let path = scratch.path("prof");
    let mut command = plain(scratch.compile("sandbox.c", Linkage::None, &[]));
    command.args(["no-perf", "env", "CPUPROFILE_CLOCK=perf", "CPUPROFILE_FREQUENCY=1"]);
    command.arg(format!("LD_PRELOAD={}", shared_library().display()));
    command.arg(format!("CPUPROFILE={}", path.display())).arg(program).arg("50");
    let finished = run(&mut command).expect_success();
    let line = format!(
        "sigprof: using clock cpu instead of perf for the profile at {}: cannot open a perf event of the task clock: Operation not permitted",
        path.display()
    );
    assert_eq!((finished.complaints(), finished.end_lines()), (vec![line.as_str()], 1));
    // 50 of each of three kinds.
    assert_eq!(Profile::read(&path).samples(), 150);
}

/// A filter kills the program for timers and `gettid`, which its own libraries never need: ticks of
/// a clock with per-thread timers do not kill it.
#[test]
fn a_program_that_forbids_itself_timers_is_not_killed_by_ticks() {
    let scratch = Scratch::new();
    let program = scratch.compile("sandboxed.c", Linkage::None, &["-O2", "-pthread"]);
    let forbidden = run(plain(&program).arg("gettid"));
    assert!(!forbidden.status.success(), "the filter does nothing");
    for (clock, signal) in [
        ("cpu", ""),
        ("perf", ""),
        ("itimer", ""),
        ("cpu", "40"),
        ("itimer", "40"),
        ("wall", ""),
        ("wall", "40"),
    ] {
        let path = scratch.path(&format!("{clock}{signal}"));
        let mut command = profiled(&program, &path);
        command.env("CPUPROFILE_TIMER_SIGNAL", signal).env("CPUPROFILE_STATISTICS", "1");
        command.args(if is_full() { None } else { Some("briefly") });
        let finished = run(command.env("CPUPROFILE_CLOCK", clock).env("CPUPROFILE_FREQUENCY", "1000"));
        assert!(finished.status.success(), "{clock}, {signal}: {}, {}", finished.status, finished.stderr);
        assert_eq!(finished.text(), "done\n");
        let samples = Profile::read(&path).samples();
        if !is_full() {
            continue;
        }
        if clock == "wall" {
            assert!(samples > 100, "{signal}: {samples} ms");
            continue;
        }
        // The program computes for 1.7 s, with at most three threads at a time.
        let time = SessionTime::only(&finished);
        assert!(time.used > 1.7 && time.samples == samples, "{clock}, {signal}: {}", finished.stderr);
        assert!(samples > 0, "{clock}, {signal}");
        // The scheduler decides how much time is unaccounted for.
        time.adds_up(1e-3, 3).unwrap_or_else(|failure| panic!("{clock}, {signal}: {failure}"));
    }
}
