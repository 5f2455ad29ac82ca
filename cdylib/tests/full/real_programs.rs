//! Unmodified programs under the preloaded library: the profile names the functions that used time.

use std::collections::HashMap;
use std::path::Path;

use crate::support::real_programs::{
    compile_c, compile_rust, compiler_proper, generated_c, generated_lines, generated_repository,
    profile_of_child, run_both,
};
use crate::support::{
    Linkage, Profile, Root, Scratch, Symbolizer, callers_in_go_pprof, exit_code, go_pprof_top,
    google_pprof_text, plain, program_source, run,
};

/// Enough to distinguish hot functions from cold ones.
const ENOUGH_SAMPLES: usize = 100;

/// Each stack should be complete; one in a hundred may have an instruction without unwind rules.
const WHOLE: f64 = 0.99;

/// Reads the profile of a program with one thread; all stacks must end at the entry point.
#[track_caller]
fn read_single_threaded(path: &Path) -> Profile {
    let profile = read_with_enough_samples(path);
    let mut symbolizer = Symbolizer::default();
    let whole = profile.share(|record| symbolizer.root(&profile, record) == Root::Process);
    assert!(whole >= WHOLE, "only {whole} of the samples end at the entry point");
    profile
}

/// Reads the profile of a program with threads; stacks must end at the entry point, or at the one
/// place in libc at which threads start.
#[track_caller]
fn read_multi_threaded(path: &Path) -> Profile {
    let profile = read_with_enough_samples(path);
    let mut symbolizer = Symbolizer::default();
    let mut in_process = 0;
    let mut in_libc: HashMap<u64, usize> = HashMap::new();
    for record in &profile.records {
        match symbolizer.root(&profile, record) {
            Root::Process => in_process += record.count,
            // The call that starts a thread may be recorded by its own address or by the next one.
            Root::LibC(offset) => *in_libc.entry(offset / 8).or_default() += record.count,
            Root::Elsewhere => {}
        }
    }
    let thread_start = in_libc.into_values().max().unwrap_or(0);
    assert!(
        in_process > 0 && thread_start > 0,
        "{in_process} samples end at _start, {thread_start} at one place in libc"
    );
    let whole = (in_process + thread_start) as f64 / profile.samples() as f64;
    assert!(whole >= WHOLE, "only {whole} of the samples end at an entry point");
    profile
}

#[track_caller]
fn read_with_enough_samples(path: &Path) -> Profile {
    let profile = Profile::read(path);
    assert!(profile.samples() >= ENOUGH_SAMPLES, "only {} samples", profile.samples());
    profile
}

/// Panics unless at least `hot` of all samples are inside `chain[0]`, and nearly all of these were
/// called through the rest of `chain`, innermost first.
#[track_caller]
fn expect_chain(profile: &Profile, chain: &[&str], hot: f64) {
    let mut symbolizer = Symbolizer::default();
    let mut leaf = |record: &_| symbolizer.names(profile, record)[0].contains(chain[0]);
    let in_leaf = profile.share(&mut leaf);
    assert!(in_leaf >= hot, "only {in_leaf} of the samples are in {}", chain[0]);
    let mut symbolizer = Symbolizer::default();
    let whole = profile.share(|record| {
        let names = symbolizer.names(profile, record);
        names.len() >= chain.len() && names.iter().zip(chain).all(|(name, part)| name.contains(part))
    });
    assert!(
        whole >= WHOLE * in_leaf,
        "{in_leaf} of the samples are in {}, but {whole} through {chain:?}",
        chain[0]
    );
}

/// The interpreter's loop is on top, called from the functions that run a script.
#[test]
fn python_is_profiled_through_its_interpreter() {
    let scratch = Scratch::new();
    let script = program_source("busy.py");
    let python = Path::new("/usr/bin/python3");
    run_both(&scratch, python, 250, |command| command.arg(&script).arg("100"));
    let path = scratch.path("prof");
    let profile = read_single_threaded(&path);
    let mut symbolizer = Symbolizer::default();
    let through_main = profile.share(|record| {
        let names = symbolizer.names(&profile, record);
        names.iter().any(|name| name == "_PyEval_EvalFrameDefault")
            && names.iter().any(|name| name == "Py_RunMain")
    });
    assert!(
        through_main >= 0.9,
        "{through_main} of the samples are in the interpreter's loop under Py_RunMain"
    );
    go_pprof_top(python, &path).expect_hottest("[python3", 50.0);
    let report = google_pprof_text(python, &path);
    report.expect_hottest("_PyEval_EvalFrameDefault", 20.0);
    report.expect_total("Py_RunMain", 90.0);
}

