//! Applications with small alternate stacks, coroutines, or code that switches stacks.

use crate::support::{Linkage, Scratch, expect_status, plain, preload, quietly, run, samples_at};
#[cfg(target_arch = "x86_64")]
use crate::support::{Profile, Record, Root, Symbolizer, profiled, quietly_with_threads};

/// Alternate stacks with little or no more room than the kernel's frame needs: no tick uses them.
#[test]
fn small_alternate_stacks_are_not_used() {
    let scratch = Scratch::new();
    let linked = scratch.compile("signal_stacks.c", Linkage::Shared, &[]);
    for size in ["2048", "3072", "3584", "4096"] {
        for when in ["before", "after"] {
            for mut command in [plain(&linked), preload(&linked)] {
                let path = scratch.path(&format!("prof-{size}-{when}"));
                let finished = run(quietly(&mut command).arg(&path).args([size, when]));
                println!("{size} bytes, {when} the start");
                expect_status(&finished, 0);
                let sent: usize = finished.text().trim().parse().expect("the number of ticks");
                assert!(samples_at(&path) >= sent);
            }
        }
    }
}

/// Runs a case of `programs/switched_stacks.c`: one tick in each of a hundred rounds.
#[track_caller]
#[cfg(target_arch = "x86_64")]
fn profile_on_switched_stack(scratch: &Scratch, case: &str) -> Profile {
    let program = scratch.compile("switched_stacks.c", Linkage::None, &[]);
    let finished = run(quietly_with_threads(&mut profiled(program, &scratch.path("prof"))).arg(case));
    expect_status(&finished, 0);
    let profile = Profile::read(&scratch.path("prof"));
    assert_eq!(profile.samples(), 100, "{case}");
    profile
}

/// A coroutine's stacks lead to its entry function, and end as libc's call frame information says.
#[test]
#[cfg(target_arch = "x86_64")]
fn stacks_of_a_coroutine_lead_to_its_entry() {
    let scratch = Scratch::new();
    let profile = profile_on_switched_stack(&scratch, "coroutine");
    let mut symbols = Symbolizer::default();
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        assert!(symbols.calls(&profile, record, &["tick", "nested", "coroutine_entry"]), "{names:?}");
        let behind = names.iter().skip_while(|name| !name.contains("coroutine_entry")).skip(1);
        let is_start = |name: &String| name.contains("start_context") || name.contains("libc.so");
        assert!(behind.clone().count() <= 1 && behind.clone().all(is_start), "{names:?}");
    }
}

/// Code that switches stacks is walked by its call frame information, to the thread's entry point.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_walk_leads_from_one_stack_to_another() {
    for case in ["above", "below"] {
        let scratch = Scratch::new();
        let profile = profile_on_switched_stack(&scratch, case);
        let mut symbols = Symbolizer::default();
        for record in &profile.records {
            expect_switched_chain(&mut symbols, &profile, record);
        }
    }
}

#[track_caller]
#[cfg(target_arch = "x86_64")]
fn expect_switched_chain(symbols: &mut Symbolizer, profile: &Profile, record: &Record) {
    let names = symbols.names(profile, record);
    let chain = ["tick", "nested", "switching_entry", "call_on_stack", "switch_stack"];
    assert!(symbols.calls(profile, record, &chain), "{names:?}");
    assert!(matches!(symbols.root(profile, record), Root::LibC(_)), "{names:?}");
}
