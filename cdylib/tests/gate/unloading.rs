//! Libraries that come and go under ticks: no chain is walked by the rules of another library that was there before,
//! and looking up code that is just going is no fault. And the loader finds what it found without us.

use std::path::Path;

#[cfg(target_arch = "x86_64")]
use crate::support::unloading::{CALLERS, Settings, run_unloading, ticks_in_right_chains};
use crate::support::{Linkage, Profile, Scratch, plain, preload, profiled, run};

/// Each chain through the library leads to its caller by the library's own rules, in each round.
///
/// Fails when `while_unloading` in `src/interface/objects.rs` leaves out `engine.rules().retain(..)`: `in_library` was called
/// by whatever stands in the middle of its frame.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_chain_is_walked_by_the_rules_of_a_library_that_is_gone() {
    const ROUNDS: usize = 50;
    let scratch = Scratch::new();
    let settings = Settings { frequency: 1, rounds: ROUNDS, order: "calm" };
    let (outcome, profile) = run_unloading(&scratch, &settings);
    assert!(outcome.at_same_place > 0, "the libraries had no place in common: nothing is shown");
    // Two rounds more, which are not counted, come first.
    assert_eq!(ticks_in_right_chains(&outcome, &profile), [ROUNDS + 2; CALLERS.len()]);
}

/// Compiles a library that opens another by its bare name, which only its own RUNPATH leads to, and the program.
fn opening_by_runpath(scratch: &Scratch) -> [std::path::PathBuf; 2] {
    let inner = scratch.compile_library("plugin_tick.c", &[]);
    let below = scratch.directory("below");
    std::fs::rename(&inner, below.join("libplugin_tick.so")).expect("our own directory");
    let opener = scratch.compile_library("opener.c", &["-Wl,-rpath,$ORIGIN/below", "-Wl,--enable-new-dtags"]);
    [scratch.compile("opens_by_name.c", Linkage::None, &[]), opener]
}

/// The loader looks for a library where its caller's RUNPATH says; a `dlopen` of ours would be the caller.
#[test]
fn a_library_is_found_through_its_callers_own_runpath() {
    let scratch = Scratch::new();
    let [program, opener] = opening_by_runpath(&scratch);
    let arguments = [opener.as_os_str(), "libplugin_tick.so".as_ref()];
    run(plain(&program).args(arguments)).expect_success();
    run(preload(&program).args(arguments)).expect_success();
    run(profiled(&program, &scratch.path("prof")).args(arguments)).expect_success();
    Profile::read(&scratch.path("prof"));
}

/// What the test above is there for: with a `dlopen` in front of the C library's, that library is not found.
#[test]
fn a_wrapped_dlopen_does_not_find_the_library() {
    let scratch = Scratch::new();
    let [program, opener] = opening_by_runpath(&scratch);
    let wrapper = scratch.compile_library("dlopen_wrapper.c", &[]);
    let mut command = plain(&program);
    command.env("LD_PRELOAD", &wrapper).args([opener.as_os_str(), "libplugin_tick.so".as_ref()]);
    let finished = run(&mut command);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    assert!(finished.text().contains("libplugin_tick.so"), "{}", finished.text());
    assert!(Path::new(&opener).exists());
}
