//! What a session is started with, and how users say it in the environment.
//!
//! # Safety
//! Calls the user's filter, for which the user vouches.
#![allow(unsafe_code)]

mod clock;

pub use clock::Clock;
pub(crate) use clock::can_tick;

use core::ffi::{c_int, c_void};
use std::ffi::CString;

/// The deepest call chain that can be asked for, in frames.
pub const MAX_DEPTH: usize = 4096;
/// The deepest call chain that is recorded unless asked otherwise, in frames.
pub const DEFAULT_DEPTH: usize = 254;
/// Ticks per second unless asked otherwise, as in gperftools.
pub const DEFAULT_FREQUENCY: u32 = 100;
/// The most ticks per second that can be asked for.
pub const MAX_FREQUENCY: u32 = 10_000;
/// Bytes of memory that the profiler takes at most unless asked otherwise.
pub const DEFAULT_MAX_MEMORY: usize = if cfg!(target_pointer_width = "64") { 64 << 20 } else { 16 << 20 };
/// The least bytes of memory that it can be held to.
pub const LEAST_MAX_MEMORY: usize = 8 << 20;
/// The most bytes of memory that it can be allowed.
pub const MOST_MAX_MEMORY: usize = 1 << 30;
/// Of these bytes, those that are not for the table of call chains: the rules of frames, the handlers' own stacks, the
/// head of the spool, buffers.
const BESIDE_THE_TABLE: usize = 4 << 20;

/// Bytes of the table of call chains.
pub(crate) fn table_bytes(max_memory: usize) -> usize {
    max_memory.clamp(LEAST_MAX_MEMORY, MOST_MAX_MEMORY) - BESIDE_THE_TABLE
}

/// A callback that decides, in the signal handler, whether a tick is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    /// `filter_in_thread` of the C interface, and its argument.
    C(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void),
    /// A function of the crate's builder.
    Rust(fn() -> bool),
}

// SAFETY: the argument is handed to the user's function only, which has to cope with any thread.
unsafe impl Send for Filter {}
// SAFETY: as above.
unsafe impl Sync for Filter {}

impl Filter {
    /// Asks the callback.
    ///
    /// # Safety
    /// * The callback is async-signal-safe, and its argument still valid: who started the session promised it.
    pub(crate) unsafe fn accepts(self) -> bool {
        match self {
            // SAFETY: the caller's word.
            Self::C(function, argument) => unsafe { function(argument) != 0 },
            Self::Rust(function) => function(),
        }
    }
}

/// Where the user wants the spools of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpoolChoice {
    /// In a directory of the user's own below /dev/shm.
    #[default]
    Default,
    /// In this directory.
    Directory(Vec<u8>),
    /// Nowhere: a profile does not outlive a kill.
    Off,
}

impl SpoolChoice {
    fn from_value(value: Option<&[u8]>) -> Self {
        match value {
            None | Some(b"") => Self::Default,
            Some(b"off") => Self::Off,
            Some(path) => Self::Directory(path.to_vec()),
        }
    }
}

/// Where the user wants the line of statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatisticsChoice {
    /// Nowhere.
    #[default]
    Off,
    /// On stderr.
    Stderr,
    /// At the end of this file, whose path begins at the root.
    File(CString),
}

impl StatisticsChoice {
    fn from_value(value: Option<&[u8]>) -> Self {
        match value {
            Some(path) if path.first() == Some(&b'/') => CString::new(path).map_or(Self::Off, Self::File),
            Some(value) if is_true(value) => Self::Stderr,
            _ => Self::Off,
        }
    }
}

/// The period of a frequency, in whole microseconds; the frequency is brought within 1 to [`MAX_FREQUENCY`].
pub(crate) fn period_micros(frequency: u32) -> u32 {
    1_000_000 / frequency.clamp(1, MAX_FREQUENCY)
}

