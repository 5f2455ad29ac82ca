//! Call chains: their depth, their outermost frames, and the kinds of code that they pass.
//!
//! # Safety
//! Sets a signal stack and an application handler, which sends a signal; calls `qsort(3)`.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{SaFlags, SigHandler, Signal, raise};
use sigprof::{DEFAULT_DEPTH, MAX_DEPTH, Profile};
use support::{
    count_under, has_in_order, in_own_process, is_programs_entry, mappings_of, names_of_chain, object_at,
    repeat_until,
    signals::{quiet_builder, raise_tick, raise_ticks, set_handler, set_profiling_timer, tick_main_thread},
};

/// Calls itself `depth` times and then sends ten signals.
#[inline(never)]
fn descend(depth: usize) -> usize {
    if depth == 0 {
        raise_ticks(10);
        return 0;
    }
    black_box(descend(depth - 1)) + 1
}

fn descend_with_limit(limit: Option<usize>, depth: usize) -> Profile {
    let builder = quiet_builder();
    let builder = match limit {
        Some(limit) => builder.max_depth(limit),
        None => builder,
    };
    let profiler = builder.start_in_memory().unwrap();
    // No timer tick disturbs the counts, here and below, even on a slow machine.
    set_profiling_timer(0);
    descend(depth);
    profiler.stop().unwrap()
}

#[test]
fn truncates_chains_at_the_depth_limit() {
    in_own_process("truncates_chains_at_the_depth_limit", || {
        assert_eq!(DEFAULT_DEPTH, 254);
        for (limit, expected) in [(Some(16), 16), (Some(0), 1), (Some(1), 1), (Some(2), 2), (None, 254)] {
            let profile = descend_with_limit(limit, 1000);
            assert_eq!(profile.summary().samples, 10);
            assert_eq!((profile.summary().walks.depth, profile.summary().walks.total()), (10, 10));
            assert!(profile.samples().iter().all(|sample| sample.chain.len() == expected), "{limit:?}");
            if expected >= 16 {
                // The innermost frames are kept.
                assert_eq!(count_under(profile.samples(), &["raise_tick", "raise_ticks", "descend"]), 10);
                assert_eq!(count_under(profile.samples(), &["descend_with_limit"]), 0);
            }
        }
    });
}

#[test]
fn chains_within_the_depth_limit_are_complete() {
    in_own_process("chains_within_the_depth_limit_are_complete", || {
        for limit in [MAX_DEPTH, MAX_DEPTH + 1, usize::MAX] {
            let profile = descend_with_limit(Some(limit), 1000);
            assert_eq!((profile.summary().walks.complete, profile.summary().walks.total()), (10, 10));
            let [sample] = profile.samples() else { panic!("{} chains", profile.samples().len()) };
            assert!((1001..1100).contains(&sample.chain.len()), "{}", sample.chain.len());
            // All of the 1000 equal return addresses are recorded.
            let commonest = sample.chain.iter().filter(|&&pc| pc == sample.chain[500]).count();
            assert_eq!(commonest, 1000);
        }
        // The limit counts recorded frames: one less than a chain has truncates it.
        let frames = descend_with_limit(Some(MAX_DEPTH), 100).samples()[0].chain.len();
        for (limit, whole) in [(frames - 1, 0), (frames, 10), (frames + 1, 10)] {
            let profile = descend_with_limit(Some(limit), 100);
            let walks = profile.summary().walks;
            assert_eq!((walks.complete, walks.depth), (whole, 10 - whole), "{limit} of {frames}");
        }
    });
}

#[test]
fn the_main_threads_chains_end_at_the_programs_entry_point() {
    in_own_process("the_main_threads_chains_end_at_the_programs_entry_point", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        tick_main_thread();
        repeat_until(|| profiler.snapshot().unwrap().summary().foreign_ticks == 1, thread::yield_now);
        let profile = profiler.stop().unwrap();
        assert_eq!((profile.summary().walks.complete, profile.summary().walks.total()), (1, 1));
        let names = names_of_chain(&profile.samples()[0].chain);
        assert!(has_in_order(&names, &["main"]), "{names:?}");
        let end = profile.samples()[0].chain[profile.samples()[0].chain.len() - 1];
        assert!(is_programs_entry(end), "{names:?}");
    });
}

