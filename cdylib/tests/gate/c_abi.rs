//! The C interface, used by C11 and C++17 programs that are compiled against the committed header
//! and linked with the shared or the static library.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, plain, quietly_with_threads, repository_root, run,
    system_header_directory, tool,
};

const FUNCTIONS: [&str; 10] = [
    "ProfilerDisable",
    "ProfilerEnable",
    "ProfilerFlush",
    "ProfilerGetCurrentState",
    "ProfilerGetStackTrace",
    "ProfilerRegisterThread",
    "ProfilerStart",
    "ProfilerStartWithOptions",
    "ProfilerStop",
    "ProfilingIsEnabledForAllThreads",
];

/// Runs `case` of `programs/abi.c` in both linkages, and `check` on the files of each run.
#[track_caller]
fn both_linkages(case: &str, check: impl Fn(&Scratch)) {
    for linkage in [Linkage::Shared, Linkage::Static] {
        let scratch = Scratch::new();
        let program = scratch.compile("abi.c", linkage, &["-rdynamic"]);
        let output = scratch.directory("out");
        let finished = run_quietly(&program, &[case.as_ref(), &output]);
        assert_eq!(exit_code(finished.status), 0, "{case}, {linkage:?}: {}", finished.stderr);
        check(&scratch);
    }
}

/// Runs a program that sends itself all ticks: the timer expires after a second of CPU time.
fn run_quietly(program: &Path, arguments: &[&Path]) -> Finished {
    run(quietly_with_threads(&mut plain(program)).args(arguments))
}

#[track_caller]
fn samples(scratch: &Scratch, name: &str) -> usize {
    Profile::read(&scratch.path("out").join(name)).samples()
}

fn written(scratch: &Scratch) -> BTreeSet<String> {
    let entries = std::fs::read_dir(scratch.path("out")).expect("the directory is there");
    entries
        .map(|entry| entry.expect("a directory entry").file_name().to_string_lossy().into_owned())
        .collect()
}

/// The state is off, on with name, time and tick count, and off. A tick by `raise` has weight 1.
#[test]
fn reports_the_state_before_during_and_after_a_session() {
    both_linkages("lifecycle", |scratch| {
        assert_eq!(samples(scratch, "prof"), 5);
        assert_eq!(written(scratch).len(), 1, "{:?}", written(scratch));
    });
}

/// Enable and Disable change nothing; Stop, Flush and RegisterThread nothing without a session.
#[test]
fn calls_while_profiling_is_off_have_no_effect() {
    both_linkages("idle-calls", |scratch| assert_eq!(samples(scratch, "prof"), 4));
}

/// A thread that registers itself, once or more often, is sampled.
#[test]
fn a_registered_thread_is_sampled() {
    both_linkages("registered-thread", |scratch| assert!(samples(scratch, "prof") >= 4));
}

/// A start with no or a bad name, or during a session, returns 0; the session continues.
#[test]
fn a_refused_start_changes_nothing() {
    both_linkages("refused-starts", |scratch| {
        assert_eq!(samples(scratch, "prof"), 4);
        assert_eq!(written(scratch), BTreeSet::from(["prof".to_owned()]));
    });
}

/// The pointer after the name's NUL exists even without a session; it points to a tick counter.
#[test]
fn the_live_counter_counts_each_recorded_tick() {
    both_linkages("live-counter", |scratch| assert_eq!(samples(scratch, "prof"), 10));
}

/// After each flush the file is complete and holds all samples so far; profiling continues.
#[test]
fn a_flush_leaves_a_complete_profile_of_all_so_far() {
    both_linkages("flush", |scratch| {
        assert_eq!(samples(scratch, "flushed"), 4);
        assert_eq!(samples(scratch, "flushed-again"), 7);
        assert_eq!(samples(scratch, "prof"), 9);
    });
}

#[test]
fn a_restart_begins_without_samples() {
    both_linkages("restart", |scratch| {
        assert_eq!(samples(scratch, "first"), 6);
        assert_eq!(samples(scratch, "prof"), 2);
    });
}

