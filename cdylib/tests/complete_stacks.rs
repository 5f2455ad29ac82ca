//! Stacks through functions without frame pointers, a function without a frame, and a handler of
//! the application. `ci/cross.sh` runs these tests for other machines, see `support/mod.rs`.

mod support;

use support::{Linkage, Profile, Root, Scratch, Symbolizer, profiled, quietly, run};

/// Ticks of each kind.
const TICKS: usize = 100;

#[track_caller]
fn expect_complete_stacks(flags: &[&str]) {
    const CALLERS: [&str; 5] = ["innermost", "middle", "outermost", "work", "main"];
    let scratch = Scratch::new();
    let program = scratch.compile("callers.c", Linkage::None, flags);
    let path = scratch.path("prof");
    run(quietly(profiled(program, &path).arg(TICKS.to_string()))).expect_success();
    let profile = Profile::read(&path);
    let mut symbols = Symbolizer::default();

    let (mut in_function, mut in_handler, mut in_handler_with_context) = (0, 0, 0);
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        assert_eq!(symbols.root(&profile, record), Root::Process, "{names:?}");
        // The trampoline is between the handler and the interrupted function. It has no name in the
        // program's own symbols.
        let (count, callers) = match names[0].as_str() {
            "in_handler" if names[1] == "on_alarm" => (&mut in_handler, &names[3..]),
            "in_handler" => (&mut in_handler_with_context, &names[3..]),
            _ => (&mut in_function, &names[..]),
        };
        assert!(callers.starts_with(&CALLERS.map(String::from)), "{names:?}");
        *count += record.count;
    }
    assert_eq!((in_function, in_handler, in_handler_with_context), (TICKS, TICKS, TICKS));
}

#[test]
fn stacks_without_frame_pointers_are_complete() {
    expect_complete_stacks(&["-fomit-frame-pointer"]);
}

#[test]
fn stacks_with_frame_pointers_are_complete() {
    expect_complete_stacks(&["-fno-omit-frame-pointer"]);
}

/// Programs with unused pages between their segments, which lld sometimes leaves: the loader has
/// several ranges. At addresses of and within a page, and in a program at fixed addresses.
#[test]
fn stacks_in_programs_with_gaps_are_complete() {
    for text in ["0x400000", "0x4005c0", "0x900000", "0x900840"] {
        for kind in ["-pie", "-no-pie"] {
            let code = if kind == "-pie" { "-fPIE" } else { "-fno-pie" };
            let place = format!("-Wl,-z,separate-code,-Ttext={text}");
            // A program at fixed addresses begins at 0x400000.
            if kind == "-pie" || text.starts_with("0x9") {
                expect_complete_stacks(&["-fomit-frame-pointer", code, kind, &place]);
            }
        }
    }
}

/// Functions with protected return addresses: on aarch64 these are stored with a signature in their
/// high bits, elsewhere the flag is another one.
#[test]
fn stacks_of_guarded_functions_are_complete() {
    let guard =
        if support::is_for_aarch64() { "-mbranch-protection=pac-ret+leaf" } else { "-fcf-protection" };
    expect_complete_stacks(&[guard, "-fomit-frame-pointer"]);
}
