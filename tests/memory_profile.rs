//! Profiles in memory: samples, written bytes, report, and snapshots during the session.
#![cfg(feature = "runtime")]

mod support;

use std::collections::{HashMap, HashSet};

use nix::unistd::gettid;
use sigprof::format::CpuProfile;
use sigprof::{Error, Profile, Profiler};
use support::{
    in_own_process, is_called, repeat_until,
    signals::{is_gone, quiet_builder, raise_ticks, set_profiling_timer},
};

fn sum(profile: &Profile) -> u64 {
    profile.samples().iter().map(|sample| sample.count).sum()
}

/// Twelve chains with ten ticks each, and one with a thousand.
fn tick_in_many_chains() {
    set_profiling_timer(0);
    (0..12).for_each(|depth| assert_eq!(recurse(depth), depth));
    raise_ticks(1000);
}

#[test]
fn lists_each_chain_once_and_the_most_frequent_first() {
    in_own_process("lists_each_chain_once_and_the_most_frequent_first", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        tick_in_many_chains();
        let profile = profiler.stop().unwrap();
        let chains: HashSet<_> = profile.samples().iter().map(|sample| &sample.chain).collect();
        assert_eq!(chains.len(), profile.samples().len());
        assert_eq!(chains.len(), 13);
        assert_eq!((sum(&profile), profile.summary().samples), (1120, 1120));
        assert!(profile.samples().iter().all(|sample| sample.count > 0 && !sample.chain.is_empty()));
        assert!(profile.samples().is_sorted_by(|a, b| a.count >= b.count));
        assert_eq!(profile.samples()[0].count, 1000, "one chain has all signals of one loop");
    });
}

#[test]
fn a_stopped_profiler_does_not_report_the_next_session() {
    in_own_process("a_stopped_profiler_does_not_report_the_next_session", || {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        let in_memory = Profiler::builder().start_in_memory().unwrap();
        sigprof::interface::stop(|_| ());
        let in_file = Profiler::builder().start(&first).unwrap();
        assert!(matches!(in_memory.snapshot(), Err(Error::NotRunning)));
        assert!(in_file.summary().is_ok() && in_file.flush().is_ok());
        sigprof::interface::stop(|_| ());
        let last = Profiler::builder().start(&second).unwrap();
        assert!(matches!(in_file.summary(), Err(Error::NotRunning)));
        assert!(matches!(in_file.flush(), Err(Error::NotRunning)));
        drop(in_memory);
        drop(in_file);
        assert!(!second.exists() && last.stop().is_ok());
    });
}

#[test]
fn writes_all_samples_of_the_profile() {
    in_own_process("writes_all_samples_of_the_profile", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        tick_in_many_chains();
        let profile = profiler.stop().unwrap();
        let mut bytes = Vec::new();
        assert_eq!(profile.write(&mut bytes).unwrap(), bytes.len() as u64);
        assert!(bytes.ends_with(profile.maps_text()));
        let read = CpuProfile::parse(&bytes).unwrap();
        assert_eq!(u128::from(read.period_micros), profile.summary().period.as_micros());

        // For google/pprof a record may become two, and a second PC one lower (second_frame.rs).
        let mut counts: HashMap<Vec<u64>, (usize, u64)> = HashMap::new();
        for (place, sample) in profile.samples().iter().enumerate() {
            let mut chain: Vec<u64> = sample.chain.iter().map(|pc| pc.address() as u64).collect();
            counts.insert(chain.clone(), (place, 0));
            if let Some(second) = chain.get_mut(1) {
                *second -= 1;
                counts.entry(chain).or_insert((place, 0));
            }
        }
        let mut totals = vec![0; profile.samples().len()];
        for record in &read.records {
            let (place, _) = counts.get(&record.pcs).unwrap_or_else(|| panic!("{record:x?} is new"));
            totals[*place] += record.count;
        }
        let expected: Vec<u64> = profile.samples().iter().map(|sample| sample.count).collect();
        assert_eq!(totals, expected);
    });
}

/// Calls itself, so that it is in the chain many times.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    if depth == 0 {
        raise_ticks(10);
        return 0;
    }
    std::hint::black_box(recurse(depth - 1)) + 1
}

#[test]
fn a_recursive_function_counts_once_in_the_report() {
    in_own_process("a_recursive_function_counts_once_in_the_report", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        recurse(50);
        let report = profiler.stop().unwrap().report();
        let recursive = report.functions().iter().find(|function| is_called(&function.name, "recurse"));
        let recursive = recursive.unwrap_or_else(|| panic!("{report}"));
        assert_eq!((recursive.flat, recursive.cumulative), (0, 10));
        let flat: u64 = report.functions().iter().map(|function| function.flat).sum();
        assert_eq!(flat, 10, "every sample has one innermost function");
        let text = report.to_string();
        let first_row = text.lines().nth(2).expect("two lines of headings");
        assert!(first_row.ends_with(&report.functions()[0].name), "{text}");
    });
}