#[test]
fn python_is_profiled_at_a_high_rate() {
    let scratch = Scratch::new();
    let script = program_source("busy.py");
    run_both(&scratch, Path::new("/usr/bin/python3"), 1000, |command| command.arg(&script).arg("40"));
    let profile = read_single_threaded(&scratch.path("prof"));
    assert_eq!(profile.period_micros, 1000);
}

/// Every op runs under perl_run.
#[test]
fn perl_is_profiled_through_its_run_loop() {
    let scratch = Scratch::new();
    let script = program_source("busy.pl");
    let perl = Path::new("/usr/bin/perl");
    run_both(&scratch, perl, 250, |command| command.arg(&script).arg("80"));
    let path = scratch.path("prof");
    let profile = read_single_threaded(&path);
    let mut symbolizer = Symbolizer::default();
    let in_loop =
        profile.share(|record| symbolizer.calls(&profile, record, &["Perl_runops_standard", "perl_run"]));
    assert!(in_loop >= 0.95, "{in_loop} of the samples are in Perl_runops_standard called by perl_run");
    go_pprof_top(perl, &path).expect_hottest("[perl]", 50.0);
    google_pprof_text(perl, &path).expect_total("Perl_runops_standard", 95.0);
}

/// A stripped program; its own code is on top.
#[test]
fn gzip_is_profiled_at_the_default_rate() {
    let scratch = Scratch::new();
    let input = scratch.write("input", generated_lines(1_000_000));
    let gzip = Path::new("/usr/bin/gzip");
    run_both(&scratch, gzip, 100, |command| command.arg("-9cn").arg(&input));
    let path = scratch.path("prof");
    let profile = read_single_threaded(&path);
    assert_eq!(profile.period_micros, 10_000);
    let mut symbolizer = Symbolizer::default();
    let own = profile.share(|record| symbolizer.names(&profile, record)[0].ends_with("/gzip"));
    assert!(own >= 0.8, "{own} of the samples are in gzip's own code");
    go_pprof_top(gzip, &path).expect_hottest("[gzip]", 80.0);
    google_pprof_text(gzip, &path).expect_any_total(80.0);
}

/// GNU sort handles SIGPROF, to remove files before it dies: ticks must not kill it or be lost.
#[test]
fn sort_is_profiled_although_it_handles_the_signal_itself() {
    let scratch = Scratch::new();
    let input = scratch.write("input", generated_lines(1_500_000));
    let sort = Path::new("/usr/bin/sort");
    run_both(&scratch, sort, 250, |command| {
        command.args(["--parallel=1", "-k2n", "-k1r", "-S", "20M", "-T"]).arg(scratch.root()).arg(&input)
    });
    let path = scratch.path("prof");
    let profile = read_single_threaded(&path);
    let mut symbolizer = Symbolizer::default();
    let in_sort = profile.share(|record| {
        // sort's own functions and libc's start code are between the innermost one and `_start`.
        let names = symbolizer.names(&profile, record);
        names.iter().filter(|name| name.ends_with("/sort")).count() >= 3
    });
    assert!(in_sort >= 0.9, "{in_sort} of the samples are in sort or called from it");
    go_pprof_top(sort, &path).expect_total("[sort]", 99.0);
    google_pprof_text(sort, &path).expect_any_total(50.0);
}

/// The driver writes the plain name, each child its own; cc1's passes have stacks to `main`.
#[test]
fn gcc_and_its_children_are_profiled() {
    let scratch = Scratch::new();
    let source = scratch.write("input.c", generated_c(200));
    let object = scratch.path("output.o");
    let gcc = Path::new("/usr/bin/gcc");
    run_both(&scratch, gcc, 250, |command| compile_c(command, &source, &object));
    let compiled_under_profiler = std::fs::read(&object).expect("gcc wrote its output");
    run(compile_c(&mut plain(gcc), &source, &object)).expect_success();
    let compiled_without = std::fs::read(&object).expect("gcc wrote its output");
    assert!(compiled_under_profiler == compiled_without, "another object file than without the profiler");

    Profile::read(&scratch.path("prof"));
    let cc1 = compiler_proper();
    let path = profile_of_child(&scratch, &cc1);
    let profile = read_single_threaded(&path);
    let mut symbolizer = Symbolizer::default();
    let in_passes = profile.share(|record| {
        let names = symbolizer.names(&profile, record);
        let position = |part: &str| names.iter().position(|name| name.contains(part));
        matches!((position("execute_one_pass"), position("toplev")), (Some(pass), Some(main)) if pass < main)
    });
    assert!(in_passes >= 0.8, "{in_passes} of the samples are in a pass under toplev::main");
    go_pprof_top(&cc1, &path).expect_hottest("[cc1]", 70.0);
    let report = google_pprof_text(&cc1, &path);
    report.expect_total("execute_one_pass", 80.0);
    report.expect_total("toplev::main", 99.0);
}