/// Walks of a spawned thread end at the thread's entry point: the call in `clone` that starts it.
#[test]
fn a_spawned_threads_chains_end_at_its_entry_point() {
    in_own_process("a_spawned_threads_chains_end_at_its_entry_point", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        thread::spawn(|| raise_ticks(10)).join().expect("it does not panic");
        let profile = profiler.stop().unwrap();
        let walks = profile.summary().walks;
        assert_eq!((walks.complete, walks.total()), (10, 10), "{walks:?}");
        let mappings = mappings_of(&profile);
        for sample in profile.samples() {
            let end = object_at(&mappings, sample.chain[sample.chain.len() - 1]);
            assert!(end.starts_with("libc."), "{end}: {:?}", names_of_chain(&sample.chain));
        }
    });
}

/// Defines functions that send the given number of ticks, and a list of them with their names.
macro_rules! workers {
    ($($name:ident $number:literal),*) => {
        $(
            #[inline(never)]
            fn $name() {
                raise_ticks($number);
            }
        )*
        const WORKERS: &[(&str, fn(), u64)] = &[$((stringify!($name), $name, $number)),*];
    };
}
workers!(first 1, second 20, third 300, fourth 4, fifth 50, sixth 600, seventh 7, eighth 80);

#[test]
fn each_thread_has_its_own_samples() {
    in_own_process("each_thread_has_its_own_samples", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        thread::scope(|scope| {
            WORKERS.iter().for_each(|&(_, worker, _)| drop(scope.spawn(worker)));
        });
        let profile = profiler.stop().unwrap();
        for &(name, _, sent) in WORKERS {
            let samples = count_under(profile.samples(), &["raise_tick", "raise_ticks", name]);
            assert_eq!(samples, sent, "{name}");
        }
        let summary = profile.summary();
        assert_eq!(
            (summary.threads.count(), summary.walks.complete),
            (WORKERS.len() as u64, summary.samples)
        );
    });
}

/// Samples taken in the handler of another signal.
static IN_HANDLER: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_user_signal(_: libc::c_int) {
    raise_tick();
    IN_HANDLER.fetch_add(1, Ordering::SeqCst);
}

#[inline(never)]
fn interrupted_by_user_signal() {
    raise(Signal::SIGUSR1).unwrap();
    black_box(());
}

/// Runs `body` while `stack` is this thread's signal stack.
fn with_signal_stack(stack: &mut [u8], body: impl FnOnce()) {
    let own = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    let mut before = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: only this thread uses the memory until the end; the old value goes into a local.
    assert_eq!(unsafe { libc::sigaltstack(&own, before.as_mut_ptr()) }, 0);
    body();
    // SAFETY: no handler is running.
    assert_eq!(unsafe { libc::sigaltstack(before.as_ptr(), ptr::null_mut()) }, 0);
}

#[track_caller]
fn expect_chains_through_a_handler(flags: SaFlags) {
    let handler = SigHandler::Handler(on_user_signal);
    // SAFETY: the handler only sends a signal and adds to an atomic (signal-safety(7)).
    unsafe { set_handler(Signal::SIGUSR1, handler, flags) };
    IN_HANDLER.store(0, Ordering::SeqCst);
    let profiler = quiet_builder().start_in_memory().unwrap();
    set_profiling_timer(0);
    (0..10).for_each(|_| interrupted_by_user_signal());
    let profile = profiler.stop().unwrap();
    assert_eq!(IN_HANDLER.load(Ordering::SeqCst), 10);
    let through = ["raise_tick", "on_user_signal", "interrupted_by_user_signal"];
    assert_eq!(count_under(profile.samples(), &through), 10);
    let walks = profile.summary().walks;
    assert_eq!((walks.complete, walks.total()), (10, 10), "{walks:?}");
}

#[test]
fn walks_from_a_handler_to_the_interrupted_function() {
    in_own_process("walks_from_a_handler_to_the_interrupted_function", || {
        const BYTES: usize = 256 << 10;
        expect_chains_through_a_handler(SaFlags::empty());
        // On a signal stack in the heap, and on one above all frames that follow.
        let (mut elsewhere, mut above) = (vec![0; BYTES], [0; BYTES]);
        for stack in [&mut elsewhere[..], black_box(&mut above)] {
            with_signal_stack(stack, || expect_chains_through_a_handler(SaFlags::SA_ONSTACK));
        }
    });
}

extern "C" fn compare_and_tick(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
    raise_tick();
    a.addr().cmp(&b.addr()) as libc::c_int
}

#[inline(never)]
fn sorts_in_c(numbers: &mut [u64]) -> u64 {
    let (start, length) = (numbers.as_mut_ptr().cast(), numbers.len());
    // SAFETY: start, length and size are those of the slice; the comparison is a total order.
    unsafe { libc::qsort(start, length, size_of::<u64>(), Some(compare_and_tick)) };
    numbers[0]
}

