//! The C interface, as a C11 and a C++17 program see it that are compiled against the committed header and linked
//! with the shared or the static library.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{
    Finished, Linkage, Profile, Scratch, exit_code, plain, quietly_with_threads, repository_root, run,
    system_header_directory, tool,
};

/// The whole interface.
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

/// Runs `case` of `programs/abi.c` in both linkages, then lets `check` look at the files of each run.
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

/// Runs a program whose only ticks are those that it sends itself: the timer's first is due after a second of CPU.
fn run_quietly(program: &Path, arguments: &[&Path]) -> Finished {
    run(quietly_with_threads(&mut plain(program)).args(arguments))
}

/// The sum of counts of the profile `name` that a case wrote.
#[track_caller]
fn samples(scratch: &Scratch, name: &str) -> usize {
    Profile::read(&scratch.path("out").join(name)).samples()
}

/// The names of all that a case wrote.
fn written(scratch: &Scratch) -> BTreeSet<String> {
    let entries = std::fs::read_dir(scratch.path("out")).expect("the directory is there");
    entries
        .map(|entry| entry.expect("a directory entry").file_name().to_string_lossy().into_owned())
        .collect()
}

/// The state is off, on with name and time, counts every tick, and is off again; ticks sent by raise weigh 1.
#[test]
fn a_session_is_off_on_and_off_again() {
    both_linkages("lifecycle", |scratch| {
        assert_eq!(samples(scratch, "prof"), 5);
        assert_eq!(written(scratch).len(), 1, "{:?}", written(scratch));
    });
}

/// Enable and Disable change nothing; Stop, Flush and RegisterThread nothing while profiling is off.
#[test]
fn calls_out_of_turn_have_no_effect() {
    both_linkages("idle-calls", |scratch| assert_eq!(samples(scratch, "prof"), 4));
}

/// A thread that registers itself is sampled, however often it does.
#[test]
fn a_registered_thread_is_sampled() {
    both_linkages("registered-thread", |scratch| assert!(samples(scratch, "prof") >= 4));
}

/// No name, an impossible name, or a session already running: 0, and the running session goes on as it was.
#[test]
fn a_refused_start_changes_nothing() {
    both_linkages("refused-starts", |scratch| {
        assert_eq!(samples(scratch, "prof"), 4);
        assert_eq!(written(scratch), BTreeSet::from(["prof".to_owned()]));
    });
}

/// The pointer behind the name's NUL is there even while profiling is off, and what it points to counts each tick.
#[test]
fn the_live_counter_counts_each_recorded_tick() {
    both_linkages("live-counter", |scratch| assert_eq!(samples(scratch, "prof"), 10));
}

/// After each flush the file is complete and holds all so far; profiling goes on.
#[test]
fn a_flush_leaves_a_complete_profile_of_all_so_far() {
    both_linkages("flush", |scratch| {
        assert_eq!(samples(scratch, "flushed"), 4);
        assert_eq!(samples(scratch, "flushed-again"), 7);
        assert_eq!(samples(scratch, "prof"), 9);
    });
}

/// A second session under the same name begins at zero.
#[test]
fn a_restart_begins_with_nothing() {
    both_linkages("restart", |scratch| {
        assert_eq!(samples(scratch, "first"), 6);
        assert_eq!(samples(scratch, "prof"), 2);
    });
}

/// A tick counts when the filter, called with its argument on each tick, answers anything but 0.
#[test]
fn a_filter_decides_which_ticks_count() {
    both_linkages("filter", |scratch| {
        assert_eq!(samples(scratch, "prof"), 4);
        assert_eq!(samples(scratch, "unfiltered"), 2);
        assert_eq!(samples(scratch, "defaults"), 1);
    });
}

/// A filter that accepts one thread of four: the profile has that thread's ticks.
#[test]
fn a_filter_of_one_thread_gives_that_thread_s_profile() {
    both_linkages("filter-of-one-thread", |scratch| assert_eq!(samples(scratch, "prof"), 500));
}

/// Four threads that send themselves ticks at once lose none.
#[test]
fn ticks_of_several_threads_are_all_counted() {
    both_linkages("threads", |scratch| assert_eq!(samples(scratch, "prof"), 2000));
}

/// A program that ends without stopping has its profile all the same.
#[test]
fn a_session_still_on_is_written_at_exit() {
    both_linkages("stopped-at-exit", |scratch| assert_eq!(samples(scratch, "prof"), 7));
}

/// A name longer than the state's field is cut there and still written to.
#[test]
fn a_long_name_is_cut_in_the_state() {
    both_linkages("long-name", |scratch| assert_eq!(samples(scratch, "prof"), 1));
}

/// With a context: its own PC first, then the callers, whatever is to be skipped.
#[test]
fn a_stack_trace_of_a_context_begins_at_its_pc() {
    both_linkages("trace-of-context", |_| {});
}

/// Without a context: the caller of ProfilerGetStackTrace first, less as many frames as are to be skipped.
#[test]
fn a_stack_trace_without_a_context_begins_at_the_caller() {
    both_linkages("trace-of-caller", |_| {});
}

/// No more entries are written than asked for, and none when all frames are skipped.
#[test]
fn a_stack_trace_keeps_to_its_limits() {
    both_linkages("depth-limits", |_| {});
}

/// The header serves C++17: types, signatures, linkage.
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

/// Structs have the sizes and offsets that programs compiled against gperftools expect.
#[test]
fn structs_are_laid_out_as_the_incumbents() {
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

/// The header declares every function that the shared library has, and the library has every one declared.
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
