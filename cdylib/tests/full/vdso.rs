//! Ticks in the vDSO.

use crate::support::{Linkage, Profile, Root, Scratch, Symbolizer, profiled, run};

#[test]
fn the_vdso_leads_to_its_callers() {
    let scratch = Scratch::new();
    let program = scratch.compile("odd_code.c", Linkage::None, &[]);
    let path = scratch.path("prof");
    run(profiled(program, &path).env("CPUPROFILE_FREQUENCY", "1").arg("vdso")).expect_success();
    let profile = Profile::read(&path);
    let mut symbols = Symbolizer::default();
    let mut in_kernels_code = 0;
    for record in &profile.records {
        let names = symbols.names(&profile, record);
        let Some(behind) = names.iter().rposition(|name| name == "[vdso]").map(|last| &names[last + 1..])
        else {
            continue;
        };
        in_kernels_code += record.count;
        // If libc's function ends in a jump, it has no frame.
        let caller = behind.iter().position(|name| name == "ask_for_the_time");
        assert!(caller.is_some_and(|caller| caller <= 1), "{names:?}");
        assert_eq!(symbols.root(&profile, record), Root::Process, "{names:?}");
    }
    assert!(in_kernels_code * 20 > profile.samples(), "{in_kernels_code} of {}", profile.samples());
}
