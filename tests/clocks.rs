//! Successive sessions with each clock, and the weights of their ticks.
#![cfg(feature = "runtime")]

mod support;

use std::time::Duration;

use sigprof::{Clock, Profiler};
use support::{in_own_process, process_cpu, repeat_until, signals::send_to_self, spin_for_a_while};

/// The setup of one session does not affect the next: each takes ticks by its own signal.
#[test]
fn each_session_uses_its_own_clock_and_signal() {
    in_own_process("each_session_uses_its_own_clock_and_signal", || {
        for (clock, asked_for, signal) in [
            (Clock::Wall, None, libc::SIGALRM),
            (Clock::Itimer, None, libc::SIGPROF),
            (Clock::Cpu, None, libc::SIGPROF),
            (Clock::Wall, Some(40), 40),
            (Clock::Cpu, Some(40), 40),
            (Clock::Itimer, None, libc::SIGPROF),
            // A process has one such signal, 40 here; the default replaces another one.
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

/// A tick's weight is all time since the last tick: samples and unaccounted time add up to the
/// session's CPU time. Their ratio depends on the scheduler, their sum does not.
#[test]
fn samples_and_unaccounted_time_add_up() {
    /// The interval of a kernel with HZ=100.
    const KERNEL_TICK: Duration = Duration::from_millis(10);
    /// Far more than the margin.
    const ENOUGH: Duration = Duration::from_millis(200);
    in_own_process("samples_and_unaccounted_time_add_up", || {
        for clock in [Clock::Itimer, Clock::Cpu, Clock::Perf] {
            let before = process_cpu();
            let profiler = Profiler::builder().clock(clock).frequency(1000).start_in_memory().unwrap();
            let has_enough = || profiler.snapshot().unwrap().summary().sampled() >= ENOUGH;
            repeat_until(has_enough, spin_for_a_while);
            let summary = *profiler.stop().unwrap().summary();
            let passed = process_cpu() - before;
            let accounted = summary.sampled() + summary.unaccounted;
            // Weights are whole periods, for each of two threads; the clocks are read in turn.
            let margin = 2 * summary.period + KERNEL_TICK;
            assert!(accounted + margin >= summary.process_cpu, "{clock}: {summary:?}");
            assert!(accounted <= passed + margin, "{clock}: {passed:?} passed: {summary:?}");
        }
    });
}
