//! The crate's own interface: build, start, stop.

use crate::{
    config::{
        Clock, DEFAULT_DEPTH, DEFAULT_FREQUENCY, DEFAULT_MAX_MEMORY, Filter, LEAST_MAX_MEMORY, MAX_DEPTH,
        MAX_FREQUENCY, MOST_MAX_MEMORY, SpoolChoice, can_tick,
    },
    control::{self, Ended, Naming, Sink, SpoolPlace, StartOptions, Started, Summary, Which},
    error::{Error, Failure},
    profile::Profile,
    sample::unwind::objects,
};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// What a profiler is started with; made by [`Profiler::builder`].
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
    /// Which time is sampled; CPU time of each thread unless said otherwise.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The signal of ticks: one from `SIGRTMIN` to `SIGRTMAX`, which the program has no handler for. Unless said otherwise, and
    /// where it is none of these, they are SIGPROF, or SIGALRM by [`Clock::Wall`].
    ///
    /// For programs that have a use of their own for these. Once a process has had ticks of another signal, it can have no
    /// third one.
    pub fn timer_signal(mut self, number: i32) -> Self {
        self.signal = Some(number);
        self
    }

    /// Ticks per second of CPU time, 1 to [`MAX_FREQUENCY`] (values outside are brought inside); 100 by default.
    ///
    /// The kernel may send fewer (at most `CONFIG_HZ` per second); those it sends then weigh more, so that the sum
    /// stays true.
    pub fn frequency(mut self, ticks_per_second: u32) -> Self {
        self.frequency = ticks_per_second.clamp(1, MAX_FREQUENCY);
        self
    }

    /// The most frames of a call chain that are recorded, 1 to [`MAX_DEPTH`] (values outside are brought inside);
    /// 254 by default. The outermost frames are cut off.
    pub fn max_depth(mut self, frames: usize) -> Self {
        self.max_depth = frames.clamp(1, MAX_DEPTH);
        self
    }

    /// Tells samples of different threads apart: a profile in memory then has, of each chain, one sample for each thread that
    /// was met in it ([`Sample::thread`]), and so has what a kill leaves behind ([`recover`](crate::recover)). The CPU profile
    /// format cannot store threads, so the file is unchanged.
    ///
    /// It takes memory for each thread's chains. The deepest chain has [`MAX_DEPTH`] - 1 frames.
    ///
    /// [`Sample::thread`]: crate::Sample::thread
    ///
    /// # Examples
    /// ```
    /// let profiler = sigprof::Profiler::builder().by_thread().start_in_memory()?;
    /// // ... the work to profile ...
    /// for sample in profiler.stop()?.samples() {
    ///     let name = sample.thread.map_or("?".to_owned(), |thread| thread.name.to_string());
    ///     println!("{name}: {} periods in a chain of {} frames", sample.count, sample.chain.len());
    /// }
    /// # Ok::<(), sigprof::Error>(())
    /// ```
    pub fn by_thread(mut self) -> Self {
        self.by_thread = true;
        self
    }

    /// Records a tick only if `accepts` returns true. It runs in the signal handler, on the thread that the tick
    /// interrupts.
    ///
    /// # Safety
    /// * `accepts` must be async-signal-safe (`signal-safety(7)`): it must not allocate, lock, panic, or touch
    ///   anything that the interrupted code may be changing.
    #[allow(unsafe_code)]
    pub unsafe fn filter(mut self, accepts: fn() -> bool) -> Self {
        self.filter = Some(Filter::Rust(accepts));
        self
    }

    /// Leaves out ticks that interrupt code of the objects with this name, as far as they are loaded at the start.
    ///
    /// A name is a file name up to a `.` or `-`: `libc` stands for `libc.so.6` and `libc-2.31.so`, and not for
    /// `libcrypto.so.3`; `vdso` stands for the kernel's `linux-vdso.so.1`, which is
    /// `linux-gate.so.1` in programs for i386.
    pub fn exclude_object(mut self, name: impl Into<String>) -> Self {
        self.excluded_objects.push(name.into());
        self
    }

    /// Keeps the spool, which outlives the process where it is killed or crashes (see [`recover`](crate::recover)), in
    /// `directory` instead of one of the user's own below /dev/shm. It is made if it is missing; one that belongs to
    /// another user, or that others may write to, is not used ([`Summary::spool`] tells).
    pub fn spool_directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.spool = SpoolChoice::Directory(directory.as_ref().as_os_str().as_bytes().to_vec());
        self
    }

    /// Holds the profiler to so many bytes of memory, [`LEAST_MAX_MEMORY`] to [`MOST_MAX_MEMORY`];
    /// [`DEFAULT_MAX_MEMORY`] unless said otherwise. What goes beyond them is moved to a file beside the profile; a
    /// profile in memory counts it as lost.
    ///
    /// [`LEAST_MAX_MEMORY`]: crate::LEAST_MAX_MEMORY
    /// [`MOST_MAX_MEMORY`]: crate::MOST_MAX_MEMORY
    /// [`DEFAULT_MAX_MEMORY`]: crate::DEFAULT_MAX_MEMORY
    pub fn max_memory(mut self, bytes: usize) -> Self {
        self.max_memory = bytes.clamp(LEAST_MAX_MEMORY, MOST_MAX_MEMORY);
        self
    }

    /// Goes without a spool: a profile does not outlive a kill.
    pub fn without_spool(mut self) -> Self {
        self.spool = SpoolChoice::Off;
        self
    }

    /// Starts profiling this process into a file at `path`, which appears, complete, when the profiler is stopped
    /// or flushed. A relative path is taken from the working directory of now.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`]; [`Error::HandlerTaken`] where the program handles SIGPROF itself;
    /// [`Error::Output`] where no file can be written at `path`; [`Error::System`] for what the system refuses.
    /// Nothing has changed then.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("cpu.prof");
    /// let profiler = sigprof::Profiler::builder().frequency(250).start(&path)?;
    /// // ... the work to profile ...
    /// let summary = profiler.stop()?;
    /// println!("{} samples, {:.1} % whole", summary.samples, 100.0 * summary.walks.whole_share());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(self, path: impl AsRef<Path>) -> Result<Profiler, Error> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_bytes();
        let started = self.start_into(Sink::File(bytes)).map_err(|failure| failure.with_path(path))?;
        Ok(Profiler { session: Some(started), path: path.into() })
    }

    /// Starts profiling this process into memory.
    ///
    /// # Errors
    /// As [`start`](Self::start), without those of a file.
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
        let started = self.start_into(Sink::Memory).map_err(|failure| failure.with_path(Path::new("")))?;
        Ok(MemoryProfiler { session: Some(started) })
    }

    fn start_into(&self, sink: Sink<'_>) -> Result<Started, Failure> {
        control::start(&StartOptions {
            sink,
            clock: self.clock,
            signal: self.signal.filter(|signal| can_tick(*signal)),
            frequency: self.frequency,
            max_depth: self.max_depth,
            by_thread: self.by_thread,
            filter: self.filter,
            excluded: &excluded_ranges(&self.excluded_objects),
            naming: Naming::Exact,
            near: None,
            child_path: None,
            is_child: false,
            spool: SpoolPlace::of(&self.spool),
            keeps_spool: false,
            starts_at_random: false,
            max_memory: self.max_memory,
            lines: None,
        })
    }
}