#[test]
fn a_snapshot_is_the_profile_so_far() {
    in_own_process("a_snapshot_is_the_profile_so_far", || {
        let profiler = quiet_builder().start_in_memory().unwrap();
        set_profiling_timer(0);
        let mut before = profiler.snapshot().unwrap();
        for round in 1..=5 {
            raise_ticks(100);
            let now = profiler.snapshot().unwrap();
            assert_eq!((sum(&now), now.summary().samples), (100 * round, 100 * round));
            assert_eq!(sum(&before), 100 * (round - 1), "a snapshot stays as it is");
            assert!(now.summary().elapsed > before.summary().elapsed);
            before = now;
        }
        let all = profiler.stop().unwrap();
        assert_eq!(all.samples(), before.samples());
    });
}

#[inline(never)]
fn raise_in_thread(name: &str, ticks: u64) {
    let body = move || {
        raise_ticks(ticks);
        gettid().as_raw()
    };
    let thread = std::thread::Builder::new().name(name.into()).spawn(body).expect("a thread");
    let id = thread.join().expect("it does not panic");
    repeat_until(|| is_gone(id), std::thread::yield_now);
}

/// A chain that three threads share: three samples with `by_thread`, but one record when written.
#[test]
fn by_thread_lists_a_chain_once_for_each_of_its_threads() {
    in_own_process("by_thread_lists_a_chain_once_for_each_of_its_threads", || {
        for is_by_thread in [true, false] {
            let builder = quiet_builder();
            let builder = if is_by_thread { builder.by_thread() } else { builder };
            let profiler = builder.start_in_memory().unwrap();
            set_profiling_timer(0);
            for (name, ticks) in [("one", 10), ("two", 200), ("fifteen letters", 30)] {
                raise_in_thread(name, ticks);
            }
            let so_far = profiler.snapshot().unwrap();
            raise_in_thread("four", 1000);
            let profile = profiler.stop().unwrap();
            assert_eq!((sum(&so_far), sum(&profile)), (240, 1240));
            let shown = |profile: &Profile| -> Vec<(Option<String>, u64)> {
                let name = |sample: &sigprof::Sample| sample.thread.map(|thread| thread.name.to_string());
                profile.samples().iter().map(|sample| (name(sample), sample.count)).collect()
            };
            let named = |name: &str, count| (Some(name.to_owned()), count);
            let expected =
                [named("four", 1000), named("two", 200), named("fifteen letters", 30), named("one", 10)];
            if is_by_thread {
                assert_eq!(shown(&profile), expected);
                assert_eq!(shown(&so_far), expected[1..]);
                let chains: HashSet<_> = profile.samples().iter().map(|sample| &sample.chain).collect();
                let ids: HashSet<_> =
                    profile.samples().iter().map(|sample| sample.thread.unwrap().id).collect();
                assert_eq!((chains.len(), ids.len()), (1, 4));
            } else {
                assert_eq!(shown(&profile), [(None, 1240)]);
            }
            // The summary has the threads in both cases.
            let threads = profile.summary().threads;
            let busiest: Vec<_> = threads
                .busiest()
                .iter()
                .map(|used| named(&used.thread.name.to_string(), used.samples))
                .collect();
            assert_eq!((&busiest[..], threads.count(), threads.others()), (&expected[..], 4, 0));
            assert!(threads.busiest().iter().all(|used| used.cpu.is_none()), "they have ended");
            let mut bytes = Vec::new();
            profile.write(&mut bytes).unwrap();
            let read = CpuProfile::parse(&bytes).unwrap();
            // The only chain is written as two, for google/pprof (src/format/second_frame.rs).
            assert_eq!((read.total_samples(), read.records.len()), (1240, 2));
            let chain: Vec<_> = profile.samples()[0].chain.iter().map(|pc| pc.address() as u64).collect();
            assert!(
                read.records
                    .iter()
                    .all(|record| record.pcs.len() == chain.len() && record.pcs[2..] == chain[2..])
            );
            assert_eq!(profile.report().functions().iter().map(|function| function.flat).sum::<u64>(), 1240);
        }
    });
}

/// The file is as usual, except that the deepest chain is one frame shorter.
#[test]
fn by_thread_writes_each_chain_to_a_file_once() {
    in_own_process("by_thread_writes_each_chain_to_a_file_once", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prof");
        let profiler = quiet_builder().by_thread().start(&path).unwrap();
        set_profiling_timer(0);
        (0..5).for_each(|_| raise_in_thread("worker", 7));
        profiler.flush().unwrap();
        let flushed = CpuProfile::parse(&std::fs::read(&path).unwrap()).unwrap();
        let summary = profiler.stop().unwrap();
        let read = CpuProfile::parse(&std::fs::read(&path).unwrap()).unwrap();
        for profile in [&read, &flushed] {
            assert_eq!((profile.total_samples(), profile.records.len()), (35, 2), "{profile:x?}");
        }
        assert_eq!((summary.samples, summary.threads.count()), (35, 5));
    });
}

#[test]
fn an_empty_profile_can_be_written_read_and_reported() {
    in_own_process("an_empty_profile_can_be_written_read_and_reported", || {
        let profile = quiet_builder().start_in_memory().unwrap().stop().unwrap();
        let mut bytes = Vec::new();
        profile.write(&mut bytes).unwrap();
        let read = CpuProfile::parse(&bytes).unwrap();
        assert_eq!((read.total_samples(), read.period_micros), (0, 1_000_000));
        assert!(!read.mappings.is_empty());
        assert!(profile.report().functions().is_empty());
        assert!(profile.report().to_string().starts_with("0 samples, 0.00 s\n"));
    });
}
