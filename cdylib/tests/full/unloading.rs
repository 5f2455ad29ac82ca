//! Libraries that are loaded and unloaded under a storm of ticks, from other threads and a timer.

use crate::support::unloading::{
    CALLERS, Outcome, Settings, run_unloading, run_unseen_unloading, ticks_in_right_chains,
};
use crate::support::{Profile, Scratch};

/// The storm's settings; a busy machine has fewer rounds.
fn storm(order: &'static str) -> Settings {
    Settings { frequency: 4000, rounds: 3000, order }
}

#[track_caller]
fn expect_right_chains(outcome: &Outcome, profile: &Profile) {
    // Any concurrent mapping of the loader or libc may take the place for some time.
    let (same, rounds) = (outcome.at_same_place, outcome.rounds);
    assert!(same > rounds / 2, "only {same} times of {rounds}: nothing is shown");
    // One tick in each round is sent in each function. None is lost, because slots are held only
    // briefly. The number of other ticks depends on the machine.
    let counts = ticks_in_right_chains(outcome, profile);
    for ((function, _), count) in CALLERS.iter().zip(counts) {
        assert!(count >= rounds, "{function}: {count} of {rounds}");
    }
}

/// Fails if `while_unloading` in `src/interface/objects.rs` omits `engine.rules().retain(..)`: the
/// caller of `in_library` was then a value in the middle of its frame.
#[test]
fn no_stack_is_walked_by_rules_of_an_unloaded_library() {
    let scratch = Scratch::new();
    let (outcome, profile) = run_unloading(&scratch, &storm(""));
    expect_right_chains(&outcome, &profile);
}

/// Fails by SIGSEGV if `Gate::unload` in `src/sample/unwind/gate.rs` does not close the gate.
#[test]
fn code_that_is_being_unloaded_can_be_looked_up() {
    let scratch = Scratch::new();
    let (outcome, profile) = run_unloading(&scratch, &storm("guess"));
    expect_right_chains(&outcome, &profile);
    let guessed = profile.records.iter().filter(|record| outcome.is_guessed(record));
    let led_on: usize = guessed
        .filter(|record| record.pcs.get(1).is_some_and(|&pc| outcome.is_in_library(pc)))
        .map(|record| record.count)
        .sum();
    assert!(led_on > outcome.rounds, "{led_on} guesses led into the library");
}

/// A program opens the library, then opens and closes others unseen by it, under a storm of ticks:
/// no stack is walked by rules of an earlier library.
#[test]
fn other_libraries_can_be_unloaded_unseen() {
    let scratch = Scratch::new();
    let (outcome, profile) = run_unseen_unloading(&scratch, &storm("guess"));
    assert!(outcome.rounds >= 300 && profile.samples() > outcome.rounds);
}
