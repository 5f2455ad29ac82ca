//! The figures of a session: times, ticks by kind, and the reason for no samples.
//!
//! # Safety
//! Passes filters to the profiler that only use atomics, and sets a handler that counts.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigHandler, Signal};
use sigprof::{Clock, NoSamples, Profiler, Summary};
use support::{
    in_own_process, in_own_process_after, process_cpu, read_profile, repeat_until,
    signals::{
        block_profiling_signal, profiling_handler, profiling_timer, quiet_builder, raise_ticks, set_handler,
        set_profiling_timer,
    },
    spin_for_a_while,
};

static ACCEPTS: AtomicBool = AtomicBool::new(false);

fn accepts() -> bool {
    ACCEPTS.load(Ordering::SeqCst)
}

/// Every tick is in exactly one of these. One that is lost has weight one in these tests.
fn ticks(summary: &Summary) -> u64 {
    let Summary { timer_ticks, foreign_ticks, early_ticks, filtered, excluded, losses, .. } = summary;
    timer_ticks + foreign_ticks + early_ticks + filtered + excluded + losses.periods()
}

#[test]
fn times_agree_with_the_clocks() {
    in_own_process("times_agree_with_the_clocks", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let (outer_start, outer_cpu) = (Instant::now(), process_cpu());
        let profiler = quiet_builder().start(&path).unwrap();
        let (inner_start, inner_cpu) = (Instant::now(), process_cpu());
        set_profiling_timer(0);
        raise_ticks(10);
        spin_for_a_while();
        let inner = (inner_start.elapsed(), process_cpu() - inner_cpu);
        let so_far = profiler.summary().unwrap();
        let summary = profiler.stop().unwrap();
        let outer = (outer_start.elapsed(), process_cpu() - outer_cpu);

        for summary in [so_far, summary] {
            assert!((inner.0..=outer.0).contains(&summary.elapsed), "{inner:?} {summary:?} {outer:?}");
            assert!((inner.1..=outer.1).contains(&summary.process_cpu), "{inner:?} {summary:?} {outer:?}");
            assert_eq!((summary.samples, summary.sampled()), (10, Duration::from_secs(10)));
        }
        assert_eq!(read_profile(&path).total_samples(), 10);
        assert_eq!((summary.losses.periods(), summary.no_samples), (0, None));
        assert_eq!((summary.walks.complete, summary.walks.total()), (10, 10));
    });
}

#[test]
fn a_signal_that_the_timer_did_not_send_is_a_tick_of_weight_one() {
    in_own_process("a_signal_that_the_timer_did_not_send_is_a_tick_of_weight_one", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        // No timer tick disturbs the count.
        set_profiling_timer(0);
        raise_ticks(1000);
        let so_far = *profiler.snapshot().unwrap().summary();
        assert_eq!((so_far.foreign_ticks, so_far.samples), (1000, 1000));
        raise_ticks(1000);
        let profile = profiler.stop().unwrap();
        let summary = profile.summary();
        assert_eq!((summary.foreign_ticks, summary.timer_ticks, summary.samples), (2000, 0, 2000));
        assert_eq!(ticks(summary), 2000);
        assert_eq!(summary.walks.complete, 2000);
        assert_eq!(profile.samples().iter().map(|sample| sample.count).sum::<u64>(), 2000);
    });
}

#[test]
fn counts_ticks_that_the_filter_refuses() {
    in_own_process("counts_ticks_that_the_filter_refuses", || {
        // SAFETY: the filter reads an atomic.
        let builder = unsafe { Profiler::builder().filter(accepts) };
        let profiler = builder.clock(sigprof::Clock::Itimer).frequency(1).start_in_memory().unwrap();
        set_profiling_timer(0);
        raise_ticks(30);
        let refused = *profiler.snapshot().unwrap().summary();
        assert_eq!((refused.filtered, refused.samples), (30, 0));
        assert_eq!(refused.no_samples, Some(NoSamples::NoneRecorded));
        ACCEPTS.store(true, Ordering::SeqCst);
        raise_ticks(20);
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!((summary.filtered, summary.samples, summary.no_samples), (30, 20, None));
        assert_eq!(ticks(&summary), 50);
        // The next session has no filter.
        ACCEPTS.store(false, Ordering::SeqCst);
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        raise_ticks(10);
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!((summary.filtered, summary.samples), (0, 10));
    });
}

