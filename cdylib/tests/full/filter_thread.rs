//! The time of a thread that a filter accepts.

use crate::support::{Linkage, Profile, Scratch, Symbolizer, kernel_tick, plain, run};

/// A filter accepts one of several threads that compute: from the tick that finds this thread to
/// its last one, the profile has all of its time, and no other thread's.
#[test]
fn a_filter_of_one_thread_selects_its_time() {
    for linkage in [Linkage::Shared, Linkage::Static] {
        let scratch = Scratch::new();
        let program = scratch.compile("filter_thread.c", linkage, &["-O2", "-pthread"]);
        let mut command = plain(&program);
        let finished = run(command.arg(scratch.root()).env("CPUPROFILE_FREQUENCY", "250")).expect_success();
        let text = finished.text();
        let figures: Vec<f64> =
            text.split_whitespace().skip(1).map(|figure| figure.parse().expect("seconds")).collect();
        let [first, last, others] = figures[..] else { panic!("{text}") };
        let profile = Profile::read(&scratch.path("prof"));
        let mut symbols = Symbolizer::default();
        for record in &profile.records {
            let names = symbols.names(&profile, record);
            assert!(names.iter().all(|name| name != "other_work"), "{linkage:?}: {names:?}");
        }
        let sampled = profile.samples() as f64 / 250.0;
        // A tick represents whole periods, and is recorded a little later than it comes. The first
        // may represent all time that the process has used so far.
        let (time, around) = (last - first, 2.0 / 250.0 + kernel_tick());
        assert!(
            (time - around..=time + others + around).contains(&sampled),
            "{linkage:?}: {sampled:.3} of {time:.3} s, and {others:.3} before"
        );
    }
}
