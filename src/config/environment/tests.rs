//! Tests with pairs of names and values.

use super::*;
use crate::config::{DEFAULT_MAX_MEMORY, LARGEST_MAX_MEMORY, SMALLEST_MAX_MEMORY};

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let pairs = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Environment::from_pairs(pairs, |name| match name {
        b"SIGUSR2" => Some(12),
        b"SIGPROF" => Some(27),
        number => core::str::from_utf8(number).ok()?.parse().ok().filter(|number| (1..65).contains(number)),
    })
}

fn name(pairs: &[(&str, &str)]) -> (String, bool) {
    let environment = environment(pairs);
    (String::from_utf8(environment.base_path().unwrap()).unwrap(), environment.adds_pid())
}

#[test]
fn reads_the_directory_of_spools() {
    for (value, expected) in [
        ("", SpoolChoice::Default),
        ("off", SpoolChoice::Off),
        ("/var/spool", SpoolChoice::Directory(b"/var/spool".to_vec())),
        ("offside", SpoolChoice::Directory(b"offside".to_vec())),
    ] {
        assert_eq!(environment(&[("CPUPROFILE_SPOOL", value)]).spool, expected, "{value}");
    }
    assert_eq!(environment(&[]).spool, SpoolChoice::Default);
}

#[test]
fn reads_the_destination_of_statistics() {
    for (value, expected) in [
        ("0", StatisticsChoice::Off),
        ("1", StatisticsChoice::Stderr),
        ("", StatisticsChoice::Stderr),
        ("/var/log/ticks", StatisticsChoice::File(c"/var/log/ticks".to_owned())),
        ("ticks", StatisticsChoice::Stderr),
        ("./ticks", StatisticsChoice::Off),
    ] {
        assert_eq!(environment(&[("CPUPROFILE_STATISTICS", value)]).statistics, expected, "{value}");
    }
    assert_eq!(environment(&[]).statistics, StatisticsChoice::Off);
}

#[test]
fn chooses_the_clock_by_name_or_by_gperftools_variables() {
    for (variables, expected) in [
        (&[][..], Clock::Auto),
        (&[("CPUPROFILE_CLOCK", "auto"), ("CPUPROFILE_REALTIME", "1")], Clock::Auto),
        (&[("CPUPROFILE_CLOCK", "cpu")], Clock::Cpu),
        (&[("CPUPROFILE_CLOCK", "itimer")], Clock::Itimer),
        (&[("CPUPROFILE_CLOCK", " wall ")], Clock::Wall),
        (&[("CPUPROFILE_CLOCK", "perf")], Clock::Perf),
        (&[("CPUPROFILE_CLOCK", ""), ("CPUPROFILE_REALTIME", "1")], Clock::Wall),
        (&[("CPUPROFILE_REALTIME", "0")], Clock::Auto),
        (&[("CPUPROFILE_PER_THREAD_TIMERS", "1")], Clock::Cpu),
        (&[("CPUPROFILE_CLOCK", "itimer"), ("CPUPROFILE_REALTIME", "1")], Clock::Itimer),
    ] {
        let environment = environment(variables);
        assert_eq!((environment.clock, environment.warnings.len()), (expected, 0), "{variables:?}");
    }
    let unknown = environment(&[("CPUPROFILE_CLOCK", "sundial"), ("CPUPROFILE_REALTIME", "1")]);
    assert_eq!(unknown.clock, Clock::Wall);
    assert_eq!(
        unknown.warnings,
        ["CPUPROFILE_CLOCK=sundial is not a clock (auto, cpu, itimer, perf, wall); using wall"]
    );
}