/// A running profiler that writes a file. Dropping it stops it, and ignores errors.
#[derive(Debug)]
#[must_use = "dropping the profiler stops it"]
pub struct Profiler {
    session: Option<Started>,
    path: PathBuf,
}

impl Profiler {
    /// Settings to start from: 100 Hz, 254 frames, everything recorded.
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

    /// Writes a complete profile of all so far to the path, and goes on.
    ///
    /// # Errors
    /// [`Error::Output`] where it could not be written; [`Error::NotRunning`] in a forked child, and after the
    /// C interface has stopped the session.
    pub fn flush(&self) -> Result<(), Error> {
        control::flush(self.which()?).map_err(|failure| failure.with_path(&self.path))
    }

    /// The figures so far.
    ///
    /// # Errors
    /// [`Error::NotRunning`], as for [`flush`](Self::flush).
    pub fn summary(&self) -> Result<Summary, Error> {
        control::with_session(self.which()?, |session, _| Some(session?.summary())).ok_or(Error::NotRunning)
    }

    /// Stops and writes the file.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn stop(mut self) -> Result<Summary, Error> {
        let ended = self.end().map_err(|failure| failure.with_path(&self.path))?;
        match ended.file {
            Some(Err(failure)) => Err(failure.with_path(&self.path)),
            _ => Ok(ended.summary),
        }
    }

    fn which(&self) -> Result<Which, Error> {
        self.session.map(Which::This).ok_or(Error::NotRunning)
    }

    fn end(&mut self) -> Result<Ended, Failure> {
        let started = self.session.take().ok_or(Failure::NotRunning)?;
        Ok(control::stop(Which::This(started), |_, _| ())?.0)
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
    /// The profile so far; profiling goes on.
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
        let which = Which::This(self.session.ok_or(Error::NotRunning)?);
        control::with_session(which, |session, met| Some(Profile::of(session?, met))).ok_or(Error::NotRunning)
    }

    /// Stops, and gives the profile.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub fn stop(mut self) -> Result<Profile, Error> {
        let started = self.session.take().ok_or(Error::NotRunning)?;
        let (ended, profile) = control::stop(Which::This(started), Profile::of)
            .map_err(|failure| failure.with_path(Path::new("")))?;
        Ok(profile.with_summary(ended.summary))
    }
}

impl Drop for MemoryProfiler {
    fn drop(&mut self) {
        if let Some(started) = self.session.take() {
            let _ = control::stop(Which::This(started), |_, _| ());
        }
    }
}

/// Gives the calling thread its own timer at once, if a session runs whose clock has them: any but [`Clock::Itimer`].
///
/// No thread has to be registered: the first tick of the process's timer that meets a thread does the same. Until then the
/// thread's time is part of what that timer counts. By [`Clock::Wall`] threads that do not register are found within some
/// twentieths of a second. Signal-safe, and without effect where a thread has its timer.
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

/// Ends threads' own timers, for good: [`Clock::Cpu`] and [`Clock::Perf`] are [`Clock::Itimer`] from here on, and samples are
/// no thread's any more ([`SampledThreads::others`](crate::SampledThreads::others)).
///
/// For a program that is about to forbid itself system calls (`seccomp(2)`) and would be ended for one: handling threads' timers
/// takes `gettid`, `tgkill`, `timer_create` and their like, and threads' names take `prctl`. The shared library does this by itself where it sees the program call
/// `prctl(2)` for it. Signal-safe.
pub fn before_sandbox() {
    crate::interface::host_enters_sandbox();
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