/// What the environment asks for (`CPUPROFILE` and its companions).
///
/// Read from name-value pairs by [`Environment::from_pairs`]; nothing here touches the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// `CPUPROFILE`, without the mark that a profiled parent leaves; None when unset or empty.
    pub path: Option<Vec<u8>>,
    /// The path carried the mark that a parent profiled by gperftools before 2.18 leaves.
    pub is_child: bool,
    /// What an MPI or Slurm rank adds to the path.
    pub rank_suffix: Vec<u8>,
    /// `CPUPROFILE_USE_PID`, or a job without ranks: the process id is always added.
    pub use_pid: bool,
    /// `CPUPROFILE_FREQUENCY` in ticks per second, 1 to [`MAX_FREQUENCY`].
    pub frequency: u32,
    /// `CPUPROFILE_MAX_DEPTH` in frames, 1 to [`MAX_DEPTH`].
    pub max_depth: usize,
    /// `CPUPROFILE_THREADS`: whose a sample is is part of it.
    pub by_thread: bool,
    /// `CPUPROFILE_CLOCK`, or gperftools' `CPUPROFILE_REALTIME` and `CPUPROFILE_PER_THREAD_TIMERS`.
    pub clock: Clock,
    /// `CPUPROFILE_TIMER_SIGNAL`: the signal of ticks, where it is not the clock's own.
    pub timer_signal: Option<i32>,
    /// `CPUPROFILESIGNAL`: the signal that switches profiling on and off, and how it was written.
    pub toggle_signal: Option<(i32, Vec<u8>)>,
    /// `CPUPROFILE_FOLLOW_FORK`: forked children write profiles of their own, as they do unless told otherwise.
    pub follow_fork: bool,
    /// `CPUPROFILE_QUIET`: no line at the end.
    pub quiet: bool,
    /// `CPUPROFILE_SPOOL`: a directory, or `off`.
    pub spool: SpoolChoice,
    /// `CPUPROFILE_KEEP_SPOOL`: the profile is left in the spool, for `sigprof record`.
    pub keeps_spool: bool,
    /// `CPUPROFILE_CHILD_OF`: only the children of this process are profiled, for `sigprof record --no-children`.
    pub child_of: Option<u32>,
    /// `CPUPROFILE_MAX_MEMORY`: bytes of memory that the profiler takes at most, [`LEAST_MAX_MEMORY`] to
    /// [`MOST_MAX_MEMORY`].
    pub max_memory: usize,
    /// `CPUPROFILE_STATISTICS`: a line at the end with what became of ticks and walks.
    pub statistics: StatisticsChoice,
    /// One line for each value that could not be used, with what is used instead.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Reads the variables out of `pairs`; later pairs of a name are ignored, as `getenv(3)` does.
    ///
    /// `signal_number` gives the number of a signal by its name or number.
    pub fn from_pairs<'p>(
        pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
        signal_number: impl Fn(&[u8]) -> Option<i32>,
    ) -> Self {
        let mut variables = Variables::default();
        for (name, value) in pairs {
            variables.note(name, value);
        }
        let mut warnings = Vec::new();
        let path = variables.path.filter(|path| !path.is_empty());
        let is_child = path.is_some_and(is_marked);
        let mut plain = path.map(<[u8]>::to_vec);
        if let Some(first) = plain.as_mut().and_then(|path| path.first_mut()).filter(|_| is_child) {
            *first &= !MARK;
        }
        let (rank_suffix, rank_needs_pid) = variables.rank();
        let clock =
            Clock::from_values(variables.clock, variables.realtime, variables.per_thread, &mut warnings);
        let toggle_signal = variables.toggle_signal.and_then(|name| {
            let signal = signal_number(name);
            if signal.is_none() {
                warnings.push(format!(
                    "CPUPROFILESIGNAL={} names no signal, as 12, SIGUSR2 or USR2 do; profiling starts now and is not switched",
                    shown(name)
                ));
            }
            Some((signal?, name.to_vec()))
        });
        let toggle = toggle_signal.as_ref().map(|(signal, _)| *signal);
        let timer_signal =
            clock::tick_signal(variables.timer_signal, clock, toggle, &signal_number, &mut warnings);
        Self {
            path: plain,
            is_child,
            rank_suffix,
            use_pid: rank_needs_pid || variables.use_pid.is_some_and(is_true),
            frequency: number(
                "CPUPROFILE_FREQUENCY",
                variables.frequency,
                (DEFAULT_FREQUENCY, MAX_FREQUENCY),
                "Hz",
                &mut warnings,
            ),
            max_depth: number(
                "CPUPROFILE_MAX_DEPTH",
                variables.max_depth,
                (DEFAULT_DEPTH as u32, MAX_DEPTH as u32),
                "frames",
                &mut warnings,
            ) as usize,
            by_thread: variables.threads.is_some_and(is_true),
            clock,
            timer_signal,
            toggle_signal,
            follow_fork: variables.follow_fork.is_none_or(is_true),
            quiet: variables.quiet.is_some_and(is_true),
            spool: SpoolChoice::from_value(variables.spool),
            child_of: variables.child_of.and_then(|id| core::str::from_utf8(id).ok()?.parse().ok()),
            keeps_spool: variables.keep_spool.is_some_and(is_true),
            max_memory: max_memory(variables.max_memory, &mut warnings),
            statistics: StatisticsChoice::from_value(variables.statistics),
            warnings,
        }
    }

    /// The path without a process id: what a forked child adds its own to.
    pub fn base_path(&self) -> Option<Vec<u8>> {
        let mut path = self.path.clone()?;
        path.extend_from_slice(&self.rank_suffix);
        Some(path)
    }

    /// The path of the profile of the process with this id.
    pub fn path_of_process(&self, process: u32) -> Option<Vec<u8>> {
        let mut path = self.base_path()?;
        if self.adds_pid() {
            path.extend_from_slice(format!("_{process}").as_bytes());
        }
        Some(path)
    }

    /// True when the path of this process carries its id: `NAME_PID`, as gperftools 2.18 names files.
    pub fn adds_pid(&self) -> bool {
        self.use_pid || self.is_child
    }
}

