//! SIGNAL CONTEXT: what runs in the handler of the profiling signal.
//!
//! # Contract
//! Code here may run in any thread, at any instruction of the host: inside malloc, inside the loader, on a stack
//! with a few hundred bytes left, while a lock of any kind is held. Therefore nothing here
//!
//! * allocates or frees, takes a lock, or waits for another thread;
//! * panics, formats, or initialises a static or a thread-local on first use;
//! * calls into libc or the loader beyond the list in `docs/signal-safety.md`, where each call has its licence;
//! * reads memory of the host that was not proven readable in the same walk.
//!
//! What cannot be done is counted in [`counters`] and shown by every report; nothing is lost silently.
//!
//! ```text
//! signal -> handler -> scratch slot -> unwind -> table -> slot released
//! ```
//!
//! Preparation (mapping memory, resolving symbols, publishing a session) belongs to `control/`, in ordinary
//! context. Functions here that only ordinary context may call say so.

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