/// A tick counts if the filter, called with its argument, returns a value other than 0.
#[test]
fn a_filter_decides_which_ticks_count() {
    both_linkages("filter", |scratch| {
        assert_eq!(samples(scratch, "prof"), 4);
        assert_eq!(samples(scratch, "unfiltered"), 2);
        assert_eq!(samples(scratch, "defaults"), 1);
    });
}

/// A filter accepts one thread of four: the profile has that thread's ticks.
#[test]
fn a_filter_can_select_one_thread() {
    both_linkages("filter-of-one-thread", |scratch| assert_eq!(samples(scratch, "prof"), 500));
}

#[test]
fn ticks_of_several_threads_are_all_counted() {
    both_linkages("threads", |scratch| assert_eq!(samples(scratch, "prof"), 2000));
}

#[test]
fn a_running_session_is_written_at_exit() {
    both_linkages("stopped-at-exit", |scratch| assert_eq!(samples(scratch, "prof"), 7));
}

/// A name that is longer than the state's field is truncated there; the file has the complete name.
#[test]
fn a_long_name_is_truncated_in_the_state() {
    both_linkages("long-name", |scratch| assert_eq!(samples(scratch, "prof"), 1));
}

/// With a context, its PC comes first, then the callers. The number of frames to skip is ignored.
#[test]
fn a_stack_trace_of_a_context_begins_at_its_pc() {
    both_linkages("trace-of-context", |_| {});
}

/// Without a context, the caller of `ProfilerGetStackTrace` is first, unless it is skipped.
#[test]
fn a_stack_trace_without_a_context_begins_at_the_caller() {
    both_linkages("trace-of-caller", |_| {});
}

/// At most the requested number of entries is written, and none if all frames are skipped.
#[test]
fn a_stack_trace_keeps_to_its_limits() {
    both_linkages("depth-limits", |_| {});
}

/// A C++17 program can use the header's types, signatures and linkage.
#[test]
fn a_cpp_program_uses_the_interface() {
    for linkage in [Linkage::Shared, Linkage::Static] {
        let scratch = Scratch::new();
        let program = scratch.compile("abi.cc", linkage, &[]);
        let profile = scratch.path("prof");
        let finished = run_quietly(&program, &[&profile]).expect_success();
        assert_eq!(finished.text(), "1 3 1 1\n", "{linkage:?}");
        assert_eq!(Profile::read(&profile).samples(), 3, "{linkage:?}");
    }
}

#[test]
fn structs_have_the_layout_of_gperftools() {
    let layout = |include: &Path| {
        let scratch = Scratch::new();
        let program = scratch.path("layout");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/layout.c");
        run(tool("gcc").arg("-I").arg(include).arg(source).arg("-o").arg(&program)).expect_success();
        run(&mut plain(program)).expect_success().text()
    };
    let ours = layout(&repository_root().join("include"));
    assert_eq!(ours, layout(&system_header_directory()));
    assert!(ours.contains("ProfilerState.samples_gathered"), "{ours}");
}

/// The header and the shared library have the same functions.
#[test]
fn the_library_defines_what_the_header_declares() {
    let header =
        std::fs::read_to_string(repository_root().join("include/gperftools/profiler.h")).expect("our header");
    let words = header.split(|character: char| !character.is_alphanumeric() && character != '_');
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("Profil")).collect();
    let functions: BTreeSet<&str> =
        named.into_iter().filter(|name| header.contains(&format!("{name}("))).collect();
    assert_eq!(functions, BTreeSet::from(FUNCTIONS));
    let symbols = run(tool("nm").args(["-D", "--defined-only"]).arg(crate::support::shared_library()))
        .expect_success()
        .text();
    for function in FUNCTIONS {
        assert!(
            symbols.lines().any(|line| line.ends_with(&format!(" T {function}"))),
            "{function} is not exported"
        );
    }
}
