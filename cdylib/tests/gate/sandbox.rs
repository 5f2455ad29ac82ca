//! Programs in a sandbox whose filter forbids `process_vm_readv`, be it by an error, by a signal or by the program's
//! end: they run as without it, and their stacks are whole.

use std::ffi::OsStr;
use std::path::Path;

use crate::support::{
    Linkage, Profile, Record, Root, Scratch, Symbolizer, Told, is_full, plain, profiled, run, shared_library,
};

/// Runs `program` under the profiler in `sandbox`, with a silent timer; without a sandbox where that is empty.
#[track_caller]
fn profile_in_sandbox(scratch: &Scratch, sandbox: &str, program: &Path, arguments: &[&str]) -> Profile {
    let path = scratch.path(&format!("prof-{sandbox}"));
    let assignment = |name: &str, value: &Path| format!("{name}={}", value.display());
    let profiled = [
        "env".to_owned(),
        assignment("LD_PRELOAD", shared_library()),
        assignment("CPUPROFILE", &path),
        "CPUPROFILE_FREQUENCY=1".to_owned(),
        // No thread's own timer ticks.
        "CPUPROFILE_CLOCK=itimer".to_owned(),
        program.display().to_string(),
    ];
    let mut command = plain(scratch.compile("sandbox.c", Linkage::None, &[]));
    command.arg(sandbox).args(profiled).args(arguments.iter().map(OsStr::new));
    let finished = run(&mut command).expect_success();
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]), "{sandbox}");
    Profile::read(&path)
}

/// What a filter may do to a program that makes a forbidden call.
const SANDBOXES: [&str; 3] = ["errno", "trap", "kill"];

/// The chains of `programs/large_frames.c`, innermost first.
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

/// So are switches from one stack to another.
#[test]
#[cfg(target_arch = "x86_64")]
fn chains_lead_from_one_stack_to_another_in_a_sandbox() {
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

/// Where the system refuses events, threads have timers, and one line says so.
#[test]
fn without_events_the_clock_is_another_and_a_line_says_so() {
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

/// A program that will be ended for timers and threads' ids, which its libraries never need, is not ended by ticks of a clock
/// that gives threads timers of their own.
#[test]
fn a_program_that_forbids_itself_timers_is_not_ended_by_ticks() {
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
        // The program computes for 1.7 s, with three threads at a time at most.
        let told = Told::only(&finished);
        assert!(told.used > 1.7 && told.samples == samples, "{clock}, {signal}: {}", finished.stderr);
        assert!(samples > 0, "{clock}, {signal}");
        // How much is in no sample is the scheduler's choice.
        told.adds_up(1e-3, 3).unwrap_or_else(|failure| panic!("{clock}, {signal}: {failure}"));
    }
}
