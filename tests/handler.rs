//! Ticks under load: many at the same time, more than the slots, at bad moments. No loss is silent.
//!
//! # Safety
//! Passes filters to the profiler that use atomics, the thread ID and `errno`.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;

use nix::errno::Errno;
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use nix::unistd::gettid;
use sigprof::{Profiler, Summary};
use support::{
    in_own_process, read_profile, repeat_until,
    signals::{quiet_builder, raise_tick, raise_ticks, set_profiling_timer},
    spin,
};

const THREADS: usize = 4;

/// An error number that no call here sets.
const CANARY: i32 = 4242;

fn disturbs_errno() -> bool {
    Errno::set_raw(1);
    true
}

#[test]
fn the_handler_preserves_errno() {
    in_own_process("the_handler_preserves_errno", || {
        // SAFETY: the filter only writes `errno`, which the handler restores.
        let builder = unsafe { Profiler::builder().filter(disturbs_errno) };
        let profiler = builder.clock(sigprof::Clock::Itimer).frequency(1).start_in_memory().unwrap();
        set_profiling_timer(0);
        for _ in 0..1000 {
            Errno::set_raw(CANARY);
            raise_tick();
            assert_eq!(Errno::last_raw(), CANARY);
        }
        assert_eq!(profiler.stop().unwrap().summary().foreign_ticks, 1000);

        // Ticks of the timer.
        // SAFETY: as above.
        let builder = unsafe { Profiler::builder().filter(disturbs_errno) };
        let profiler = builder.frequency(250).start_in_memory().unwrap();
        let work = || {
            Errno::set_raw(CANARY);
            black_box(spin(1 << 21));
            assert_eq!(Errno::last_raw(), CANARY);
        };
        repeat_until(|| profiler.snapshot().unwrap().summary().timer_ticks >= 5, work);
        profiler.stop().unwrap();
    });
}

/// All signals that were sent: recorded or lost.
fn accounted(summary: &Summary) -> u64 {
    summary.samples + summary.losses.periods()
}

/// Each thread sends itself signals one by one, while the others do the same.
#[test]
fn counts_every_signal_that_threads_send_to_themselves() {
    const EACH: u64 = 12_500;
    in_own_process("counts_every_signal_that_threads_send_to_themselves", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        // Disarmed before its first tick, which would come after a second. Here and below.
        let profiler = quiet_builder().start(&path).unwrap();
        set_profiling_timer(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| raise_ticks(EACH));
            }
            // Summaries and flushes while the ticks come take no sample away.
            for _ in 0..20 {
                profiler.summary().unwrap();
                profiler.flush().unwrap();
            }
        });
        let summary = profiler.stop().unwrap();
        assert_eq!(accounted(&summary), THREADS as u64 * EACH, "{summary:?}");
        assert_eq!(summary.samples, summary.foreign_ticks);
        assert_eq!(summary.walks.complete, summary.foreign_ticks);
        assert_eq!(read_profile(&path).total_samples(), u128::from(summary.samples));
    });
}

/// The thread IDs of the ring's members, and the signals that each has received.
static MEMBERS: [AtomicI32; THREADS] = [const { AtomicI32::new(0) }; THREADS];
static ARRIVED: [AtomicUsize; THREADS] = [const { AtomicUsize::new(0) }; THREADS];

fn notes_arrival() -> bool {
    let me = gettid().as_raw();
    for (member, arrived) in MEMBERS.iter().zip(&ARRIVED) {
        if member.load(Ordering::SeqCst) == me {
            arrived.fetch_add(1, Ordering::SeqCst);
        }
    }
    true
}

