//! All environment variables with arbitrary values.

use crate::{
    config::{
        Clock, DEFAULT_DEPTH, DEFAULT_FREQUENCY, DEFAULT_MAX_MEMORY, Environment, LARGEST_MAX_MEMORY,
        MAX_DEPTH, MAX_FREQUENCY, SMALLEST_MAX_MEMORY, SpoolChoice, StatisticsChoice, is_marked,
        period_micros,
    },
    line::Line,
    sys::signal,
};

/// The variables; the first byte of an entry chooses one, from `a` on.
const NAMES: [&str; 21] = [
    "CPUPROFILE",
    "CPUPROFILE_USE_PID",
    "CPUPROFILE_FREQUENCY",
    "CPUPROFILE_MAX_DEPTH",
    "CPUPROFILE_REALTIME",
    "CPUPROFILESIGNAL",
    "CPUPROFILE_FOLLOW_FORK",
    "CPUPROFILE_QUIET",
    "CPUPROFILE_SPOOL",
    "CPUPROFILE_STATISTICS",
    "PMIX_RANK",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "OMPI_HOME",
    "PMI_RANK",
    "CPUPROFILE_MAX_MEMORY",
    "CPUPROFILE_CLOCK",
    "CPUPROFILE_PER_THREAD_TIMERS",
    "CPUPROFILE_THREADS",
    "CPUPROFILE_KEEP_SPOOL",
    "CPUPROFILE_RANDOM_START",
];

/// Entries separated by NULs: a byte that chooses the variable, then its value.
pub(super) fn any_bytes(bytes: &[u8]) {
    let entries = bytes.split(|&byte| byte == 0).filter_map(|entry| entry.split_first());
    let pairs: Vec<(&[u8], &[u8])> = entries
        .filter_map(|(first, value)| Some((first.checked_sub(b'a')?, value)))
        .filter_map(|(number, value)| Some((NAMES.get(usize::from(number))?.as_bytes(), value)))
        .collect();
    let environment = Environment::from_pairs(pairs.iter().copied(), signal::number);
    let value = |name: &str| pairs.iter().find(|pair| pair.0 == name.as_bytes()).map(|pair| pair.1);
    let mut warned = 0;
    for (name, default, maximum, taken) in [
        (
            "CPUPROFILE_FREQUENCY",
            DEFAULT_FREQUENCY as usize,
            MAX_FREQUENCY as usize,
            environment.frequency as usize,
        ),
        ("CPUPROFILE_MAX_DEPTH", DEFAULT_DEPTH, MAX_DEPTH, environment.max_depth),
    ] {
        let (expected, complaint) = number(value(name), default, maximum);
        assert_eq!(taken, expected, "{name}");
        if let Some(complaint) = complaint {
            expect_warning(&environment, name, &[complaint, &maximum.to_string(), &expected.to_string()]);
            warned += 1;
        }
    }
    assert!((100..=1_000_000).contains(&period_micros(environment.frequency)));
    let (expected, complaint) = memory(value("CPUPROFILE_MAX_MEMORY"));
    assert_eq!(environment.max_memory, expected);
    if let Some(complaint) = complaint {
        let used = format!("using {}M", expected >> 20);
        expect_warning(&environment, "CPUPROFILE_MAX_MEMORY", &[complaint, &used]);
        warned += 1;
    }
    match (&environment.toggle_signal, value("CPUPROFILESIGNAL")) {
        (None, None) => {}
        (Some((number, name)), Some(value)) => {
            assert!((1..=64).contains(number) && name == value);
        }
        (None, Some(_)) => {
            expect_warning(&environment, "CPUPROFILESIGNAL", &["not a signal", "SIGUSR2"]);
            warned += 1;
        }
        (Some(_), None) => panic!("a signal that nobody named"),
    }
    let default = if value("CPUPROFILE_REALTIME").is_some_and(is_yes) {
        Clock::Wall
    } else if value("CPUPROFILE_PER_THREAD_TIMERS").is_some_and(is_yes) {
        Clock::Cpu
    } else {
        Clock::Auto
    };
    let named = value("CPUPROFILE_CLOCK").unwrap_or_default();
    let expected = match named.trim_ascii() {
        b"auto" => Clock::Auto,
        b"cpu" => Clock::Cpu,
        b"itimer" => Clock::Itimer,
        b"perf" => Clock::Perf,
        b"wall" => Clock::Wall,
        _ => default,
    };
    assert_eq!(environment.clock, expected);
    if !named.is_empty() && !matches!(named.trim_ascii(), b"auto" | b"cpu" | b"itimer" | b"perf" | b"wall") {
        expect_warning(&environment, "CPUPROFILE_CLOCK", &["not a clock", "itimer"]);
        warned += 1;
    }
    assert_eq!(environment.warnings.len(), warned, "{:?}", environment.warnings);
    for (name, taken, default) in [
        ("CPUPROFILE_QUIET", environment.quiet, false),
        ("CPUPROFILE_FOLLOW_FORK", environment.follow_fork, true),
        ("CPUPROFILE_THREADS", environment.by_thread, false),
        ("CPUPROFILE_KEEP_SPOOL", environment.keeps_spool, false),
        ("CPUPROFILE_RANDOM_START", environment.starts_at_random, false),
    ] {
        assert_eq!(taken, value(name).map_or(default, is_yes), "{name}");
    }
    match (&environment.statistics, value("CPUPROFILE_STATISTICS")) {
        (StatisticsChoice::Off, None) => {}
        (StatisticsChoice::Off, Some(value)) => assert!(!value.starts_with(b"/") && !is_yes(value)),
        (StatisticsChoice::Stderr, Some(value)) => assert!(is_yes(value)),
        (StatisticsChoice::File(path), Some(value)) => assert!(path.to_bytes() == value && value[0] == b'/'),
        other => panic!("{other:?}"),
    }
    match (&environment.spool, value("CPUPROFILE_SPOOL").unwrap_or_default()) {
        (SpoolChoice::Default, b"") | (SpoolChoice::Off, b"off") => {}
        (SpoolChoice::Directory(directory), value) => assert!(directory == value && !value.is_empty()),
        other => panic!("{other:?}"),
    }
    expect_name(&environment, value);
}

