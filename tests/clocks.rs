//! Sessions by one clock after another, in one process.

use sigprof::{Clock, Profiler, Summary};
use std::time::{Duration, Instant};

/// Computes for so much of its own time.
fn compute(seconds: f64) {
    let start = Instant::now();
    let mut work = 1u64;
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..1000 {
            work = std::hint::black_box(work.wrapping_mul(5).wrapping_add(3));
        }
    }
}

fn session(clock: Clock, signal: Option<i32>) -> Summary {
    let mut builder = Profiler::builder().clock(clock).frequency(250);
    if let Some(signal) = signal {
        builder = builder.timer_signal(signal);
    }
    let profiler = builder.start_in_memory().unwrap();
    compute(0.3);
    *profiler.stop().unwrap().summary()
}

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
        let summary = session(clock, signal);
        let (time, sampled) = (summary.clock_time(), summary.sampled());
        assert!(sampled > Duration::from_millis(20), "{clock}, {signal:?}: {summary:?}");
        assert!(!summary.is_short_of_time(), "{clock}, {signal:?}: {summary:?}");
        let off = sampled.as_secs_f64() + summary.unaccounted.as_secs_f64() - time.as_secs_f64();
        assert!(off.abs() < 0.05, "{clock}, {signal:?}: {sampled:?} of {time:?}, {summary:?}");
    }
}