/// Each thread sends signals to the next one, whether that sends, waits, or runs its handler. It
/// sends the next signal after the last one has arrived: the kernel keeps only one pending.
#[test]
fn counts_every_signal_that_threads_send_to_each_other() {
    const EACH: usize = 5_000;
    in_own_process("counts_every_signal_that_threads_send_to_each_other", || {
        // SAFETY: the filter uses atomics and `gettid(2)`.
        let builder = unsafe { Profiler::builder().filter(notes_arrival) };
        let profiler = builder.clock(sigprof::Clock::Itimer).frequency(1).start_in_memory().unwrap();
        set_profiling_timer(0);
        let (ready, done) = (Barrier::new(THREADS), Barrier::new(THREADS));
        let threads = [const { OnceLock::new() }; THREADS];
        thread::scope(|scope| {
            for (i, (thread, member)) in threads.iter().zip(&MEMBERS).enumerate() {
                let (ready, done, threads) = (&ready, &done, &threads);
                scope.spawn(move || {
                    member.store(gettid().as_raw(), Ordering::SeqCst);
                    thread.set(pthread_self()).expect("each has its own place");
                    ready.wait();
                    let next = (i + 1) % THREADS;
                    let thread = *threads[next].get().expect("all are ready");
                    for sent in 1..=EACH {
                        pthread_kill(thread, Signal::SIGPROF).unwrap();
                        repeat_until(|| ARRIVED[next].load(Ordering::SeqCst) >= sent, thread::yield_now);
                    }
                    done.wait();
                });
            }
        });
        let summary = *profiler.stop().unwrap().summary();
        assert_eq!(accounted(&summary), (THREADS * EACH) as u64, "{summary:?}");
        assert_eq!(summary.losses.periods(), 0, "there are more slots than threads");
        assert_eq!(summary.walks.complete, summary.samples, "{:?}", summary.walks);
    });
}

/// Keeps handlers in the filter.
static HOLDS: AtomicBool = AtomicBool::new(false);
static HELD: AtomicU64 = AtomicU64::new(0);

fn waits_while_held() -> bool {
    HELD.fetch_add(1, Ordering::SeqCst);
    while HOLDS.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    true
}

/// With more handlers than slots, ticks without a slot are lost and counted.
#[test]
fn ticks_that_find_no_slot_are_counted() {
    const HANDLERS: u64 = 140;
    in_own_process("ticks_that_find_no_slot_are_counted", || {
        // SAFETY: the filter uses atomics and `sched_yield(2)`.
        let builder = unsafe { Profiler::builder().filter(waits_while_held) };
        let profiler = builder.clock(sigprof::Clock::Itimer).frequency(1).start_in_memory().unwrap();
        set_profiling_timer(0);
        HOLDS.store(true, Ordering::SeqCst);
        let returned = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..HANDLERS {
                scope.spawn(|| {
                    raise_tick();
                    returned.fetch_add(1, Ordering::SeqCst);
                });
            }
            // Each is held, or has found no slot and returned.
            let all = || HELD.load(Ordering::SeqCst) + returned.load(Ordering::SeqCst) == HANDLERS;
            repeat_until(all, thread::yield_now);
            HOLDS.store(false, Ordering::SeqCst);
        });
        let held = HELD.load(Ordering::SeqCst);
        let summary = *profiler.stop().unwrap().summary();
        assert!(summary.losses.no_slot > 0 && held > 0);
        assert_eq!((summary.losses.no_slot, summary.samples), (HANDLERS - held, held));
    });
}

/// A handler that does not return does not keep the profiler from stopping or from starting again.
#[test]
fn a_stop_does_not_wait_for_ever_for_a_stuck_handler() {
    in_own_process("a_stop_does_not_wait_for_ever_for_a_stuck_handler", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        // SAFETY: the filter uses atomics and `sched_yield(2)`.
        let builder = unsafe { Profiler::builder().filter(waits_while_held) };
        let profiler = builder.clock(sigprof::Clock::Itimer).frequency(1).start(&path).unwrap();
        set_profiling_timer(0);
        raise_ticks(5);
        HELD.store(0, Ordering::SeqCst);
        HOLDS.store(true, Ordering::SeqCst);
        let stuck = thread::spawn(raise_tick);
        repeat_until(|| HELD.load(Ordering::SeqCst) == 1, thread::yield_now);

        // If this waits for ever, the watchdog of `own_process` kills the process.
        let summary = profiler.stop().unwrap();
        assert_eq!((summary.losses.stuck_handlers, summary.samples), (1, 5));
        assert_eq!(read_profile(&path).total_samples(), 5);

        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        raise_ticks(3);
        // The handler returns during another session, and does no harm.
        HOLDS.store(false, Ordering::SeqCst);
        stuck.join().unwrap();
        raise_ticks(3);
        let profile = profiler.stop().unwrap();
        assert_eq!(profile.samples().iter().map(|sample| sample.count).sum::<u64>(), 6);
        assert_eq!(profile.summary().samples, 6);
    });
}