/// Checks that the profile's name begins with `CPUPROFILE` and distinguishes processes and ranks.
fn expect_name<'v>(environment: &Environment, value: impl Fn(&str) -> Option<&'v [u8]>) {
    let value = |name| value(name).filter(|value: &&[u8]| !value.is_empty());
    let Some(path) = value("CPUPROFILE") else {
        assert_eq!((environment.base_path(), environment.path_of_process(1)), (None, None));
        return;
    };
    let base = environment.base_path().expect("a path");
    let rank =
        base.strip_prefix(&environment.path.clone().expect("a path")[..]).expect("the rank comes behind");
    for (process, id) in [(1, "_1"), (u32::MAX, "_4294967295")] {
        let of_process = environment.path_of_process(process).expect("a path");
        let id = if environment.adds_pid() { id } else { "" };
        assert_eq!(of_process, [&base, id.as_bytes()].concat());
        assert!(!of_process.contains(&0), "the kernel would take the beginning for the name");
    }
    assert_eq!(base[0] == path[0], !is_marked(path));
    assert_eq!(base[1..path.len()], path[1..]);
    assert!(!is_marked(path) || std::str::from_utf8(path).is_err() && environment.adds_pid());
    let ranks = [value("PMIX_RANK"), value("SLURM_PROCID"), value("PMI_RANK")];
    assert!(rank.is_empty() || ranks.iter().flatten().any(|value| rank.ends_with(value)));
    if environment.adds_pid() {
        let reasons = [value("SLURM_JOB_ID"), value("OMPI_HOME")];
        let is_asked_for = environment.use_pid || is_marked(path);
        assert!(is_asked_for || reasons.iter().any(Option::is_some));
    }
}

/// Returns the expected number and a part of the warning.
fn number(value: Option<&[u8]>, default: usize, maximum: usize) -> (usize, Option<&'static str>) {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return (default, None) };
    let text = String::from_utf8_lossy(value);
    let digits = text.trim();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches('0');
    if !is_number || significant.is_empty() {
        return (default, Some("not a number"));
    }
    match significant.parse::<usize>() {
        Ok(number) if number <= maximum => (number, None),
        _ => (maximum, Some("above")),
    }
}

/// Returns the expected bytes and a part of the warning.
fn memory(value: Option<&[u8]>) -> (usize, Option<&'static str>) {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return (DEFAULT_MAX_MEMORY, None) };
    let text = String::from_utf8_lossy(value);
    let text = text.trim();
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1u128 << 10),
        Some('m' | 'M') => (&text[..text.len() - 1], 1 << 20),
        Some('g' | 'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return (DEFAULT_MAX_MEMORY, Some("not a number of bytes"));
    }
    let significant = digits.trim_start_matches('0');
    let number = if significant.len() > 25 { u128::MAX } else { significant.parse().unwrap_or(0) };
    match number.saturating_mul(unit) {
        bytes if bytes < SMALLEST_MAX_MEMORY as u128 => (SMALLEST_MAX_MEMORY, Some("below the minimum")),
        bytes if bytes > LARGEST_MAX_MEMORY as u128 => (LARGEST_MAX_MEMORY, Some("above the maximum")),
        bytes => (bytes as usize, None),
    }
}

fn is_yes(value: &[u8]) -> bool {
    matches!(value.first(), None | Some(b't' | b'T' | b'y' | b'Y' | b'1'))
}

/// Checks that one warning begins with the variable, contains each of `said`, and fits on a line.
fn expect_warning(environment: &Environment, name: &str, said: &[&str]) {
    let start = format!("{name}=");
    let mut warnings = environment.warnings.iter().filter(|warning| warning.starts_with(&start));
    let (Some(warning), None) = (warnings.next(), warnings.next()) else {
        panic!("not one warning of {name}: {:?}", environment.warnings)
    };
    assert!(said.iter().all(|word| warning.contains(word)), "{warning:?} says nothing of {said:?}");
    assert!(!warning.contains(char::is_control), "{warning:?} is not to be printed");
    let mut line = Line::new();
    line.bytes(b"sigprof: ");
    line.bytes(warning.as_bytes());
    let line = line.finished();
    assert_eq!(line, format!("sigprof: {warning}\n").as_bytes(), "it is cut, or altered");
}