#[test]
fn accepts_only_real_time_signals_for_ticks() {
    let with = |variables: &[(&str, &str)]| {
        let environment = environment(variables);
        (environment.timer_signal, environment.warnings)
    };
    let [first, last] = [libc::SIGRTMIN(), libc::SIGRTMAX()];
    for (value, signal) in [
        (first.to_string(), Some(first)),
        (last.to_string(), Some(last)),
        (libc::SIGPROF.to_string(), None),
        (String::new(), None),
    ] {
        assert_eq!(with(&[("CPUPROFILE_TIMER_SIGNAL", &value)]), (signal, Vec::new()), "{value}");
    }
    let (signal, warnings) = with(&[("CPUPROFILE_TIMER_SIGNAL", "SIGPROF"), ("CPUPROFILE_CLOCK", "wall")]);
    assert_eq!(signal, None);
    let accepted = "must be SIGALRM or SIGRTMIN to SIGRTMAX; using SIGALRM";
    assert_eq!(warnings, [format!("CPUPROFILE_TIMER_SIGNAL=SIGPROF {accepted}")]);
    let [below, above] = [first - 1, last + 1].map(|signal| signal.to_string());
    for value in ["none", "11", "9", "SIGUSR2", &below, &above, "-1", "0"] {
        let (signal, warnings) = with(&[("CPUPROFILE_TIMER_SIGNAL", value)]);
        assert_eq!((signal, warnings.len()), (None, 1), "{value}");
    }
    let taken = last.to_string();
    let both = [("CPUPROFILE_TIMER_SIGNAL", taken.as_str()), ("CPUPROFILESIGNAL", taken.as_str())];
    let warning =
        format!("CPUPROFILE_TIMER_SIGNAL={taken} is also the value of CPUPROFILESIGNAL; using SIGPROF");
    assert_eq!(with(&both), (None, vec![warning]));
}

#[test]
fn uses_defaults_without_variables() {
    let environment = environment(&[("HOME", "/"), ("CPUPROFILE", "")]);
    assert_eq!(environment.path, None);
    assert_eq!((environment.frequency, environment.max_depth), (100, 254));
    assert_eq!((environment.toggle_signal, environment.clock, environment.quiet), (None, Clock::Auto, false));
    assert!(environment.warnings.is_empty());
}

#[test]
fn reads_numbers_or_warns() {
    for (value, frequency, warned) in [
        ("250", 250, false),
        ("10000", 10_000, false),
        ("", 100, false),
        ("0", 100, true),
        ("-5", 100, true),
        ("often", 100, true),
        ("100x", 100, true),
        ("00000000000000000000", 100, true),
        ("99999999999999999999999c", 100, true),
        ("00000000000000000000250", 250, false),
        ("10001", 10_000, true),
        ("99999999999999999999999", 10_000, true),
    ] {
        let environment = environment(&[("CPUPROFILE_FREQUENCY", value)]);
        assert_eq!(environment.frequency, frequency, "{value}");
        assert_eq!(environment.warnings.len(), usize::from(warned), "{value}");
    }
    assert_eq!(environment(&[("CPUPROFILE_MAX_DEPTH", "5000")]).max_depth, 4096);
}

#[test]
fn reads_memory_in_bytes_or_larger_units() {
    let default = DEFAULT_MAX_MEMORY;
    for (value, bytes, warned) in [
        ("", default, false),
        ("33554432", 32 << 20, false),
        ("32768K", 32 << 20, false),
        ("32m", 32 << 20, false),
        (" 1G ", 1 << 30, false),
        ("4M", SMALLEST_MAX_MEMORY, true),
        ("0", SMALLEST_MAX_MEMORY, true),
        ("2G", LARGEST_MAX_MEMORY, true),
        ("99999999999999999999999G", LARGEST_MAX_MEMORY, true),
        ("18446744073709551615G", LARGEST_MAX_MEMORY, true),
        ("M", default, true),
        ("much", default, true),
        ("-1", default, true),
        ("32MB", default, true),
    ] {
        let environment = environment(&[("CPUPROFILE_MAX_MEMORY", value)]);
        assert_eq!(environment.max_memory, bytes, "{value}");
        assert_eq!(environment.warnings.len(), usize::from(warned), "{value}");
    }
}

