//! Libraries that are loaded and unloaded under ticks: no stack is walked by rules of an unloaded
//! library, look-ups in its code are safe, and the loader finds the same libraries.

use std::path::Path;

#[cfg(target_arch = "x86_64")]
use crate::support::unloading::{CALLERS, Settings, run_unloading, ticks_in_right_chains};
use crate::support::{Linkage, Profile, Scratch, plain, preload, profiled, run};

/// Each stack through the library leads to its caller by the library's own rules, in each round.
///
/// Fails if `while_unloading` in `src/interface/objects.rs` omits `engine.rules().retain(..)`: the
/// caller of `in_library` was then a value in the middle of its frame.
#[test]
#[cfg(target_arch = "x86_64")]
fn no_stack_is_walked_by_rules_of_an_unloaded_library() {
    const ROUNDS: usize = 50;
    let scratch = Scratch::new();
    let settings = Settings { frequency: 1, rounds: ROUNDS, order: "calm" };
    let (outcome, profile) = run_unloading(&scratch, &settings);
    assert!(outcome.at_same_place > 0, "the libraries had no place in common: nothing is shown");
    // Two rounds that are not counted come first.
    assert_eq!(ticks_in_right_chains(&outcome, &profile), [ROUNDS + 2; CALLERS.len()]);
}

/// Compiles the program, and a library that opens another by a name that needs its RUNPATH.
fn opening_by_runpath(scratch: &Scratch) -> [std::path::PathBuf; 2] {
    let inner = scratch.compile_library("plugin_tick.c", &[]);
    let below = scratch.directory("below");
    std::fs::rename(&inner, below.join("libplugin_tick.so")).expect("our own directory");
    let opener = scratch.compile_library("opener.c", &["-Wl,-rpath,$ORIGIN/below", "-Wl,--enable-new-dtags"]);
    [scratch.compile("opens_by_name.c", Linkage::None, &[]), opener]
}

/// The loader uses the RUNPATH of the library that calls `dlopen`: ours must not be the caller.
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

/// Proves the test above: if a library wraps `dlopen`, the other library is not found.
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