#[test]
fn a_callback_from_the_c_library_leads_back_to_its_caller() {
    in_own_process("a_callback_from_the_c_library_leads_back_to_its_caller", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        assert_eq!(sorts_in_c(&mut [0; 64]), 0);
        let profile = profiler.stop().unwrap();
        let (samples, walks) = (profile.summary().samples, profile.summary().walks);
        assert!(samples >= 63, "{samples} comparisons");
        assert_eq!((walks.complete, walks.total()), (samples, samples));
        let mappings = mappings_of(&profile);
        for sample in profile.samples() {
            let names = names_of_chain(&sample.chain);
            assert!(has_in_order(&names, &["raise_tick", "compare_and_tick", "sorts_in_c"]), "{names:?}");
            // The C library's functions lie between the callback and its caller.
            let objects: Vec<bool> =
                sample.chain.iter().map(|&pc| object_at(&mappings, pc).starts_with("libc.")).collect();
            let runs = objects.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(runs >= 4, "{objects:?}");
        }
    });
}

/// A panic that unwinds during ticks and terminates its thread.
#[test]
fn walks_are_complete_while_a_panic_unwinds() {
    in_own_process("walks_are_complete_while_a_panic_unwinds", || {
        struct TicksWhenDropped;
        impl Drop for TicksWhenDropped {
            fn drop(&mut self) {
                raise_ticks(3);
            }
        }
        #[inline(never)]
        fn panics(depth: u32) {
            let _ticks = TicksWhenDropped;
            if depth == 0 {
                std::panic::resume_unwind(Box::new("expected"));
            }
            panics(depth - 1);
        }
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        assert!(thread::spawn(|| panics(9)).join().is_err());
        let profile = profiler.stop().unwrap();
        let walks = profile.summary().walks;
        assert_eq!((profile.summary().samples, walks.complete, walks.total()), (30, 30, 30), "{walks:?}");
        assert_eq!(count_under(profile.samples(), &["raise_ticks", "panics"]), 30);
    });
}

#[cfg(not(target_arch = "x86"))]
extern "C" fn coroutine() {
    raise_ticks(10);
    black_box(());
}

#[cfg(not(target_arch = "x86"))]
/// Runs `function` on a new stack, as coroutine libraries do.
#[inline(never)]
fn run_on_another_stack(function: extern "C" fn()) {
    let mut stack = vec![0u8; 256 << 10];
    let (mut here, mut there) = (MaybeUninit::<libc::ucontext_t>::zeroed(), MaybeUninit::zeroed());
    // SAFETY: the context is a local that does not move.
    assert_eq!(unsafe { libc::getcontext(there.as_mut_ptr()) }, 0);
    // SAFETY: `getcontext` has filled it.
    let there: &mut libc::ucontext_t = unsafe { there.assume_init_mut() };
    there.uc_stack.ss_sp = stack.as_mut_ptr().cast();
    there.uc_stack.ss_size = stack.len();
    there.uc_link = here.as_mut_ptr();
    // SAFETY: the context has a stack and a successor; the function takes no arguments.
    unsafe { libc::makecontext(there, function, 0) };
    // SAFETY: `here` is filled before `there` runs, and both live until `there` has returned.
    assert_eq!(unsafe { libc::swapcontext(here.as_mut_ptr(), there) }, 0);
}

/// Not on i386: functions of glibc's `makecontext` return to an address directly after its last
/// instruction, without call frame information. The walk finds a frame too many and is truncated.
#[cfg(not(target_arch = "x86"))]
#[test]
fn a_coroutines_chains_end_where_it_begins() {
    in_own_process("a_coroutines_chains_end_where_it_begins", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        run_on_another_stack(coroutine);
        let profile = profiler.stop().unwrap();
        let walks = profile.summary().walks;
        assert_eq!((profile.summary().samples, walks.complete, walks.total()), (10, 10, 10), "{walks:?}");
        assert_eq!(count_under(profile.samples(), &["raise_ticks", "coroutine"]), 10);
        assert_eq!(count_under(profile.samples(), &["run_on_another_stack"]), 0);
    });
}

/// The rule for a PC stays in the cache, also for later sessions.
#[test]
fn a_pc_is_looked_up_once() {
    in_own_process("a_pc_is_looked_up_once", || {
        for round in 0..black_box(3) {
            let profile = descend_with_limit(None, 100);
            assert_eq!(profile.summary().samples, 10);
            let summary = profile.summary();
            assert_eq!(summary.rule_misses > 0, round == 0, "{summary:?}");
            // Each frame is looked up once.
            let frames: usize =
                profile.samples().iter().map(|sample| sample.count as usize * sample.chain.len()).sum();
            assert_eq!(summary.rule_hits + summary.rule_misses, frames as u64, "{summary:?}");
        }
    });
}
