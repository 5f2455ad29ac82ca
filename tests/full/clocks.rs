//! Sessions by one clock after another, in one process.

use crate::support::{process_cpu, repeat_until, spin_for_a_while};
use sigprof::{Clock, Profiler, Summary};
use std::time::Duration;

/// Time between two ticks of a kernel with HZ=100.
const LONGEST_KERNEL_TICK: Duration = Duration::from_millis(10);

/// What a session shows of itself while it runs and at its end, and CPU time that passed from before it to behind it.
struct Seen {
    so_far: Summary,
    end: Summary,
    around: Duration,
}

fn session(clock: Clock, signal: Option<i32>) -> Seen {
    let mut builder = Profiler::builder().clock(clock).frequency(250);
    if let Some(signal) = signal {
        builder = builder.timer_signal(signal);
    }
    let before = process_cpu();
    let profiler = builder.start_in_memory().unwrap();
    let mut so_far = *profiler.snapshot().unwrap().summary();
    // How much is in no sample at one moment is the scheduler's choice; what is lost stays so.
    let has_enough = |summary: &Summary| summary.sampled() > ENOUGH && !summary.is_short_of_time();
    let look = || {
        so_far = *profiler.snapshot().unwrap().summary();
        assert!(so_far.timer_ticks < 1000, "{clock}, {signal:?}: too little in samples: {so_far:?}");
        has_enough(&so_far)
    };
    repeat_until(look, spin_for_a_while);
    let end = *profiler.stop().unwrap().summary();
    Seen { so_far, end, around: process_cpu() - before }
}

/// In samples; far more than what may be missing in them by chance.
const ENOUGH: Duration = Duration::from_millis(200);

/// What one clock has counted is nothing to the next: each session has its time, and lacks none.
#[test]
fn clocks_come_one_after_another() {
    for (clock, signal) in [
        (Clock::Wall, None),
        (Clock::Itimer, None),
        (Clock::Cpu, None),
        (Clock::Wall, Some(40)),
        (Clock::Cpu, Some(40)),
        (Clock::Itimer, None),
        // Another than the last one is not to be had, and its own is.
        (Clock::Cpu, Some(41)),
        (Clock::Perf, Some(40)),
        (Clock::Itimer, Some(40)),
        (Clock::Wall, None),
    ] {
        let Seen { so_far, end, around } = session(clock, signal);
        let told = |summary: &Summary| summary.sampled() + summary.unaccounted;
        let margin = end.period * u32::try_from(end.threads.count()).unwrap() + LONGEST_KERNEL_TICK;
        // A look at a session reads the counts before the clock, and what is in no sample behind both; its end is noted before
        // the last tick is counted.
        assert!(told(&so_far) <= so_far.clock_time() + margin, "{clock}, {signal:?}: {so_far:?}");
        assert!(told(&end) + margin >= end.clock_time(), "{clock}, {signal:?}: {end:?}");
        if clock != Clock::Wall {
            assert!(end.sampled() <= around + margin, "{clock}, {signal:?}: {around:?} for {end:?}");
        }
    }
}
