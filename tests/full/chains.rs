//! The share of chains that reach the thread's entry point, and each thread's share of the samples.

use std::collections::HashSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sigprof::{Pc, Profile, Profiler};

use crate::support::{
    calls_spin, count_under, in_own_process, is_programs_entry, mappings_of, names_of_chain, object_at,
    repeat_until,
};

/// Ticks in the program, the standard library and the C library reach the thread's entry point.
#[test]
fn walks_end_at_the_threads_entry_point() {
    in_own_process("chains::walks_end_at_the_threads_entry_point", || {
        let profiler = Profiler::builder().frequency(250).start_in_memory().unwrap();
        let everyday_work = || {
            let mut words: Vec<String> = (0..2000u64).map(|i| format!("{:x}", spin_seed(i))).collect();
            words.sort();
            black_box(words.concat().parse::<f64>().is_ok());
        };
        // At most one in a hundred may fail. On i386, LLVM's call frame information is wrong after
        // calls of functions that return structures, in unoptimized code.
        let expected = if cfg!(target_arch = "x86") { 0.95 } else { 0.99 };
        let has_expected =
            |profile: &Profile| ended_well(profile).1 as f64 >= expected * profile.summary().samples as f64;
        let is_done = AtomicBool::new(false);
        let mut profile = profiler.snapshot().unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        everyday_work();
                    }
                });
            }
            let has_enough = || {
                profile = profiler.snapshot().unwrap();
                profile.summary().timer_ticks >= 1000
            };
            repeat_until(has_enough, || thread::sleep(Duration::from_millis(20)));
            is_done.store(true, Ordering::Relaxed);
        });
        profiler.stop().unwrap();
        let walks = profile.summary().walks;
        assert!(walks.complete_share() >= expected, "{walks:?}");
        // A thread's outermost PC is the call in `clone` that starts it. The main thread may have
        // ticks while it sleeps: those that come while a busy thread blocks signals.
        let (ends, whole) = ended_well(&profile);
        assert!(ends.len() <= 3, "{ends:?}");
        let samples = profile.summary().samples;
        assert!(has_expected(&profile), "{whole} of {samples}: {:#?}", elsewhere(&profile));
    });
}

/// Returns the outermost PCs that are entry points, and the number of samples that end there.
fn ended_well(profile: &Profile) -> (HashSet<Pc>, u64) {
    let mappings = mappings_of(profile);
    let (mut ends, mut samples) = (HashSet::new(), 0);
    for sample in profile.samples() {
        let end = sample.chain[sample.chain.len() - 1];
        if object_at(&mappings, end).starts_with("libc.") || is_programs_entry(end) {
            ends.insert(end);
            samples += sample.count;
        }
    }
    (ends, samples)
}

/// Returns the functions of all other chains.
fn elsewhere(profile: &Profile) -> Vec<Vec<String>> {
    let (ends, _) = ended_well(profile);
    let others =
        profile.samples().iter().filter(|sample| !ends.contains(&sample.chain[sample.chain.len() - 1]));
    others.map(|sample| names_of_chain(&sample.chain)).collect()
}

fn spin_seed(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Defines functions that do the same work, and a list of them with their names. Different numbers
/// keep the compiler from merging them.
macro_rules! workers {
    ($($name:ident $number:literal),*) => {
        $(
            #[inline(never)]
            fn $name(is_done: &AtomicBool) {
                while !is_done.load(Ordering::Relaxed) {
                    black_box(calls_spin((1 << 16) + $number));
                }
            }
        )*
        const WORKERS: &[(&str, fn(&AtomicBool))] = &[$((stringify!($name), $name)),*];
    };
}
workers!(first 1, second 2, third 3, fourth 4, fifth 5, sixth 6, seventh 7, eighth 8);

#[test]
fn all_threads_are_sampled() {
    in_own_process("chains::all_threads_are_sampled", || {
        const ENOUGH: u64 = 25;
        let profiler = Profiler::builder().frequency(250).start_in_memory().unwrap();
        let is_done = AtomicBool::new(false);
        // CPU time of each thread.
        let used: Vec<Duration> = thread::scope(|scope| {
            let spawn = |worker: fn(&AtomicBool)| {
                let is_done = &is_done;
                scope.spawn(move || {
                    worker(is_done);
                    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread's clock").into()
                })
            };
            let threads: Vec<_> = WORKERS.iter().map(|(_, worker)| spawn(*worker)).collect();
            let has_enough = || {
                let threads = profiler.snapshot().unwrap().summary().threads;
                threads.busiest().iter().filter(|used| used.samples >= ENOUGH).count() >= WORKERS.len()
            };
            repeat_until(has_enough, || thread::sleep(Duration::from_millis(20)));
            is_done.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        let profile = profiler.stop().unwrap();
        let period = profile.summary().period;
        for ((name, _), used) in WORKERS.iter().zip(used) {
            let count = count_under(profile.samples(), &["spin", "calls_spin", name]);
            // Time before a thread's first tick may count for others, but not three quarters.
            let sampled = period * u32::try_from(count).unwrap();
            assert!(sampled * 4 >= used, "{name} has {sampled:?} of {used:?} in samples");
        }
        assert!(profile.summary().walks.complete_share() >= 0.99);
    });
}
