//! A session's times, and the share that its samples represent.
//!
//! # Safety
//! Calls `memchr(3)` with a slice.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use sigprof::{MAX_FREQUENCY, Profile, Profiler, Summary};

use crate::support::{
    in_own_process, mappings_of, object_at, process_cpu, read_profile, repeat_until, spin_for_a_while,
    thread_cpu,
};

/// The interval of a kernel with HZ=100.
const LONGEST_KERNEL_TICK: Duration = Duration::from_millis(10);

/// Asserts that samples and unaccounted time add up to the CPU time used, within a period for each
/// thread: a tick represents the whole of its period. `around` is the CPU time from before the
/// session until after it: the last ticks may come after the session's last read of the clock.
fn expect_all_time(summary: &Summary, around: Duration) {
    let accounted = summary.sampled() + summary.unaccounted;
    let threads = u32::try_from(summary.threads.count()).unwrap();
    let margin = summary.period * threads + LONGEST_KERNEL_TICK;
    assert!(accounted + margin >= summary.process_cpu, "{accounted:?} of {summary:?}");
    assert!(summary.sampled() <= around + margin, "{around:?} for {summary:?}");
}

/// Whether ticks represent all CPU time so far, except time until the next tick and time of other
/// threads. `before` is the calling thread's CPU time at the start of the session.
///
/// Unaccounted time depends on the scheduler: the kernel checks timers at its own ticks. The next
/// tick represents it, so this becomes true repeatedly; if time is lost, it stays false. Other
/// threads may stay longer without a tick, if their virtual processor is stopped.
fn is_accounted(summary: &Summary, before: Duration) -> bool {
    let own = thread_cpu().saturating_sub(before);
    summary.unaccounted <= LONGEST_KERNEL_TICK + summary.process_cpu.saturating_sub(own)
}

#[test]
fn times_agree_with_the_clocks() {
    in_own_process("summary::times_agree_with_the_clocks", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let (outer_start, outer_cpu) = (Instant::now(), process_cpu());
        let profiler = Profiler::builder().start(&path).unwrap();
        let (inner_start, inner_cpu, before) = (Instant::now(), process_cpu(), thread_cpu());
        let has_enough = |summary: Summary| {
            summary.timer_ticks >= 1000 || summary.samples >= 100 && is_accounted(&summary, before)
        };
        repeat_until(|| has_enough(profiler.summary().unwrap()), spin_for_a_while);
        let inner = (inner_start.elapsed(), process_cpu() - inner_cpu);
        let so_far = profiler.summary().unwrap();
        let summary = profiler.stop().unwrap();
        let outer = (outer_start.elapsed(), process_cpu() - outer_cpu);

        for summary in [so_far, summary] {
            assert!((inner.0..=outer.0).contains(&summary.elapsed), "{inner:?} {summary:?} {outer:?}");
            assert!((inner.1..=outer.1).contains(&summary.process_cpu), "{inner:?} {summary:?} {outer:?}");
        }
        assert_eq!(summary.period, Duration::from_millis(10));
        assert!(summary.timer_ticks < 1000, "all is accounted too seldom: {summary:?}");
        assert_eq!(summary.sampled(), summary.period * u32::try_from(summary.samples).unwrap());
        assert_eq!(read_profile(&path).total_samples(), u128::from(summary.samples));
        assert_eq!((summary.losses.periods(), summary.no_samples), (0, None));
        assert_eq!(summary.walks.total(), summary.timer_ticks);

        expect_all_time(&summary, outer.1);
    });
}

/// The frequency exceeds that of any kernel's timer interrupt: each tick has a higher weight.
#[test]
fn accounts_for_all_time_at_the_highest_frequency() {
    in_own_process("summary::accounts_for_all_time_at_the_highest_frequency", || {
        let start = process_cpu();
        let profiler = Profiler::builder().frequency(MAX_FREQUENCY).start_in_memory().unwrap();
        let before = thread_cpu();
        let has_enough = |profile: Profile| {
            let summary = profile.summary();
            summary.timer_ticks >= 500 || summary.timer_ticks >= 50 && is_accounted(summary, before)
        };
        repeat_until(|| has_enough(profiler.snapshot().unwrap()), spin_for_a_while);
        let profile = profiler.stop().unwrap();
        let around = process_cpu() - start;
        let summary = profile.summary();
        assert_eq!(summary.period, Duration::from_micros(100));
        assert!(summary.timer_ticks < 500, "all is accounted too seldom: {summary:?}");
        assert!(summary.samples >= summary.timer_ticks);
        expect_all_time(summary, around);
    });
}

/// Searches for a byte that is missing: all time is used in the C library's `memchr`.
fn search(bytes: &[u8]) {
    let pointer = black_box(bytes).as_ptr().cast();
    // SAFETY: the pointer and the length are the slice's.
    assert!(unsafe { libc::memchr(pointer, 1, bytes.len()) }.is_null());
}

/// Ticks in the excluded object are left out, those in its callers and callees are not.
#[test]
fn ticks_in_an_excluded_object_are_left_out() {
    in_own_process("summary::ticks_in_an_excluded_object_are_left_out", || {
        let bytes = vec![0; 16 << 20];
        let builder = || Profiler::builder().frequency(250);

        let profiler = builder().exclude_object("libc").start_in_memory().unwrap();
        repeat_until(|| profiler.snapshot().unwrap().summary().excluded >= 30, || search(&bytes));
        repeat_until(|| profiler.snapshot().unwrap().summary().samples >= 30, spin_for_a_while);
        let profile = profiler.stop().unwrap();
        let mappings = mappings_of(&profile);
        for sample in profile.samples() {
            let object = object_at(&mappings, sample.chain[0]);
            assert!(!object.is_empty() && !object.starts_with("libc."), "{object}: {sample:?}");
            // Callers and callees of the excluded object are not excluded.
            assert!(sample.chain.iter().any(|&pc| object_at(&mappings, pc).starts_with("libc.")));
        }
    });
}

#[test]
fn the_kernels_object_can_be_excluded() {
    in_own_process("summary::the_kernels_object_can_be_excluded", || {
        let profiler = Profiler::builder().frequency(250).exclude_object("vdso").start_in_memory().unwrap();
        let ask_for_the_time = || {
            for _ in 0..100_000 {
                black_box(Instant::now());
            }
        };
        repeat_until(|| profiler.snapshot().unwrap().summary().excluded >= 10, ask_for_the_time);
        let profile = profiler.stop().unwrap();
        let mappings = mappings_of(&profile);
        assert!(profile.samples().iter().all(|sample| object_at(&mappings, sample.chain[0]) != "[vdso]"));
    });
}
