//! x
pub mod format;
mod chain;
#[cfg(feature = "runtime")]
mod config;
#[cfg(feature = "runtime")]
mod control;
#[cfg(feature = "runtime")]
mod error;
#[cfg(feature = "interface")]
#[doc(hidden)]
pub mod interface;
#[cfg(feature = "runtime")]
mod profile;
#[cfg(feature = "runtime")]
mod profiler;
#[cfg(feature = "runtime")]
mod report;
#[cfg(feature = "runtime")]
mod sample;
#[cfg(feature = "runtime")]
mod sync;
#[cfg(feature = "runtime")]
mod sys;

pub use chain::Pc;
#[cfg(feature = "runtime")]
pub use {
    config::{DEFAULT_DEPTH, DEFAULT_FREQUENCY, MAX_DEPTH, MAX_FREQUENCY},
    control::{Losses, NoSamples, Summary, Walks},
    error::Error,
    profile::{Profile, Sample},
    profiler::{Builder, MemoryProfiler, Profiler},
    report::{FunctionTime, Report},
};