/// The bit that gperftools before 2.18 sets in the first byte of `CPUPROFILE`, for child processes to see.
pub const MARK: u8 = 0x80;

/// True for a path that carries the mark. A path that is text does not: its first byte can have the bit only where it
/// begins a character of several bytes, as the mark's own text never does. No path begins with a NUL either.
pub fn is_marked(path: &[u8]) -> bool {
    path.first().is_some_and(|&first| first & MARK != 0 && first != MARK)
        && core::str::from_utf8(path).is_err()
}

/// The raw values of the variables that matter.
#[derive(Default)]
struct Variables<'p> {
    path: Option<&'p [u8]>,
    use_pid: Option<&'p [u8]>,
    frequency: Option<&'p [u8]>,
    max_depth: Option<&'p [u8]>,
    threads: Option<&'p [u8]>,
    clock: Option<&'p [u8]>,
    realtime: Option<&'p [u8]>,
    per_thread: Option<&'p [u8]>,
    timer_signal: Option<&'p [u8]>,
    toggle_signal: Option<&'p [u8]>,
    follow_fork: Option<&'p [u8]>,
    quiet: Option<&'p [u8]>,
    spool: Option<&'p [u8]>,
    keep_spool: Option<&'p [u8]>,
    child_of: Option<&'p [u8]>,
    max_memory: Option<&'p [u8]>,
    statistics: Option<&'p [u8]>,
    pmix_rank: Option<&'p [u8]>,
    slurm_job: Option<&'p [u8]>,
    slurm_process: Option<&'p [u8]>,
    open_mpi: Option<&'p [u8]>,
    pmi_rank: Option<&'p [u8]>,
}

impl<'p> Variables<'p> {
    fn note(&mut self, name: &[u8], value: &'p [u8]) {
        let place = match name {
            b"CPUPROFILE" => &mut self.path,
            b"CPUPROFILE_USE_PID" => &mut self.use_pid,
            b"CPUPROFILE_FREQUENCY" => &mut self.frequency,
            b"CPUPROFILE_MAX_DEPTH" => &mut self.max_depth,
            b"CPUPROFILE_THREADS" => &mut self.threads,
            b"CPUPROFILE_CLOCK" => &mut self.clock,
            b"CPUPROFILE_REALTIME" => &mut self.realtime,
            b"CPUPROFILE_PER_THREAD_TIMERS" => &mut self.per_thread,
            b"CPUPROFILE_TIMER_SIGNAL" => &mut self.timer_signal,
            b"CPUPROFILESIGNAL" => &mut self.toggle_signal,
            b"CPUPROFILE_FOLLOW_FORK" => &mut self.follow_fork,
            b"CPUPROFILE_QUIET" => &mut self.quiet,
            b"CPUPROFILE_SPOOL" => &mut self.spool,
            b"CPUPROFILE_KEEP_SPOOL" => &mut self.keep_spool,
            b"CPUPROFILE_CHILD_OF" => &mut self.child_of,
            b"CPUPROFILE_MAX_MEMORY" => &mut self.max_memory,
            b"CPUPROFILE_STATISTICS" => &mut self.statistics,
            b"PMIX_RANK" => &mut self.pmix_rank,
            b"SLURM_JOB_ID" => &mut self.slurm_job,
            b"SLURM_PROCID" => &mut self.slurm_process,
            b"OMPI_HOME" => &mut self.open_mpi,
            b"PMI_RANK" => &mut self.pmi_rank,
            _ => return,
        };
        place.get_or_insert(value);
    }

