//! Libraries that come and go under a storm of ticks, from other threads and from a timer.

use crate::support::unloading::{
    CALLERS, Outcome, Settings, run_unloading, run_unseen_unloading, ticks_in_right_chains,
};
use crate::support::{Profile, Scratch};

/// How the storm is made; on a busy machine there are fewer rounds.
fn storm(order: &'static str) -> Settings {
    Settings { frequency: 4000, rounds: 3000, order }
}

#[track_caller]
fn expect_right_chains(outcome: &Outcome, profile: &Profile) {
    // Any mapping that the loader or the C library makes meanwhile may take the place, and give it back later.
    let (same, rounds) = (outcome.at_same_place, outcome.rounds);
    assert!(same > rounds / 2, "only {same} times of {rounds}: nothing is shown");
    // One tick in each round is sent in each function. They are not lost, since nobody else holds slots for long; what the
    // storm adds depends on the machine.
    let counts = ticks_in_right_chains(outcome, profile);
    for ((function, _), count) in CALLERS.iter().zip(counts) {
        assert!(count >= rounds, "{function}: {count} of {rounds}");
    }
}

/// Fails when `while_unloading` in `src/interface/objects.rs` leaves out `engine.rules().retain(..)`: `in_library` was called
/// by whatever stands in the middle of its frame.
#[test]
fn no_stack_is_walked_by_rules_of_an_unloaded_library() {
    let scratch = Scratch::new();
    let (outcome, profile) = run_unloading(&scratch, &storm(""));
    expect_right_chains(&outcome, &profile);
}

/// Fails, by SIGSEGV, when `Gate::unload` in `src/sample/unwind/gate.rs` does not close the gate and wait.
#[test]
fn code_that_is_just_being_unloaded_can_be_looked_up() {
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

/// A program opens the library and then other libraries, over and over, which it closes without telling it, under a storm of
/// ticks: none is walked where a library was before.
#[test]
fn other_libraries_can_be_unloaded_unseen() {
    let scratch = Scratch::new();
    let (outcome, profile) = run_unseen_unloading(&scratch, &storm("guess"));
    assert!(outcome.rounds >= 300 && profile.samples() > outcome.rounds);
}
