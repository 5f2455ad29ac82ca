//! The bound on a session's memory. Samples beyond it are spilled to a file, or lost and counted.
#![cfg(feature = "runtime")]

mod support;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hint::black_box;
use std::thread;

use sigprof::{MAX_DEPTH, SMALLEST_MAX_MEMORY};
use support::{
    in_own_process, read_profile,
    signals::{quiet_builder, raise_tick, set_profiling_timer},
};

/// Calls one of two functions at each step, by the bits of `path`, and then sends a signal: one
/// chain for each path. Always inlined, so that a step is one frame with and without optimization.
#[inline(always)]
fn descend(path: u64, depth: usize) -> u64 {
    match (depth, path & 1) {
        (0, _) => {
            raise_tick();
            0
        }
        (_, 0) => descend_left(path >> 1, depth - 1),
        _ => descend_right(path >> 1, depth - 1),
    }
}

#[inline(never)]
fn descend_left(path: u64, depth: usize) -> u64 {
    black_box(descend(path, depth)) + 2
}

#[inline(never)]
fn descend_right(path: u64, depth: usize) -> u64 {
    black_box(descend(path, depth)) + 3
}

/// Sends a tick in each of `chains` deep chains.
fn tick_in_deep_chains(chains: u64) {
    set_profiling_timer(0);
    let work = move || {
        for chain in 0..chains {
            black_box(descend(chain, MAX_DEPTH - 100));
        }
    };
    thread::Builder::new().stack_size(64 << 20).spawn(work).unwrap().join().unwrap();
}

/// More and deeper chains than the memory holds, without a file: the rest is lost and counted.
#[test]
fn ticks_that_find_the_table_full_are_counted() {
    const CHAINS: u64 = 400;
    in_own_process("ticks_that_find_the_table_full_are_counted", || {
        let builder = quiet_builder().max_depth(MAX_DEPTH).max_memory(SMALLEST_MAX_MEMORY);
        let profiler = builder.start_in_memory().unwrap();
        tick_in_deep_chains(CHAINS);
        let profile = profiler.stop().unwrap();
        let summary = profile.summary();
        assert_eq!(summary.samples + summary.losses.periods(), CHAINS, "{summary:?}");
        assert!(summary.losses.table_full > 0 && summary.samples > 50, "{summary:?}");
        assert_eq!(summary.losses.table_full, summary.losses.periods());
        assert_eq!((summary.spilled, summary.spill_failure), (0, None));
        let chains: HashSet<_> = profile.samples().iter().map(|sample| &sample.chain[2..]).collect();
        assert_eq!(chains.len() as u64, summary.samples, "each chain came once");
    });
}

/// The same with a file: full tables are spilled, and neither a flush nor the stop loses samples.
#[test]
fn spills_samples_beyond_the_memory_bound_to_a_file() {
    const CHAINS: u64 = 500;
    in_own_process("spills_samples_beyond_the_memory_bound_to_a_file", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let builder = quiet_builder().max_depth(MAX_DEPTH).max_memory(SMALLEST_MAX_MEMORY);
        let profiler = builder.start(&path).unwrap();
        tick_in_deep_chains(CHAINS);
        profiler.flush().unwrap();
        assert_eq!(read_profile(&path).total_samples(), u128::from(CHAINS));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "the profile, and what was moved");
        // All chains again: the spilled ones are new to the table.
        tick_in_deep_chains(CHAINS);
        let summary = profiler.stop().unwrap();
        assert_eq!((summary.samples, summary.losses.periods()), (2 * CHAINS, 0), "{summary:?}");
        assert!(summary.spilled > CHAINS && summary.spilled < 2 * CHAINS, "{summary:?}");
        assert_eq!(summary.walks.complete, 2 * CHAINS, "{:?}", summary.walks);
        let profile = read_profile(&path);
        assert_eq!(profile.total_samples(), u128::from(summary.samples));
        let mut counts: HashMap<_, u64> = HashMap::new();
        for record in &profile.records {
            *counts.entry(&record.pcs[2..]).or_default() += record.count;
        }
        assert_eq!(counts.len() as u64, CHAINS);
        assert!(counts.values().all(|&count| count == 2), "each chain came twice");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "only the profile is left");
    });
}
