//! SIGNAL CONTEXT: code that runs in the handler of the profiling signal.
//!
//! # Contract
//! The handler may interrupt any thread at any instruction: in malloc, in the loader, with a lock
//! held, or with a few hundred bytes of stack left. So code here does not
//!
//! * allocate, free, wait for a lock or for another thread (`docs/signal-safety.md` has two
//!   exceptions);
//! * panic, format, or initialise a static or a thread-local variable on first use;
//! * call libc or the loader, except as `docs/signal-safety.md` permits, with reasons;
//! * read the application's memory before the same walk has proved that it is readable.
//!
//! Lost and rejected ticks are counted in [`counters`], those without a scratch slot in
//! [`handler`]; each report shows the counts. The process's ticks on threads with a timer are not.
//!
//! ```text
//! signal -> handler -> scratch slot -> unwind -> table -> slot released
//! ```
//!
//! `control/` prepares memory, symbols and sessions in *ordinary context*: a call of the
//! application, outside of signal handlers. A *toggle* starts and stops sessions in the handler of
//! its own signal: it is signal-safe, but no tick. Functions for ordinary context say so.

pub(crate) mod app_disposition;
pub(crate) mod app_timer;
pub(crate) mod caller;
pub(crate) mod counters;
pub(crate) mod engine;
pub(crate) mod fork_guard;
pub(crate) mod handler;
mod lazy_commit;
pub(crate) mod recording;
mod remainder;
pub(crate) mod sampled_dsos;
pub(crate) mod scratch;
pub(crate) mod spill;
pub(crate) mod spill_file;
pub(crate) mod spool_memory;
#[cfg_attr(not(sigprof_stamps), path = "no_stamps.rs")]
pub(crate) mod stamps;
pub(crate) mod table;
pub(crate) mod thread_table;
pub(crate) mod thread_timers;
pub(crate) mod tick_source;
pub(crate) mod timer_table;
pub(crate) mod unwind;
pub(crate) mod weight;