    /// What the rank adds to the name, and whether the process id must tell processes apart. PMIx comes before
    /// Slurm, Open MPI and MPICH's Hydra, as in gperftools.
    fn rank(&self) -> (Vec<u8>, bool) {
        let set = |value: Option<&'p [u8]>| value.filter(|value| !value.is_empty());
        let suffix = |word: &[u8], rank: &[u8]| ([word, rank].concat(), false);
        if let Some(rank) = set(self.pmix_rank) {
            suffix(b".rank-", rank)
        } else if set(self.slurm_job).is_some() {
            set(self.slurm_process).map_or((Vec::new(), true), |rank| suffix(b".slurmid-", rank))
        } else if set(self.open_mpi).is_some() {
            (Vec::new(), true)
        } else if let Some(rank) = set(self.pmi_rank) {
            suffix(b".rank-", rank)
        } else {
            (Vec::new(), false)
        }
    }
}

/// gperftools' reading of a yes: nothing, or a word that begins with t, T, y, Y or 1.
fn is_true(value: &[u8]) -> bool {
    value.first().is_none_or(|first| b"tTyY1".contains(first))
}

/// A number between 1 and the maximum; the default where it is none, the maximum where it is more.
fn number(
    name: &str,
    value: Option<&[u8]>,
    (default, maximum): (u32, u32),
    unit: &str,
    warnings: &mut Vec<String>,
) -> u32 {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return default };
    let text = String::from_utf8_lossy(value);
    let digits = text.trim();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // All that a number lacks is room.
    let number = if is_number { digits.parse::<u64>().unwrap_or(u64::MAX) } else { 0 };
    if (1..=u64::from(maximum)).contains(&number) {
        return number as u32;
    }
    let (wrong, used) = if number > 0 {
        ("is above the maximum".into(), maximum)
    } else {
        (format!("is no number from 1 to {maximum}"), default)
    };
    warnings.push(format!("{name}={} {wrong}; using {used} {unit}", shown(value)));
    used
}

/// Bytes, or with one of the letters K, M and G behind them 1024 times as many, and so on; the nearest value that can be
/// had where it is too little or too much, the default where it is no number.
fn max_memory(value: Option<&[u8]>, warnings: &mut Vec<String>) -> usize {
    const NAME: &str = "CPUPROFILE_MAX_MEMORY";
    let Some(value) = value.filter(|value| !value.is_empty()) else { return DEFAULT_MAX_MEMORY };
    let text = String::from_utf8_lossy(value);
    let trimmed = text.trim();
    let shift = match trimmed.bytes().next_back().map(|letter| letter.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift > 0 { trimmed.get(..trimmed.len() - 1).unwrap_or_default() } else { trimmed };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let default = DEFAULT_MAX_MEMORY >> 20;
        warnings.push(format!("{NAME}={} is no number of bytes, K, M or G; using {default}M", shown(value)));
        return DEFAULT_MAX_MEMORY;
    }
    // All that a number lacks is room.
    let bytes = digits.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1 << shift);
    let (least, most) = (LEAST_MAX_MEMORY as u64, MOST_MAX_MEMORY as u64);
    let used = bytes.clamp(least, most);
    if used != bytes {
        let wrong = if bytes < least { "is below the minimum" } else { "is above the maximum" };
        warnings.push(format!("{NAME}={} {wrong}; using {}M", shown(value), used >> 20));
    }
    used as usize
}

