//! `libprofiler.so` and `libprofiler.a`: gperftools' CPU profiler interface on top of the crate `sigprof`.
//!
//! * [`abi`] the ten functions of `<gperftools/profiler.h>`,
//! * [`preload`] what happens when the library is loaded and when the program ends,
//! * [`interpose`], [`host_signals`], [`host_timers`], [`host_waits`], [`sandboxes`] and [`new_threads`] the functions of libc that the host shares with
//!   us; [`exec`], [`exec_lists`] and [`ends`] those that end the program, and [`exec_bare`] what they call in a static one,
//! * [`copies`] other profilers in the same program,
//! * [`message`] the lines on stderr; the crate itself prints nothing,
//! * [`reserve`] some memory for when the program has none left.
//!
//! No entry from C lets a panic out: each goes through [`guarded`].

mod abi;
mod copies;
mod ends;
mod exec;
mod exec_bare;
mod exec_lists;
mod host_signals;
mod host_timers;
mod host_waits;
mod interpose;
mod message;
mod new_threads;
mod preload;
mod reserve;
mod sandboxes;
mod types;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` with every signal blocked, and a request to cancel the thread put off: it would unwind through us. A panic
/// in `f`, which would be a defect of ours, comes to `otherwise` instead of ending the host.
fn guarded<R>(otherwise: R, f: impl FnOnce() -> R) -> R {
    sigprof::interface::undisturbed(|| catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise))
}
