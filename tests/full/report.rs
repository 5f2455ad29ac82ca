//! The report of a profile of timer ticks.

use sigprof::Profiler;

use crate::support::{count_under, in_own_process, is_called, repeat_until, spin_for_a_while};

#[test]
fn the_report_has_the_hot_function_on_top() {
    in_own_process("report::the_report_has_the_hot_function_on_top", || {
        let profiler = Profiler::builder().frequency(250).start_in_memory().unwrap();
        let mut profile = profiler.snapshot().unwrap();
        // Snapshots take the rest: a millisecond for each tenth of a second, more if emulated.
        let has_enough = || {
            profile = profiler.snapshot().unwrap();
            profile.summary().timer_ticks >= 1000
        };
        repeat_until(has_enough, || (0..40).for_each(|_| spin_for_a_while()));
        profiler.stop().unwrap();
        let samples = profile.summary().samples;
        let report = profile.report();
        let hottest = &report.functions()[0];
        assert!(is_called(&hottest.name, "spin"), "{report}");
        assert!(hottest.flat * 10 >= samples * 8, "{report}");
        assert_eq!(hottest.cumulative, hottest.flat, "it calls nothing");
        assert_eq!(count_under(profile.samples(), &["spin", "calls_spin"]), hottest.flat);
        let caller = report.functions().iter().find(|function| is_called(&function.name, "calls_spin"));
        let caller = caller.expect("the caller is there");
        assert!(caller.cumulative >= hottest.flat && caller.flat < samples / 10, "{report}");
        let flat: u64 = report.functions().iter().map(|function| function.flat).sum();
        assert_eq!(flat, samples, "every sample has one innermost function");
        assert!(report.functions().iter().all(|function| function.cumulative <= samples));
        let text = report.to_string();
        let first_row = text.lines().nth(2).expect("two lines of headings");
        assert!(first_row.ends_with(&hottest.name), "{text}");
    });
}
