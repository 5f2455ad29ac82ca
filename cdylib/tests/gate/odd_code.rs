//! Code that uses its stack in unusual ways: stacks are correct as far as they lead.

use crate::support::{
    Linkage, Profile, Record, Root, Scratch, Symbolizer, preload, profiled, quietly_with_threads,
    repository_root, run, tool,
};

/// Runs a case of `programs/odd_code.c` without timer ticks. Returns its output and profile.
#[track_caller]
fn run_case(scratch: &Scratch, case: &str) -> (String, Profile) {
    let program = scratch.compile("odd_code.c", Linkage::None, &[]);
    let path = scratch.path("prof");
    let finished = run(quietly_with_threads(&mut profiled(program, &path)).arg(case)).expect_success();
    assert_eq!((finished.end_lines(), finished.complaints()), (1, vec![]));
    (finished.text(), Profile::read(&path))
}

/// Runs a case. Panics unless each of its `ticks` has a stack with `chain` after libc's functions
/// that sent the tick, and `root` accepts its end.
#[track_caller]
fn expect_chains(case: &str, ticks: usize, chain: &[&str], root: impl Fn(&[String], Root)) {
    let scratch = Scratch::new();
    let (_, profile) = run_case(&scratch, case);
    assert_eq!(profile.samples(), ticks);
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        assert!(symbols.calls(&profile, record, chain), "{names:?}");
        root(&names, symbols.root(&profile, record));
    }
}

/// A signal arrives while the stack and frame pointers have arbitrary values; the handler has
/// another stack. No fault occurs, and the interrupted function is in the profile.
#[test]
fn survives_a_garbage_stack_pointer() {
    let scratch = Scratch::new();
    let (text, profile) = run_case(&scratch, "garbage-stack-pointer");
    let ticks: usize = text.trim().parse().expect("the number of ticks");
    assert!(ticks > 400);
    assert_eq!(profile.samples(), ticks);
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        assert_eq!(names[0], "tick_with_registers");
        assert!(!names.iter().any(|name| name == "main"), "nothing leads there: {names:?}");
    }
}

/// Code without tables keeps a frame pointer. Its caller, in a library, keeps none, and has a
/// number in that register: only the tables lead further. The program opened both.
#[test]
fn a_frame_pointer_leads_to_code_that_keeps_none() {
    let scratch = Scratch::new();
    let source = repository_root().join("tests/programs/frames.c");
    let library = |name: &str, flags: &[&str]| {
        let path = scratch.path(name);
        let mut compiler = tool("gcc");
        compiler.args(["-shared", "-fPIC"]).args(flags).arg(&source).arg("-o").arg(&path);
        run(&mut compiler).expect_success();
        path
    };
    let optimized = library("optimized.so", &["-O2", "-fomit-frame-pointer"]);
    let no_tables = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let bare = library("bare.so", &[&["-O1", "-fno-omit-frame-pointer"][..], &no_tables].concat());
    let program = scratch.compile("guessed.c", Linkage::None, &["-fno-inline"]);
    let path = scratch.path("prof");
    let mut command = profiled(program, &path);
    run(command.env("CPUPROFILE_FREQUENCY", "1").arg(optimized).arg(bare)).expect_success();
    let profile = Profile::read(&path);
    assert_eq!(profile.samples(), 1);
    let mut symbols = Symbolizer::default();
    let names = symbols.names(&profile, &profile.records[0]);
    for name in ["tick", "large", "calls_bare", "all_saved", "main"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
}

/// The return address of a call at a function's end belongs to the next function.
#[test]
fn a_call_that_does_not_return_belongs_to_its_caller() {
    let chain = ["raise", "tick", "leaves", "ends_in_call", "calls_what_does_not_return"];
    expect_chains("noreturn", 100, &chain, |names, root| assert_eq!(root, Root::Process, "{names:?}"));
}

/// Returns the position in the stack of a PC in the page in which the program generated code.
fn place_of_page(record: &Record, text: &str) -> Option<usize> {
    let page = usize::from_str_radix(text.trim().trim_start_matches("0x"), 16).expect("the page's address");
    record.pcs.iter().position(|pc| (page..page + 4096).contains(pc))
}

/// Runs a case with ticks from that page, and calls `check` with each stack's record, names, the
/// page's position, and root.
#[track_caller]
fn expect_in_made_code(case: &str, check: impl Fn(&Record, &[String], usize, Root)) {
    let scratch = Scratch::new();
    let (text, profile) = run_case(&scratch, case);
    assert_eq!(profile.samples(), 100);
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        let place = place_of_page(record, &text).expect("a PC in the page");
        assert_eq!(names[place - 1], "tick", "{names:?}");
        check(record, &names, place, symbols.root(&profile, record));
    }
}

#[test]
fn generated_code_is_walked_by_its_frame_pointer() {
    expect_in_made_code("made-with-frames", |_, names, place, root| {
        assert_eq!(names[place + 1], "run_made_code", "{names:?}");
        assert_eq!(root, Root::Process, "{names:?}");
    });
}

/// Without a frame pointer, the stack ends; no frame is invented.
#[test]
fn generated_code_without_frame_pointers_ends_the_stack() {
    expect_in_made_code("made-without-frames", |record, names, place, _| {
        assert_eq!(record.pcs.len(), place + 1, "{names:?}");
    });
}

#[test]
fn an_undefined_return_address_ends_the_stack() {
    expect_chains("undefined", 100, &["tick", "fiber", "outermost_on_stack"], |names, _| {
        assert_eq!(names.last().map(String::as_str), Some("outermost_on_stack"), "{names:?}");
    });
}

/// A thread's small stack, of which seventeen ticks use all except a few kilobytes.
#[test]
fn a_small_stack_is_walked_to_its_end() {
    let scratch = Scratch::new();
    let (_, profile) = run_case(&scratch, "small-stack");
    assert_eq!(profile.samples(), 17);
    let mut symbols = Symbolizer::default();
    let mut depths = Vec::new();
    // A compiler may name a variant of the function `descend.isra.0` or the like.
    let is_descending = |name: &str| name == "descend" || name.starts_with("descend.");
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        depths.push(names.iter().filter(|name| is_descending(name)).count());
        assert!(matches!(symbols.root(&profile, record), Root::LibC(_)), "{names:?}");
        assert!(symbols.calls(&profile, record, &["descend", "descend_on_small_stack"]), "{names:?}");
    }
    depths.sort_unstable();
    assert_eq!(depths, (1..=17).collect::<Vec<_>>());
}

/// With arbitrary registers and stack contents, a caller gets some addresses or none, and no fault.
#[test]
fn survives_a_garbage_stack() {
    const WALKS: usize = 150_000;
    let scratch = Scratch::new();
    let program = scratch.compile("garbage.c", Linkage::None, &[]);
    let finished = run(preload(program).arg(WALKS.to_string())).expect_success();
    let led_on: usize = finished.text().trim().parse().expect("a number of walks");
    // With fewer, the test would prove little.
    assert!(led_on * 10 > WALKS, "{led_on} of {WALKS} walks led anywhere");
}
