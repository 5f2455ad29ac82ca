//! Settings from environment variables.

use super::{
    Clock, DEFAULT_DEPTH, DEFAULT_FREQUENCY, MAX_DEPTH, MAX_FREQUENCY, SpoolChoice, StatisticsChoice, clock,
    values::{is_true, max_memory, number, shown},
};

/// Settings from `CPUPROFILE` and related variables. Does not access the process's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// `CPUPROFILE`, without the mark of a profiled parent; None if unset or empty.
    pub path: Option<Vec<u8>>,
    /// The path had the mark that a parent sets if it is profiled by gperftools before 2.18.
    pub is_child: bool,
    /// Suffix of the path for an MPI or Slurm rank.
    pub rank_suffix: Vec<u8>,
    /// The process ID is always added: `CPUPROFILE_USE_PID`, or a job without ranks.
    pub use_pid: bool,
    /// `CPUPROFILE_USE_PID` ends in [`REFUSED`]: the parent reported that it is not profiled.
    pub is_refusal_reported: bool,
    /// `CPUPROFILE_FREQUENCY` in ticks per second, 1 to [`MAX_FREQUENCY`].
    pub frequency: u32,
    /// `CPUPROFILE_MAX_DEPTH` in frames, 1 to [`MAX_DEPTH`].
    pub max_depth: usize,
    /// `CPUPROFILE_THREADS`: samples of different threads are kept apart.
    pub by_thread: bool,
    /// `CPUPROFILE_CLOCK`, or gperftools' `CPUPROFILE_REALTIME` and `CPUPROFILE_PER_THREAD_TIMERS`.
    pub clock: Clock,
    /// `CPUPROFILE_TIMER_SIGNAL`: the signal of ticks; None for the clock's default.
    pub timer_signal: Option<i32>,
    /// `CPUPROFILESIGNAL`: the signal that starts and stops profiling, and its text.
    pub toggle_signal: Option<(i32, Vec<u8>)>,
    /// `CPUPROFILE_FOLLOW_FORK`: forked children write their own profiles; the default.
    pub follow_fork: bool,
    /// `CPUPROFILE_QUIET`: no summary line.
    pub quiet: bool,
    /// `CPUPROFILE_SPOOL`: a directory, or `off`.
    pub spool: SpoolChoice,
    /// `CPUPROFILE_KEEP_SPOOL`: the profile is kept in the spool, for `sigprof record`.
    pub keeps_spool: bool,
    /// `CPUPROFILE_RANDOM_START`: the first thread has a timer from the start, which first expires
    /// at a random time in the first period.
    pub starts_at_random: bool,
    /// `CPUPROFILE_CHILD_OF`: only its children are profiled (`sigprof record --no-children`).
    pub child_of: Option<u32>,
    /// `CPUPROFILE_MAX_MEMORY` in bytes, [`SMALLEST_MAX_MEMORY`](super::SMALLEST_MAX_MEMORY) to
    /// [`LARGEST_MAX_MEMORY`](super::LARGEST_MAX_MEMORY).
    pub max_memory: usize,
    /// `CPUPROFILE_STATISTICS`: a line at exit with figures of ticks and walks.
    pub statistics: StatisticsChoice,
    /// One line for each invalid value, with the value used instead.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Reads the variables from `pairs`. Of pairs with the same name the first is used, as by
    /// `getenv(3)`. `signal_number` returns the number of a signal from its name or number.
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
                    "CPUPROFILESIGNAL={} is not a signal, such as 12, SIGUSR2 or USR2; profiling starts now",
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
            is_refusal_reported: variables.use_pid.is_some_and(|value| value.ends_with(REFUSED.as_bytes())),
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
            starts_at_random: variables.random_start.is_some_and(is_true),
            max_memory: max_memory(variables.max_memory, &mut warnings),
            statistics: StatisticsChoice::from_value(variables.statistics),
            warnings,
        }
    }

    /// Returns the path without a process ID. A forked child adds its own.
    pub fn base_path(&self) -> Option<Vec<u8>> {
        let mut path = self.path.clone()?;
        path.extend_from_slice(&self.rank_suffix);
        Some(path)
    }

    /// Returns the path of the profile of a process.
    pub fn path_of_process(&self, process: u32) -> Option<Vec<u8>> {
        let mut path = self.base_path()?;
        if self.adds_pid() {
            path.extend_from_slice(format!("_{process}").as_bytes());
        }
        Some(path)
    }

    /// True if the path has the process ID: `NAME_PID`, as in gperftools 2.18.
    pub fn adds_pid(&self) -> bool {
        self.use_pid || self.is_child
    }
}

/// Suffix of `CPUPROFILE_USE_PID` if the parent is not profiled and has reported that.
pub const REFUSED: &str = ",refused";

/// The bit that gperftools before 2.18 sets in the first byte of `CPUPROFILE` for child processes.
pub const MARK: u8 = 0x80;

/// True if the path has the mark. UTF-8 text has none: there, such a byte begins a character of
/// several bytes. No path begins with NUL.
pub fn is_marked(path: &[u8]) -> bool {
    path.first().is_some_and(|&first| first & MARK != 0 && first != MARK)
        && core::str::from_utf8(path).is_err()
}

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
    random_start: Option<&'p [u8]>,
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
            b"CPUPROFILE_RANDOM_START" => &mut self.random_start,
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

    /// Returns the rank's suffix of the path, and whether the process ID must be added. PMIx has
    /// priority over Slurm, then Open MPI, then MPICH's Hydra, as in gperftools.
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

#[cfg(test)]
mod tests;
