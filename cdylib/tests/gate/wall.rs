//! Clock `wall`: threads that wait are in the profile, and system calls continue after a tick.
//! `full/wall.rs` measures their time.

use crate::support::wall::Run;
use crate::support::{Profile, Scratch, Symbolizer, shared_library};

/// Runs the program until each of these functions has a sample, with more samples each time: the
/// scheduler decides when a thread takes its tick.
#[track_caller]
fn run_until_sampled(scratch: &Scratch, order: &str, functions: &[String]) -> Run {
    let mut missing = Vec::new();
    for samples in ["100", "1000", "10000"] {
        let mut run = Run::of(scratch, &[order, samples], &[("CPUPROFILE_FREQUENCY", "1000")]);
        missing = functions.iter().filter(|function| run.sampled_in(function) == 0.0).collect();
        if missing.is_empty() {
            return run;
        }
    }
    panic!("in no sample: {missing:?}");
}

/// System calls that signal(7) lists as restarted with SA_RESTART are; each wait is in the profile.
#[test]
fn waits_continue_after_ticks_and_are_sampled() {
    let scratch = Scratch::new();
    let kinds = ["read", "waitpid", "mutex", "cond", "semaphore", "flock", "open", "accept", "recv"];
    let mut run = run_until_sampled(&scratch, "waits", &kinds.map(|kind| format!("waits_in_{kind}")));
    for kind in kinds {
        let said: Vec<_> = run.finished.text().lines().map(str::to_owned).collect();
        assert!(!said.iter().any(|line| line.starts_with(kind)), "{said:?}");
    }
    // New threads jump to their functions: from there on, no stack has a frame of the library.
    let library = shared_library().file_name().expect("a name").to_string_lossy().into_owned();
    let is_ours = |pc: &usize| {
        let mapping = run.profile.mapping_of(*pc);
        mapping.is_some_and(|mapping| mapping.path.contains(&library))
    };
    for record in &run.profile.records {
        let names = run.symbols.names(&run.profile, record);
        let is_in_its_function = names.iter().any(|name| name.starts_with("waits_in_"));
        assert!(!is_in_its_function || !record.pcs.iter().any(is_ours), "a frame of ours: {names:?}");
    }
}

#[test]
fn a_thread_without_pthread_create_is_found() {
    let scratch = Scratch::new();
    run_until_sampled(&scratch, "other-ways", &["made_otherwise".to_owned()]);
}

/// A program that handles SIGALRM gets all of its signals; a diagnostic names missing threads.
#[test]
fn reports_missing_threads_of_a_program_that_handles_the_signal() {
    let scratch = Scratch::new();
    let run = Run::of(&scratch, &["handles"], &[("CPUPROFILE_FREQUENCY", "250")]);
    let [line] = run.finished.complaints()[..] else { panic!("{}", run.finished.stderr) };
    assert!(line.starts_with("sigprof: only the first thread is sampled in the profile at "), "{line}");
    assert!(line.contains("CPUPROFILE_TIMER_SIGNAL"), "{line}");
    // With another signal nothing is missing.
    let settings = [("CPUPROFILE_FREQUENCY", "250"), ("CPUPROFILE_TIMER_SIGNAL", "SIGRTMIN+5")];
    let mut run = Run::of(&scratch, &["handles"], &settings);
    assert_eq!(run.finished.complaints(), <[&str; 0]>::default());
    assert!(run.sampled_in("waits_with_others") > 0.0);
}

#[test]
fn threads_of_a_child_are_in_its_own_profile() {
    let scratch = Scratch::new();
    let parent = Run::of(&scratch, &["forks"], &[("CPUPROFILE_FREQUENCY", "1000")]);
    let names = scratch.names("prof_");
    let [name] = &names[..] else { panic!("{names:?}") };
    let profile = Profile::read(&scratch.path(name));
    let mut child = Run { finished: parent.finished, profile, symbols: Symbolizer::default() };
    assert!(child.sampled_in("waits_with_others") > 0.0);
}

#[test]
fn the_main_thread_can_exit_before_the_others() {
    let scratch = Scratch::new();
    let mut run = Run::of(&scratch, &["leader-ends"], &[("CPUPROFILE_FREQUENCY", "250")]);
    assert!(run.sampled_in("outlives") > 0.0);
}
