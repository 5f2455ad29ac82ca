//! The crate's interface: build, start, stop.

use crate::{
    config::{
        Clock, DEFAULT_DEPTH, DEFAULT_FREQUENCY, DEFAULT_MAX_MEMORY, Filter, LARGEST_MAX_MEMORY, MAX_DEPTH,
        MAX_FREQUENCY, SMALLEST_MAX_MEMORY, SpoolChoice, can_tick,
    },
    control::{
        self, Destination, Ended, Naming, SessionSelector, SpoolLocation, StartOptions, Started, Summary,
    },
    error::{Error, Failure},
    profile::Profile,
    sample::unwind::objects,
};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Settings of a profiler, made by [`Profiler::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    clock: Clock,
    signal: Option<i32>,
    frequency: u32,
    max_depth: usize,
    by_thread: bool,
    filter: Option<Filter>,
    excluded_objects: Vec<String>,
    spool: SpoolChoice,
    max_memory: usize,
}

impl Builder {
    /// Sets the clock: which time is sampled, and by which timers. The default is [`Clock::Auto`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the profiling signal, for programs that use the default one: `SIGRTMIN` to `SIGRTMAX`,
    /// without a handler. Outside that range the default is used: SIGPROF, or SIGALRM with
    /// [`Clock::Wall`]. A process can choose one such signal in its life.
    pub fn timer_signal(mut self, number: i32) -> Self {
        self.signal = Some(number);
        self
    }

    /// Sets the samples per second of the clock's time, 1 to [`MAX_FREQUENCY`]; 100 by default. A
    /// value outside is replaced by the nearest limit. The kernel may deliver fewer ticks, at most
    /// `CONFIG_HZ` per second and thread, each with a larger weight, so that the total is right.
    pub fn frequency(mut self, ticks_per_second: u32) -> Self {
        self.frequency = ticks_per_second.clamp(1, MAX_FREQUENCY);
        self
    }

    /// Sets the frames of a call stack, 1 to [`MAX_DEPTH`]; 254 by default. A value outside is
    /// replaced by the nearest limit. Of a deeper stack, the innermost frames are kept.
    pub fn max_depth(mut self, frames: usize) -> Self {
        self.max_depth = frames.clamp(1, MAX_DEPTH);
        self
    }

    /// Keeps samples of different threads apart, in a profile in memory ([`Sample::thread`]) and in
    /// the spool of a killed program ([`recover`](crate::recover)). The CPU profile format cannot
    /// store threads, so the file is the same. Each thread's call stacks need memory. The deepest
    /// stack has [`MAX_DEPTH`] - 1 frames.
    ///
    /// [`Sample::thread`]: crate::Sample::thread
    ///
    /// # Examples
    /// ```
    /// let profiler = sigprof::Profiler::builder().by_thread().start_in_memory()?;
    /// // ... the work to profile ...
    /// for sample in profiler.stop()?.samples() {
    ///     let name = sample.thread.map_or("?".to_owned(), |t| t.name.to_string());
    ///     println!("{name}: {} periods, {} frames", sample.count, sample.chain.len());
    /// }
    /// # Ok::<(), sigprof::Error>(())
    /// ```
    pub fn by_thread(mut self) -> Self {
        self.by_thread = true;
        self
    }

    /// Records a tick only if `accepts`, called by the handler on the sampled thread, returns true.
    ///
    /// # Safety
    /// * `accepts` must be async-signal-safe (signal-safety(7)): it must not allocate, lock, panic,
    ///   or access what the interrupted code may be changing.
    #[allow(unsafe_code)]
    pub unsafe fn filter(mut self, accepts: fn() -> bool) -> Self {
        self.filter = Some(Filter::Rust(accepts));
        self
    }

    /// Excludes ticks that interrupted code of the shared objects with this name. Only objects that
    /// are loaded at the start are excluded. A name is a file name up to a `.` or `-`: `libc` means
    /// `libc.so.6` and `libc-2.31.so`, but not `libcrypto.so.3`. `vdso` means the kernel's
    /// `linux-vdso.so.1` (i386: `linux-gate.so.1`).
    pub fn exclude_object(mut self, name: impl Into<String>) -> Self {
        self.excluded_objects.push(name.into());
        self
    }

    /// Keeps the spool, from which [`recover`](crate::recover) restores the samples of a killed
    /// process, in `directory` instead of `/dev/shm/sigprof-UID`. A missing directory is created.
    /// Another user's, or one that others may write to, is not used ([`Summary::spool`]).
    pub fn spool_directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.spool = SpoolChoice::Directory(directory.as_ref().as_os_str().as_bytes().to_vec());
        self
    }

    /// Sets the profiler's memory in bytes, [`SMALLEST_MAX_MEMORY`] to [`LARGEST_MAX_MEMORY`];
    /// [`DEFAULT_MAX_MEMORY`] by default. Further call stacks go to a spill file beside the
    /// profile; a profile in memory counts them as lost.
    ///
    /// [`SMALLEST_MAX_MEMORY`]: crate::SMALLEST_MAX_MEMORY
    /// [`LARGEST_MAX_MEMORY`]: crate::LARGEST_MAX_MEMORY
    /// [`DEFAULT_MAX_MEMORY`]: crate::DEFAULT_MAX_MEMORY
    pub fn max_memory(mut self, bytes: usize) -> Self {
        self.max_memory = bytes.clamp(SMALLEST_MAX_MEMORY, LARGEST_MAX_MEMORY);
        self
    }

    /// Disables the spool: a process that is killed loses its samples.
    pub fn without_spool(mut self) -> Self {
        self.spool = SpoolChoice::Off;
        self
    }

    /// Starts profiling this process. The file appears, complete, at a stop or a flush. `path` may
    /// be relative to the current directory.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`]; [`Error::HandlerTaken`] if the program handles the profiling
    /// signal itself; [`Error::Output`] if no file can be written at `path`; [`Error::System`] if a
    /// system call fails. No signal is then sent, and no file left; the handler may stay installed.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("cpu.prof");
    /// let profiler = sigprof::Profiler::builder().frequency(250).start(&path)?;
    /// // ... the work to profile ...
    /// let summary = profiler.stop()?;
    /// let share = 100.0 * summary.walks.complete_share();
    /// println!("{} samples, {share:.1} % of stacks complete", summary.samples);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(self, path: impl AsRef<Path>) -> Result<Profiler, Error> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_bytes();
        let started = self.start_into(Destination::File(bytes)).map_err(|failure| failure.with_path(path))?;
        Ok(Profiler { session: Some(started), path: path.into() })
    }

    /// Starts profiling this process into memory.
    ///
    /// # Errors
    /// As for [`start`](Self::start), except [`Error::Output`].
    ///
    /// # Examples
    /// ```
    /// let profiler = sigprof::Profiler::builder().start_in_memory()?;
    /// // ... the work to profile ...
    /// let profile = profiler.stop()?;
    /// println!("{}", profile.report());
    /// # Ok::<(), sigprof::Error>(())
    /// ```
    pub fn start_in_memory(self) -> Result<MemoryProfiler, Error> {
        let started =
            self.start_into(Destination::Memory).map_err(|failure| failure.with_path(Path::new("")))?;
        Ok(MemoryProfiler { session: Some(started) })
    }

    fn start_into(&self, destination: Destination<'_>) -> Result<Started, Failure> {
        control::start(&StartOptions {
            destination,
            clock: self.clock,
            signal: self.signal.filter(|signal| can_tick(*signal)),
            frequency: self.frequency,
            max_depth: self.max_depth,
            by_thread: self.by_thread,
            filter: self.filter,
            excluded: &excluded_ranges(&self.excluded_objects),
            naming: Naming::Exact,
            open_directory: None,
            child_path: None,
            ancestors: Default::default(),
            spool: SpoolLocation::of(&self.spool),
            keeps_spool: false,
            starts_at_random: false,
            max_memory: self.max_memory,
            lines: None,
        })
    }
}

