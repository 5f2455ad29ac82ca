//! Successive sessions with each clock in one process.

use crate::support::{process_cpu, repeat_until, spin_for_a_while};
use sigprof::{Clock, Profiler, Summary};
use std::time::Duration;

/// The interval of a kernel with HZ=100.
const LONGEST_KERNEL_TICK: Duration = Duration::from_millis(10);

/// A session's summary while it runs and at its end, and the CPU time around the session.
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
    // The unaccounted time at one moment depends on the scheduler; lost time stays unaccounted.
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

/// Time in samples, far more than may be missing by chance.
const ENOUGH: Duration = Duration::from_millis(200);

/// The counts of one session do not affect the next: each accounts for its own time.
#[test]
fn each_session_accounts_for_its_own_time() {
    for (clock, signal) in [
        (Clock::Wall, None),
        (Clock::Itimer, None),
        (Clock::Cpu, None),
        (Clock::Wall, Some(40)),
        (Clock::Cpu, Some(40)),
        (Clock::Itimer, None),
        // A process has one such signal, 40 here: another one is refused, and the default is used.
        (Clock::Cpu, Some(41)),
        (Clock::Perf, Some(40)),
        (Clock::Itimer, Some(40)),
        (Clock::Wall, None),
    ] {
        let Seen { so_far, end, around } = session(clock, signal);
        let accounted = |summary: &Summary| summary.sampled() + summary.unaccounted;
        let margin = end.period * u32::try_from(end.threads.count()).unwrap() + LONGEST_KERNEL_TICK;
        // A snapshot reads the counts, the clock, then the unaccounted time; a stop reads the clock
        // before it counts the last tick.
        assert!(accounted(&so_far) <= so_far.clock_time() + margin, "{clock}, {signal:?}: {so_far:?}");
        assert!(accounted(&end) + margin >= end.clock_time(), "{clock}, {signal:?}: {end:?}");
        if clock != Clock::Wall {
            assert!(end.sampled() <= around + margin, "{clock}, {signal:?}: {around:?} for {end:?}");
        }
    }
}
