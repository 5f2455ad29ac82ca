//! An in-process sampling CPU profiler for Linux.
//!
//! A timer sends SIGPROF while the process uses CPU time. The signal handler unwinds the running
//! thread's stack by DWARF call frame information, and counts it in a lock-free table. The profile
//! is written in gperftools' CPU profile format, for `sigprof` and `pprof`, or stays in memory.
//!
//! ```
//! let profiler = sigprof::Profiler::builder().frequency(250).start_in_memory()?;
//! let mut sum = 0u64;
//! for i in 0..30_000_000u64 {
//!     sum = std::hint::black_box(sum.wrapping_add(i * i));
//! }
//! let profile = profiler.stop()?;
//! for sample in profile.samples() {
//!     assert!(sample.count >= 1 && !sample.chain.is_empty());
//! }
//! println!("{}", profile.report());
//! # Ok::<(), sigprof::Error>(())
//! ```
//!
//! # What to know
//!
//! * A process has one profiler at a time, which samples all threads.
//! * The profiler uses SIGPROF (with [`Clock::Wall`] SIGALRM), a perf event or POSIX timer of each
//!   thread, and `ITIMER_PROF` unless the program has armed it. A program that
//!   handles SIGPROF itself is not profiled ([`Error::HandlerTaken`]). If it installs a handler
//!   later, sampling stops ([`NoSamples`]).
//! * The handler stays installed and does nothing after the profiler has stopped. The default
//!   action of a late tick would kill the program.
//! * Interrupted system calls are restarted (`SA_RESTART`), except those that signal(7) lists.
//! * If the process is killed or crashes, [`recover`] writes the profile. A session with a file
//!   therefore keeps its samples in a spool in `/dev/shm`, or in the builder's directory.
//! * Forked children are profiled only with the library and `CPUPROFILE`; see
//!   `docs/reference/output.md`.
//! * A profiled program must not `dlclose` libraries, unless it uses the shared library.
//!
//! # Without the profiler
//!
//! With `default-features = false` the crate is only [`format`](mod@format): a reader and writer of
//! the CPU profile format, without `unsafe` code, on any system.
//!
//! # Unsafe code
//!
//! It is denied, except in files that say why under "Safety".

mod chain;
pub mod format;

#[cfg(feature = "runtime")]
mod config;
#[cfg(feature = "runtime")]
mod control;
#[cfg(feature = "runtime")]
mod error;
#[cfg(all(any(test, fuzzing), not(loom), feature = "runtime"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "runtime")]
#[doc(hidden)]
pub mod interface;
#[cfg(feature = "runtime")]
mod line;
#[cfg(feature = "runtime")]
mod profile;
#[cfg(feature = "runtime")]
mod profiler;
#[cfg(feature = "runtime")]
pub mod recover;
#[cfg(feature = "runtime")]
mod report;
#[cfg(feature = "runtime")]
mod sample;
#[cfg(feature = "runtime")]
mod sync;
#[cfg(feature = "runtime")]
mod sys;
#[cfg(feature = "runtime")]
mod thread;

pub use chain::Pc;
#[cfg(feature = "runtime")]
pub use {
    config::{
        Clock, DEFAULT_DEPTH, DEFAULT_FREQUENCY, DEFAULT_MAX_MEMORY, LARGEST_MAX_MEMORY, MAX_DEPTH,
        MAX_FREQUENCY, SMALLEST_MAX_MEMORY,
    },
    control::{Losses, NoSamples, SpoolUse, Summary, Walks},
    error::Error,
    profile::{Profile, Sample},
    profiler::{Builder, MemoryProfiler, Profiler, before_sandbox, register_thread},
    report::{FunctionTime, Report},
    thread::{SampledThreads, Thread, ThreadName, ThreadUse},
};