/// git log with word differences on hundreds of commits: libc's regular expressions use the time.
#[test]
fn git_log_is_profiled_into_the_c_library() {
    let scratch = Scratch::new();
    let git = Path::new("/usr/bin/git");
    let repository = generated_repository(&scratch, 700);

    run_both(&scratch, git, 250, |command| {
        command.arg("--no-pager").arg("-C").arg(&repository);
        command.args(["log", "-p", "--word-diff-regex=.", "main"])
    });
    let path = scratch.path("prof");
    let profile = read_single_threaded(&path);
    let mut symbolizer = Symbolizer::default();
    let matching = profile.share(|record| symbolizer.calls(&profile, record, &["regexec", "/git"]));
    assert!(matching >= 0.1, "{matching} of the samples are in regexec called from git");
    let report = go_pprof_top(git, &path);
    report.expect_hottest("[libc.so", 30.0);
    report.expect_total("[git]", 99.0);
    google_pprof_text(git, &path).expect_total("regexec", 10.0);
}

/// A C++ program with threads, exceptions, and a plugin that is repeatedly loaded and unloaded.
#[test]
fn threads_exceptions_and_unloaded_plugins_have_their_callers() {
    let scratch = Scratch::new();
    let program = scratch.compile("throwing.cc", Linkage::None, &[]);
    let plugin = scratch.compile_library("plugin.cc", &[]);
    let finished = run_both(&scratch, &program, 250, |command| command.arg(&plugin).arg("1500"));
    assert_eq!(exit_code(finished.status), 7);
    let path = scratch.path("prof");
    let profile = read_multi_threaded(&path);
    let through_frames = ["hot_loop", "inner_step", "middle_step", "outer_step", "catching_step", "worker"];
    expect_chain(&profile, &through_frames, 0.3);
    expect_chain(&profile, &["plugin_loop", "plugin_work", "call_plugin", "worker"], 0.1);
    go_pprof_top(&program, &path).expect_hottest("hot_loop", 30.0);
    let callers = callers_in_go_pprof("hot_loop", &program, &path);
    assert!(callers.iter().all(|caller| caller.contains("inner_step")) && !callers.is_empty(), "{callers:?}");
    let report = google_pprof_text(&program, &path);
    report.expect_hottest("hot_loop", 30.0);
    report.expect_total("catching_step", 30.0);
    report.expect_total("plugin_work", 10.0);
}

/// An optimised Rust program without frame pointers; nearly all samples have the same second frame.
#[test]
fn rust_without_frame_pointers_has_stacks_from_main_to_the_leaf() {
    let scratch = Scratch::new();
    let executable = compile_rust(&scratch);
    let finished = run_both(&scratch, &executable, 250, |command| command.arg("1000000"));
    assert_eq!(exit_code(finished.status), 3);
    let path = scratch.path("prof");
    let profile = read_single_threaded(&path);
    expect_chain(&profile, &["collatz_steps", "longest_below", "visit_tree", "visit_tree"], 0.9);
    let mut symbolizer = Symbolizer::default();
    let from_main =
        profile.share(|record| symbolizer.calls(&profile, record, &["visit_tree", "known_work", "main"]));
    assert!(from_main >= 0.9, "{from_main} of the samples come through known_work from main");
    go_pprof_top(&executable, &path).expect_hottest("collatz_steps", 90.0);
    assert_eq!(callers_in_go_pprof("collatz_steps", &executable, &path), ["longest_below"]);
    assert_eq!(callers_in_go_pprof("longest_below", &executable, &path), ["visit_tree"]);
    let report = google_pprof_text(&executable, &path);
    report.expect_hottest("collatz_steps", 90.0);
    report.expect_total("longest_below", 90.0);
    report.expect_total("known_work", 90.0);
}