/// A running profiler that writes a file. Dropping it stops it and writes the file, without errors.
#[derive(Debug)]
#[must_use = "dropping the profiler stops it"]
pub struct Profiler {
    session: Option<Started>,
    path: PathBuf,
}

impl Profiler {
    /// Returns the default settings: [`Clock::Auto`], 100 Hz, 254 frames, no filter.
    pub fn builder() -> Builder {
        Builder {
            clock: Clock::default(),
            signal: None,
            frequency: DEFAULT_FREQUENCY,
            max_depth: DEFAULT_DEPTH,
            by_thread: false,
            filter: None,
            excluded_objects: Vec::new(),
            spool: SpoolChoice::Default,
            max_memory: DEFAULT_MAX_MEMORY,
        }
    }

    /// Writes a complete profile so far; profiling continues.
    ///
    /// # Errors
    /// [`Error::Output`] if it cannot be written; [`Error::NotRunning`] in a forked child, and
    /// after the C interface has stopped the session.
    pub fn flush(&self) -> Result<(), Error> {
        control::flush(self.which()?).map_err(|failure| failure.with_path(&self.path))
    }

    /// Returns the figures so far.
    ///
    /// # Errors
    /// [`Error::NotRunning`], as for [`flush`](Self::flush).
    pub fn summary(&self) -> Result<Summary, Error> {
        control::with_session(self.which()?, |session, _| Some(session?.summary())).ok_or(Error::NotRunning)
    }

    /// Stops and writes the file.
    ///
    /// # Errors
    /// As for [`flush`](Self::flush).
    pub fn stop(mut self) -> Result<Summary, Error> {
        let ended = self.end().map_err(|failure| failure.with_path(&self.path))?;
        match ended.file {
            Some(Err(failure)) => Err(failure.with_path(&self.path)),
            _ => Ok(ended.summary),
        }
    }