/// A value for a line: what is not to be printed is escaped, and a long one is cut, so that the rest has room.
fn shown(value: &[u8]) -> String {
    const MOST: usize = 80;
    let text = String::from_utf8_lossy(value);
    let mut shown = String::new();
    for (i, character) in text.chars().enumerate() {
        match character {
            _ if i == MOST => {
                shown.push_str("...");
                break;
            }
            _ if character.is_control() => shown.extend(character.escape_default()),
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let pairs = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        Environment::from_pairs(pairs, |name| match name {
            b"SIGUSR2" => Some(12),
            b"SIGPROF" => Some(27),
            number => {
                core::str::from_utf8(number).ok()?.parse().ok().filter(|number| (1..65).contains(number))
            }
        })
    }

    fn name(pairs: &[(&str, &str)]) -> (String, bool) {
        let environment = environment(pairs);
        (String::from_utf8(environment.base_path().unwrap()).unwrap(), environment.adds_pid())
    }

    #[test]
    fn spools_go_where_the_user_says() {
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
    fn statistics_go_where_the_user_says() {
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
    fn the_clock_is_named_or_follows_from_gperftools_variables() {
        for (variables, expected) in [
            (&[("CPUPROFILE_CLOCK", "cpu")][..], Clock::Cpu),
            (&[("CPUPROFILE_CLOCK", "itimer")], Clock::Itimer),
            (&[("CPUPROFILE_CLOCK", " wall ")], Clock::Wall),
            (&[("CPUPROFILE_CLOCK", "perf")], Clock::Perf),
            (&[("CPUPROFILE_CLOCK", ""), ("CPUPROFILE_REALTIME", "1")], Clock::Wall),
            (&[("CPUPROFILE_REALTIME", "0")], Clock::Cpu),
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
            ["CPUPROFILE_CLOCK=sundial names no clock, which are cpu, itimer, perf, wall; using wall"]
        );
    }

    #[test]
    fn ticks_have_another_signal_where_it_can_be() {
        let with = |variables: &[(&str, &str)]| {
            let environment = environment(variables);
            (environment.timer_signal, environment.warnings)
        };
        for (value, signal) in [("34", Some(34)), ("64", Some(64)), ("27", None), ("", None)] {
            assert_eq!(with(&[("CPUPROFILE_TIMER_SIGNAL", value)]), (signal, Vec::new()), "{value}");
        }
        let (signal, warnings) =
            with(&[("CPUPROFILE_TIMER_SIGNAL", "SIGPROF"), ("CPUPROFILE_CLOCK", "wall")]);
        assert_eq!(signal, None);
        let accepted = "neither SIGALRM nor one from SIGRTMIN to SIGRTMAX; using SIGALRM";
        assert_eq!(warnings, [format!("CPUPROFILE_TIMER_SIGNAL=SIGPROF is {accepted}")]);
        for value in ["none", "11", "9", "SIGUSR2", "33", "65", "-1", "0"] {
            let (signal, warnings) = with(&[("CPUPROFILE_TIMER_SIGNAL", value)]);
            assert_eq!((signal, warnings.len()), (None, 1), "{value}");
        }
        let both = [("CPUPROFILE_TIMER_SIGNAL", "40"), ("CPUPROFILESIGNAL", "40")];
        let told = "CPUPROFILE_TIMER_SIGNAL=40 is that of CPUPROFILESIGNAL, too; using SIGPROF";
        assert_eq!(with(&both), (None, vec![told.into()]));
    }

    #[test]
    fn nothing_set_means_off_and_defaults() {
        let environment = environment(&[("HOME", "/"), ("CPUPROFILE", "")]);
        assert_eq!(environment.path, None);
        assert_eq!((environment.frequency, environment.max_depth), (100, 254));
        assert_eq!(
            (environment.toggle_signal, environment.clock, environment.quiet),
            (None, Clock::Cpu, false)
        );
        assert!(environment.warnings.is_empty());
    }

    #[test]
    fn numbers_are_taken_or_replaced_with_a_word() {
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
    fn memory_is_given_in_bytes_or_larger_units() {
        let default = DEFAULT_MAX_MEMORY;
        for (value, bytes, warned) in [
            ("", default, false),
            ("33554432", 32 << 20, false),
            ("32768K", 32 << 20, false),
            ("32m", 32 << 20, false),
            (" 1G ", 1 << 30, false),
            ("4M", LEAST_MAX_MEMORY, true),
            ("0", LEAST_MAX_MEMORY, true),
            ("2G", MOST_MAX_MEMORY, true),
            ("99999999999999999999999G", MOST_MAX_MEMORY, true),
            ("18446744073709551615G", MOST_MAX_MEMORY, true),
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
    fn files_are_named_as_in_gperftools() {
        assert_eq!(name(&[("CPUPROFILE", "p")]), ("p".into(), false));
        assert_eq!(name(&[("CPUPROFILE", "p"), ("CPUPROFILE_USE_PID", "1")]), ("p".into(), true));
        assert_eq!(name(&[("CPUPROFILE", "p"), ("CPUPROFILE_USE_PID", "0")]), ("p".into(), false));
        assert_eq!(name(&[("CPUPROFILE", "p"), ("PMIX_RANK", "5")]), ("p.rank-5".into(), false));
        assert_eq!(name(&[("CPUPROFILE", "p"), ("SLURM_JOB_ID", "1")]), ("p".into(), true));
        let slurm = [("CPUPROFILE", "p"), ("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "5")];
        assert_eq!(name(&slurm), ("p.slurmid-5".into(), false));
        assert_eq!(name(&[("CPUPROFILE", "p"), ("OMPI_HOME", "/x")]), ("p".into(), true));
        assert_eq!(name(&[("CPUPROFILE", "p"), ("PMI_RANK", "3")]), ("p.rank-3".into(), false));
    }

    #[test]
    fn children_are_followed_unless_told_otherwise() {
        assert!(environment(&[]).follow_fork);
        for (value, follows) in [("1", true), ("yes", true), ("", true), ("0", false), ("no", false)] {
            assert_eq!(environment(&[("CPUPROFILE_FOLLOW_FORK", value)]).follow_fork, follows, "{value}");
        }
    }

    #[test]
    fn a_recorder_may_want_its_own_children_alone() {
        for (value, id) in [("17", Some(17)), ("", None), ("x", None), ("-1", None)] {
            assert_eq!(environment(&[("CPUPROFILE_CHILD_OF", value)]).child_of, id, "{value}");
        }
        assert_eq!(environment(&[]).child_of, None);
    }

    #[test]
    fn samples_are_by_thread_where_the_user_says_so() {
        assert!(!environment(&[]).by_thread);
        for (value, is_by_thread) in [("1", true), ("yes", true), ("", true), ("0", false), ("no", false)] {
            assert_eq!(environment(&[("CPUPROFILE_THREADS", value)]).by_thread, is_by_thread, "{value}");
            assert_eq!(environment(&[("CPUPROFILE_KEEP_SPOOL", value)]).keeps_spool, is_by_thread, "{value}");
        }
    }

    #[test]
    fn a_parents_mark_is_taken_off_and_makes_a_child() {
        let marked: &[(&[u8], &[u8])] = &[(b"CPUPROFILE", b"\xf0x")];
        let child = Environment::from_pairs(marked.iter().copied(), |_| None);
        assert_eq!(child.path.as_deref(), Some(&b"px"[..]));
        assert!(child.is_child && child.adds_pid());
    }

    /// A name in another alphabet is no path that an older parent has marked.
    #[test]
    fn a_path_that_is_text_has_no_mark() {
        for path in ["é.prof", "профиль"] {
            assert_eq!(name(&[("CPUPROFILE", path)]), (path.into(), false));
        }
        let pairs: &[(&[u8], &[u8])] = &[(b"CPUPROFILE", b"\x80")];
        let odd = Environment::from_pairs(pairs.iter().copied(), |_| None);
        assert_eq!(
            (odd.path.as_deref(), odd.is_child),
            (Some(&b"\x80"[..]), false),
            "no path begins with NUL"
        );
    }

    #[test]
    fn a_value_can_be_shown_in_a_line() {
        let value = format!("1\n2\u{1b}{}", "x".repeat(5000));
        let warnings = environment(&[("CPUPROFILE_FREQUENCY", &value)]).warnings;
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(
            warning.starts_with("CPUPROFILE_FREQUENCY=1\\n2\\u{1b}xxx") && warning.len() < 200,
            "{warning}"
        );
        assert!(warning.ends_with("... is no number from 1 to 10000; using 100 Hz"));
    }

    #[test]
    fn a_signal_that_is_none_is_told() {
        assert_eq!(
            environment(&[("CPUPROFILESIGNAL", "SIGUSR2")]).toggle_signal,
            Some((12, b"SIGUSR2".into()))
        );
        let unknown = environment(&[("CPUPROFILESIGNAL", "SIGNONE")]);
        assert_eq!((unknown.toggle_signal, unknown.warnings.len()), (None, 1));
    }

    #[test]
    fn a_period_is_never_zero() {
        assert_eq!([100, 10_000, 0, 20_000, 3].map(period_micros), [10_000, 100, 1_000_000, 100, 333_333]);
    }
}
