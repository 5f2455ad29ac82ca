//! `libprofiler.so` and `libprofiler.a`: gperftools' CPU profiler interface for `sigprof`.
//!
//! * [`abi`]: the functions of `<gperftools/profiler.h>`,
//! * [`preload`]: hooks of the library's loading and the program's exit,
//! * [`interpose`], [`app_signals`], [`app_timers`], [`signal_waits`], [`sandboxes`],
//!   [`new_threads`], [`exec`], [`exec_lists`], [`exit`]: interposed functions of libc;
//!   [`exec_bare`]: replacements in a static program.
//!
//! [`guarded`] catches panics of the C interface and of the hooks at load and exit.

mod abi;
mod app_signals;
mod app_timers;
mod exec;
mod exec_bare;
mod exec_lists;
mod exit;
mod interpose;
mod message;
mod new_threads;
mod other_profilers;
mod preload;
mod reserve;
mod sandboxes;
mod signal_waits;
mod types;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` with all signals blocked and cancellation disabled, which would unwind through it.
/// After a panic in `f`, a defect, returns `otherwise`.
fn guarded<R>(otherwise: R, f: impl FnOnce() -> R) -> R {
    sigprof::interface::with_signals_blocked(|| catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise))
}