#[test]
fn names_files_as_gperftools_does() {
    assert_eq!(name(&[("CPUPROFILE", "p")]), ("p".into(), false));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("CPUPROFILE_USE_PID", "1")]), ("p".into(), true));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("CPUPROFILE_USE_PID", "1,refused")]), ("p".into(), true));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("CPUPROFILE_USE_PID", "0")]), ("p".into(), false));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("PMIX_RANK", "5")]), ("p.rank-5".into(), false));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("SLURM_JOB_ID", "1")]), ("p".into(), true));
    let slurm = [("CPUPROFILE", "p"), ("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "5")];
    assert_eq!(name(&slurm), ("p.slurmid-5".into(), false));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("OMPI_HOME", "/x")]), ("p".into(), true));
    assert_eq!(name(&[("CPUPROFILE", "p"), ("PMI_RANK", "3")]), ("p.rank-3".into(), false));
}

#[test]
fn follows_children_by_default() {
    assert!(environment(&[]).follow_fork);
    for (value, follows) in [("1", true), ("yes", true), ("", true), ("0", false), ("no", false)] {
        assert_eq!(environment(&[("CPUPROFILE_FOLLOW_FORK", value)]).follow_fork, follows, "{value}");
    }
}

#[test]
fn reads_the_parent_of_the_profiled_children() {
    for (value, id) in [("17", Some(17)), ("", None), ("x", None), ("-1", None)] {
        assert_eq!(environment(&[("CPUPROFILE_CHILD_OF", value)]).child_of, id, "{value}");
    }
    assert_eq!(environment(&[]).child_of, None);
}

#[test]
fn reads_whether_samples_are_by_thread() {
    assert!(!environment(&[]).by_thread);
    for (value, is_by_thread) in [("1", true), ("yes", true), ("", true), ("0", false), ("no", false)] {
        assert_eq!(environment(&[("CPUPROFILE_THREADS", value)]).by_thread, is_by_thread, "{value}");
        assert_eq!(environment(&[("CPUPROFILE_KEEP_SPOOL", value)]).keeps_spool, is_by_thread, "{value}");
        let is_random = environment(&[("CPUPROFILE_RANDOM_START", value)]).starts_at_random;
        assert_eq!(is_random, is_by_thread, "{value}");
    }
}

#[test]
fn removes_the_mark_of_a_profiled_parent() {
    let marked: &[(&[u8], &[u8])] = &[(b"CPUPROFILE", b"\xf0x")];
    let child = Environment::from_pairs(marked.iter().copied(), |_| None);
    assert_eq!(child.path.as_deref(), Some(&b"px"[..]));
    assert!(child.is_child && child.adds_pid());
}

#[test]
fn finds_no_mark_in_a_path_that_is_text() {
    for path in ["é.prof", "профиль"] {
        assert_eq!(name(&[("CPUPROFILE", path)]), (path.into(), false));
    }
    let pairs: &[(&[u8], &[u8])] = &[(b"CPUPROFILE", b"\x80")];
    let odd = Environment::from_pairs(pairs.iter().copied(), |_| None);
    assert_eq!((odd.path.as_deref(), odd.is_child), (Some(&b"\x80"[..]), false), "no path begins with NUL");
}

#[test]
fn escapes_and_truncates_a_value_in_a_warning() {
    let value = format!("1\n2\u{1b}{}", "x".repeat(5000));
    let warnings = environment(&[("CPUPROFILE_FREQUENCY", &value)]).warnings;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.starts_with("CPUPROFILE_FREQUENCY=1\\n2\\u{1b}xxx") && warning.len() < 200, "{warning}");
    assert!(warning.ends_with("... is not a number from 1 to 10000; using 100 Hz"));
}

#[test]
fn warns_of_an_unknown_signal() {
    assert_eq!(environment(&[("CPUPROFILESIGNAL", "SIGUSR2")]).toggle_signal, Some((12, b"SIGUSR2".into())));
    let unknown = environment(&[("CPUPROFILESIGNAL", "SIGNONE")]);
    assert_eq!((unknown.toggle_signal, unknown.warnings.len()), (None, 1));
}