#[test]
fn ticks_in_an_excluded_object_are_left_out() {
    in_own_process("ticks_in_an_excluded_object_are_left_out", || {
        let builder = || quiet_builder();

        // The call that sends a signal returns to the C library; on i386, to the vDSO.
        let caller = if cfg!(target_arch = "x86") { "vdso" } else { "libc" };
        let profiler = builder().exclude_object(caller).start_in_memory().unwrap();
        set_profiling_timer(0);
        raise_ticks(100);
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!((summary.excluded, summary.samples), (100, 0));
        assert_eq!(summary.no_samples, Some(NoSamples::NoneRecorded));

        // A part of the name does not match. The next session excludes nothing.
        for builder in [builder().exclude_object("lib").exclude_object("c"), builder()] {
            let profiler = builder.start_in_memory().unwrap();
            set_profiling_timer(0);
            raise_ticks(100);
            let summary = *profiler.stop().unwrap().summary();
            assert_eq!((summary.excluded, summary.samples), (0, 100));
        }
    });
}

#[test]
fn no_samples_since_no_time_was_used() {
    in_own_process("no_samples_since_no_time_was_used", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!((summary.samples, summary.no_samples), (0, Some(NoSamples::NoTimeUsed)));
        assert!(summary.process_cpu < summary.period);
    });
}

#[test]
fn no_samples_since_the_program_took_the_handler() {
    static APP_SAW: AtomicU64 = AtomicU64::new(0);
    extern "C" fn app_handler(_: libc::c_int) {
        APP_SAW.fetch_add(1, Ordering::SeqCst);
    }
    in_own_process("no_samples_since_the_program_took_the_handler", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let profiler = quiet_builder().start(&path).unwrap();
        set_profiling_timer(0);
        // SAFETY: the handler counts in an atomic.
        unsafe { set_handler(Signal::SIGPROF, SigHandler::Handler(app_handler), SaFlags::SA_RESTART) };
        raise_ticks(7);
        let summary = profiler.stop().unwrap();
        assert_eq!(summary.no_samples, Some(NoSamples::HandlerReplaced));
        assert_eq!(APP_SAW.load(Ordering::SeqCst), 7);
        assert_eq!(profiling_handler(), app_handler as *const () as usize, "it stays the program's");
        assert_eq!(read_profile(&path).total_samples(), 0);
    });
}

#[test]
fn no_samples_since_the_signal_is_blocked() {
    let name = "no_samples_since_the_signal_is_blocked";
    in_own_process_after(name, block_profiling_signal, || {
        let profiler = Profiler::builder().start_in_memory().unwrap();
        let start = process_cpu();
        repeat_until(|| process_cpu() - start > Duration::from_millis(50), spin_for_a_while);
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!((summary.samples, summary.no_samples), (0, Some(NoSamples::NoTicks)));
        assert!(summary.process_cpu > Duration::from_millis(50));
    });
}

#[test]
fn no_samples_since_the_program_took_the_timer() {
    in_own_process("no_samples_since_the_program_took_the_timer", || {
        // With the other clocks, threads have ticks without this timer.
        let profiler = Profiler::builder().clock(Clock::Itimer).frequency(2).start_in_memory().unwrap();
        assert_eq!(profiling_timer(), 500_000);
        set_profiling_timer(0);
        let start = process_cpu();
        repeat_until(|| process_cpu() - start > Duration::from_millis(600), spin_for_a_while);
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!((summary.samples, summary.no_samples), (0, Some(NoSamples::NoTicks)));
    });
}
