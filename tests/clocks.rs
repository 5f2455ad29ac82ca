//! Sessions by one clock after another, in one process.
#![cfg(feature = "runtime")]

mod support;

use sigprof::{Clock, Profiler};
use support::{in_own_process, repeat_until, signals::send_to_self};

/// What one session has set up is nothing to the next: each one takes ticks by its own signal.
#[test]
fn clocks_come_one_after_another() {
    in_own_process("clocks_come_one_after_another", || {
        for (clock, asked_for, signal) in [
            (Clock::Wall, None, libc::SIGALRM),
            (Clock::Itimer, None, libc::SIGPROF),
            (Clock::Cpu, None, libc::SIGPROF),
            (Clock::Wall, Some(40), 40),
            (Clock::Cpu, Some(40), 40),
            (Clock::Itimer, None, libc::SIGPROF),
            // A process has one such signal: the second one is refused.
            (Clock::Cpu, Some(41), libc::SIGPROF),
            (Clock::Perf, Some(40), 40),
            (Clock::Itimer, Some(40), 40),
            (Clock::Wall, None, libc::SIGALRM),
        ] {
            let mut builder = Profiler::builder().clock(clock).frequency(1);
            if let Some(signal) = asked_for {
                builder = builder.timer_signal(signal);
            }
            let profiler = builder.start_in_memory().unwrap();
            let has_ticks = || profiler.snapshot().unwrap().summary().foreign_ticks >= 3;
            repeat_until(has_ticks, || send_to_self(signal));
            let summary = *profiler.stop().unwrap().summary();
            assert!(summary.samples >= 3, "{clock}, {asked_for:?}: {summary:?}");
            assert_eq!(summary.losses.periods(), 0, "{clock}, {asked_for:?}");
        }
    });
}
