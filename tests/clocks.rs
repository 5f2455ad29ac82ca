//! Sessions by one clock after another, and the time that ticks of each clock stand for.
#![cfg(feature = "runtime")]

mod support;

use std::time::Duration;

use sigprof::{Clock, Profiler};
use support::{in_own_process, process_cpu, repeat_until, signals::send_to_self, spin_for_a_while};

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

/// A tick stands for all time since the one before: the session's samples and its unaccounted time are the time that passed.
///
/// The bounds are clocks that are read on either side, so they hold on any machine, however many ticks the kernel sends.
#[test]
fn samples_stand_for_the_time_that_passed() {
    /// Between two ticks of a kernel with HZ=100.
    const KERNEL_TICK: Duration = Duration::from_millis(10);
    const ENOUGH: Duration = Duration::from_millis(200);
    in_own_process("samples_stand_for_the_time_that_passed", || {
        for clock in [Clock::Itimer, Clock::Cpu, Clock::Perf] {
            let before = process_cpu();
            let profiler = Profiler::builder().clock(clock).frequency(1000).start_in_memory().unwrap();
            let started = process_cpu();
            repeat_until(|| process_cpu() - started >= ENOUGH, spin_for_a_while);
            // What was used until here is in a sample after this thread has had one more tick.
            let ticks = || profiler.snapshot().unwrap().summary().timer_ticks;
            let so_far = ticks();
            repeat_until(|| ticks() > so_far + 1, spin_for_a_while);
            let summary = *profiler.stop().unwrap().summary();
            let passed = process_cpu() - before;
            let margin = 2 * summary.period + KERNEL_TICK;
            assert!(summary.sampled() + margin >= ENOUGH, "{clock}: {summary:?}");
            let accounted = summary.sampled() + summary.unaccounted;
            assert!(accounted <= passed + margin, "{clock}: {passed:?} passed: {summary:?}");
        }
    });
}
