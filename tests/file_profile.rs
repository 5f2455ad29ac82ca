//! Profiles in files: their content, and when a file appears under its name.
#![cfg(feature = "runtime")]

mod support;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use sigprof::{Builder, Error, Pc, format::CpuProfile};
use support::{
    has_in_order, in_own_process, names_of_chain, read_profile,
    signals::{quiet_builder, raise_ticks, set_profiling_timer},
};

fn silent() -> Builder {
    quiet_builder()
}

/// Sums the counts of records with these functions in their chains in this order, innermost first.
fn count_under(profile: &CpuProfile, functions: &[&str]) -> u64 {
    let matching = profile.records.iter().filter(|record| {
        let chain: Vec<Pc> = record.pcs.iter().map(|&pc| Pc::from_address(pc as usize)).collect();
        has_in_order(&names_of_chain(&chain), functions)
    });
    matching.map(|record| record.count).sum()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Sends ticks. Not a tail call, so this function is in their chains.
#[inline(never)]
fn calls_raise_ticks(ticks: u64) {
    raise_ticks(ticks);
    std::hint::black_box(());
}

#[test]
fn the_file_shows_each_tick_under_its_callers() {
    in_own_process("the_file_shows_each_tick_under_its_callers", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let profiler = silent().start(&path).unwrap();
        set_profiling_timer(0);
        calls_raise_ticks(100);
        raise_ticks(10);
        assert_eq!(names_in(directory.path()), [""; 0], "the file appears when the profiler stops");
        assert_eq!(profiler.stop().unwrap().samples, 110);
        assert_eq!(names_in(directory.path()), ["cpu.prof"]);

        let profile = read_profile(&path);
        assert_eq!((profile.period_micros, profile.total_samples()), (1_000_000, 110));
        assert!(profile.unknown_lines.is_empty());
        let here = calls_raise_ticks as *const () as u64;
        assert!(profile.mappings.iter().any(|mapping| mapping.is_executable() && mapping.contains(here)));
        assert_eq!(count_under(&profile, &["raise_tick", "raise_ticks", "calls_raise_ticks"]), 100);
        assert_eq!(count_under(&profile, &["raise_tick", "raise_ticks"]), 110);
    });
}

#[test]
fn resolves_a_relative_path_at_the_start() {
    in_own_process("resolves_a_relative_path_at_the_start", || {
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::env::set_current_dir(before.path()).unwrap();
        let profiler = silent().start("cpu.prof").unwrap();
        set_profiling_timer(0);
        std::env::set_current_dir(after.path()).unwrap();
        raise_ticks(3);
        profiler.flush().unwrap();
        assert_eq!(read_profile(&before.path().join("cpu.prof")).total_samples(), 3);
        profiler.stop().unwrap();
        assert_eq!(names_in(before.path()), ["cpu.prof"]);
        assert_eq!(names_in(after.path()), [""; 0]);
    });
}

#[test]
fn a_dropped_profiler_stops_and_writes() {
    in_own_process("a_dropped_profiler_stops_and_writes", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let profiler = silent().start(&path).unwrap();
        assert_eq!(support::signals::profiling_timer(), 1_000_000);
        raise_ticks(3);
        drop(profiler);
        assert_eq!(support::signals::profiling_timer(), 0);
        raise_ticks(3);
        assert_eq!(read_profile(&path).total_samples(), 3);
    });
}

#[test]
fn a_flush_writes_a_complete_file_and_profiling_continues() {
    in_own_process("a_flush_writes_a_complete_file_and_profiling_continues", || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let profiler = silent().start(&path).unwrap();
        set_profiling_timer(0);
        for round in 1..=3 {
            raise_ticks(10);
            profiler.flush().unwrap();
            assert_eq!(names_in(directory.path()), ["cpu.prof"]);
            assert_eq!(read_profile(&path).total_samples(), 10 * round);
        }
        raise_ticks(5);
        assert_eq!(profiler.stop().unwrap().samples, 35);
        assert_eq!(read_profile(&path).total_samples(), 35);
    });
}

#[test]
fn replaces_an_existing_file_and_follows_a_symbolic_link() {
    in_own_process("replaces_an_existing_file_and_follows_a_symbolic_link", || {
        let directory = tempfile::tempdir().unwrap();
        let [path, link] = ["cpu.prof", "link.prof"].map(|name| directory.path().join(name));
        fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let profiler = silent().start(&path).unwrap();
        set_profiling_timer(0);
        raise_ticks(3);
        assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20, "the file stays until the stop");
        profiler.stop().unwrap();
        assert_eq!(read_profile(&path).total_samples(), 3);

        std::os::unix::fs::symlink(&path, &link).unwrap();
        fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let profiler = silent().start(&link).unwrap();
        set_profiling_timer(0);
        raise_ticks(4);
        profiler.stop().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read_profile(&path).total_samples(), 4);
        assert_eq!(names_in(directory.path()), ["cpu.prof", "link.prof"]);
    });
}

#[test]
fn flush_and_stop_report_a_file_that_cannot_be_written() {
    in_own_process("flush_and_stop_report_a_file_that_cannot_be_written", || {
        let expect = |error: Error, meant: &Path, kind: ErrorKind| match error {
            Error::Output { path, source, .. } => assert_eq!((&*path, source.kind()), (meant, kind)),
            other => panic!("{other}"),
        };
        let full = Path::new("/dev/full");
        // Without a spool: one stays if the profile cannot be written.
        let profiler = silent().without_spool().start(full).unwrap();
        set_profiling_timer(0);
        raise_ticks(1);
        expect(profiler.flush().unwrap_err(), full, ErrorKind::StorageFull);
        raise_ticks(1);
        assert_eq!(profiler.summary().unwrap().samples, 2, "a flush that failed ends nothing");
        expect(profiler.stop().unwrap_err(), full, ErrorKind::StorageFull);

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cpu.prof");
        let profiler = silent().start(&path).unwrap();
        directory.close().unwrap();
        expect(profiler.flush().unwrap_err(), &path, ErrorKind::NotFound);
        expect(profiler.stop().unwrap_err(), &path, ErrorKind::NotFound);
        silent().start_in_memory().unwrap().stop().unwrap();
    });
}
