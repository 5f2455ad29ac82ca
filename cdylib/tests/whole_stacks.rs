//! Chains through functions without frame pointers, a function without a frame, and a handler of the host's: the same
//! on every machine. `ci/cross.sh` runs these tests for machines other than the one they run on, see `support/mod.rs`.

mod support;

use support::{Linkage, Profile, Record, Root, Scratch, Symbolizer, profiled, run};

/// Nearly every sample: a tick may meet the few instructions around the loops.
const NEARLY_ALL: f64 = 0.97;

/// Compiles the program, and gives its profile and a symbolizer.
#[track_caller]
fn profile_of_callers(scratch: &Scratch, flags: &[&str]) -> Profile {
    let program = scratch.compile("callers.c", Linkage::None, flags);
    let path = scratch.path("prof");
    run(profiled(program, &path).arg("4000").env("CPUPROFILE_FREQUENCY", "250")).expect_success();
    let profile = Profile::read(&path);
    assert!(profile.samples() >= 100, "{} samples", profile.samples());
    profile
}

/// The names of a record whose innermost function is `name`.
fn names_within(
    symbols: &mut Symbolizer,
    profile: &Profile,
    record: &Record,
    name: &str,
) -> Option<Vec<String>> {
    let names = symbols.names(profile, record);
    (names[0] == name).then_some(names)
}

#[track_caller]
fn expect_whole_stacks(flags: &[&str]) {
    const CALLERS: [&str; 5] = ["innermost", "middle", "outermost", "work", "main"];
    let scratch = Scratch::new();
    let profile = profile_of_callers(&scratch, flags);
    let mut symbols = Symbolizer::default();

    let whole = profile.share(|record| symbols.root(&profile, record) == Root::Process);
    assert!(whole >= NEARLY_ALL, "only {whole} of the samples end at the entry point");

    // The function without a frame, with each of its callers once.
    let mut innermost = |record: &Record| names_within(&mut symbols, &profile, record, "innermost");
    let all = profile.share(|record| innermost(record).is_some());
    let right = profile
        .share(|record| innermost(record).is_some_and(|names| names.starts_with(&CALLERS.map(String::from))));
    assert!(
        all > 0.1 && right >= NEARLY_ALL * all,
        "{right} of {all} in the innermost function have its callers"
    );

    // The handler, behind its trampoline the function that it interrupted, and that one's callers.
    let mut handler = |record: &Record| names_within(&mut symbols, &profile, record, "in_handler");
    let interrupted = |names: &[String]| {
        let Some(place) = names.iter().position(|name| name == "innermost") else { return false };
        // Between them stand the handler and the trampoline, which has no name in the program's own symbols.
        place == 3
            && names[1].starts_with("on_alarm")
            && names[place..].starts_with(&CALLERS.map(String::from))
    };
    for kind in ["on_alarm", "on_alarm_with_context"] {
        let mut of_kind =
            |record: &Record| handler(record).filter(|names| names.get(1).is_some_and(|name| name == kind));
        let all = profile.share(|record| of_kind(record).is_some());
        let right = profile.share(|record| of_kind(record).is_some_and(|names| interrupted(&names)));
        // How often the handler runs depends on the kernel's tick; a tenth of these may be on its first or last
        // instructions.
        assert!(all * profile.samples() as f64 >= 20.0, "{all} of the samples are in the handler {kind}");
        assert!(right >= 0.9 * all, "{right} of {all} in the handler {kind} show what it interrupted");
    }
}

#[test]
fn stacks_without_frame_pointers_are_whole() {
    expect_whole_stacks(&["-fomit-frame-pointer"]);
}

#[test]
fn stacks_with_frame_pointers_are_whole() {
    expect_whole_stacks(&["-fno-omit-frame-pointer"]);
}

/// Each function guarded against a return address that was overwritten: on aarch64 it is stored with a signature in its
/// high bits, elsewhere the flag is another one.
#[test]
fn stacks_of_guarded_functions_are_whole() {
    let guard =
        if support::is_for_aarch64() { "-mbranch-protection=pac-ret+leaf" } else { "-fcf-protection" };
    expect_whole_stacks(&[guard, "-fomit-frame-pointer"]);
}