    fn which(&self) -> Result<SessionSelector, Error> {
        self.session.map(SessionSelector::This).ok_or(Error::NotRunning)
    }

    fn end(&mut self) -> Result<Ended, Failure> {
        let started = self.session.take().ok_or(Failure::NotRunning)?;
        Ok(control::stop(SessionSelector::This(started), |_, _| ())?.0)
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A running profiler that keeps its profile in memory. Dropping it stops it.
#[derive(Debug)]
#[must_use = "dropping the profiler stops it"]
pub struct MemoryProfiler {
    session: Option<Started>,
}

impl MemoryProfiler {
    /// Returns the profile so far; profiling continues.
    ///
    /// # Errors
    /// [`Error::NotRunning`] in a forked child, and after the C interface has stopped the session.
    ///
    /// # Examples
    /// ```
    /// let profiler = sigprof::Profiler::builder().start_in_memory()?;
    /// let so_far = profiler.snapshot()?;
    /// let all = profiler.stop()?;
    /// assert!(so_far.summary().samples <= all.summary().samples);
    /// # Ok::<(), sigprof::Error>(())
    /// ```
    pub fn snapshot(&self) -> Result<Profile, Error> {
        let which = SessionSelector::This(self.session.ok_or(Error::NotRunning)?);
        control::with_session(which, |session, dsos| Some(Profile::of(session?, dsos)))
            .ok_or(Error::NotRunning)
    }

    /// Stops and returns the profile.
    ///
    /// # Errors
    /// As for [`snapshot`](Self::snapshot).
    pub fn stop(mut self) -> Result<Profile, Error> {
        let started = self.session.take().ok_or(Error::NotRunning)?;
        let (ended, profile) = control::stop(SessionSelector::This(started), Profile::of)
            .map_err(|failure| failure.with_path(Path::new("")))?;
        Ok(profile.with_summary(ended.summary))
    }
}

impl Drop for MemoryProfiler {
    fn drop(&mut self) {
        if let Some(started) = self.session.take() {
            let _ = control::stop(SessionSelector::This(started), |_, _| ());
        }
    }
}

/// Gives the calling thread its own timer immediately, if the profiler is running with another
/// clock than [`Clock::Itimer`]. Async-signal-safe. No effect if the thread has its timer.
///
/// Few threads need this: the process's timer counts a new thread's time, and its first tick there
/// gives the thread its own. Threads that only run between ticks of the kernel are not found, such
/// as an audio callback's. With [`Clock::Wall`], threads are found after 50 ms to 1 s.
///
/// # Examples
/// ```
/// let profiler = sigprof::Profiler::builder().start_in_memory()?;
/// let worker = std::thread::spawn(|| {
///     sigprof::register_thread();
///     // ... the work to profile ...
/// });
/// worker.join().ok();
/// let profile = profiler.stop()?;
/// # Ok::<(), sigprof::Error>(())
/// ```
pub fn register_thread() {
    crate::interface::register_thread();
}

/// Deletes all per-thread timers for the rest of the process's life: the clocks of CPU time become
/// [`Clock::Itimer`], and samples have no thread
/// ([`SampledThreads::others`](crate::SampledThreads::others)). Async-signal-safe.
///
/// For a program that is about to enter a seccomp(2) sandbox that kills it for system calls such as
/// `gettid`, `tgkill`, `timer_create` and `prctl`. The shared library calls it if `prctl` starts
/// one.
pub fn before_sandbox() {
    crate::interface::app_enters_sandbox();
}

fn excluded_ranges(names: &[String]) -> Vec<(usize, usize)> {
    if names.is_empty() {
        return Vec::new();
    }
    let is_meant = |path: &Path| {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        names.iter().any(|name| is_named(file, name))
    };
    let objects = objects::named_ranges().into_iter().filter(|(path, _, _)| is_meant(path));
    objects.map(|(_, start, end)| (start, end)).collect()
}

fn is_named(file: &str, name: &str) -> bool {
    let begins = |file: &str| {
        file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    };
    let is_kernels = file.starts_with("linux-gate.") && name == "vdso";
    begins(file) || file.strip_prefix("linux-").is_some_and(begins) || is_kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_up_to_a_dot_or_dash() {
        for file in ["libc.so.6", "libc-2.31.so", "libc"] {
            assert!(is_named(file, "libc"), "{file}");
        }
        for file in ["libcrypto.so.3", "mylibc.so", "", "libcap.so"] {
            assert!(!is_named(file, "libc"), "{file}");
        }
        assert!(is_named("linux-vdso.so.1", "vdso"));
        assert!(is_named("linux-vdso.so.1", "linux-vdso"));
        assert!(is_named("linux-gate.so.1", "vdso") && is_named("linux-gate.so.1", "linux-gate"));
        assert!(!is_named("libgate.so.1", "vdso"));
    }
}
