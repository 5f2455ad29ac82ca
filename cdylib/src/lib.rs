//! `libprofiler.so` and `libprofiler.a`: gperftools' CPU profiler interface on top of the crate `sigprof`.
//!
//! * [`abi`] the ten functions of `<gperftools/profiler.h>`,
//! * [`preload`] what happens when the library is loaded and when the program ends,
//! * [`interpose`], [`app_signals`], [`app_timers`], [`signal_waits`], [`sandboxes`] and [`new_threads`] the functions of libc that the host shares with
//!   us; [`exec`], [`exec_lists`] and [`exit`] those that end the program, and [`exec_bare`] what they call in a static one,
//! * [`copies`] other profilers in the same program,
//! * [`message`] the lines on stderr; the crate itself prints nothing,
//! * [`reserve`] some memory for when the program has none left.
//!
//! No entry from C lets a panic out: each goes through [`guarded`].

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

/// Runs `f` with every signal blocked, and a request to cancel the thread put off: it would unwind through us. A panic
/// in `f`, which would be a defect of ours, comes to `otherwise` instead of ending the host.
fn guarded<R>(otherwise: R, f: impl FnOnce() -> R) -> R {
    sigprof::interface::with_signals_blocked(|| catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise))
}
