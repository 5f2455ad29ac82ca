//! The interface for the shared library and the command. Not stable; for no other use.

mod app_signals;
mod app_timers;
mod events;
mod exec;
mod lines;
mod objects;
mod process;
mod sessions;
mod stacks;
mod threads;

pub use crate::config::{
    Clock, Environment, MARK, REFUSED, SpoolChoice, StatisticsChoice, VARIABLES, Variable, is_marked,
};
pub use crate::control::{Diagnostic, DiagnosticSink, SpoolUse};
pub use crate::error::Failure;
pub use crate::line::Line;
pub use crate::sys::{
    signal::{AlternateStack, CAction, SigactionFunction, SignalInfo, SignalSet},
    timer::CItimerval,
};
pub use app_signals::{
    app_alternate_stack, app_reads_signals, app_sigaction, is_tick, may_contain_tick_signal, owns_signal,
    set_real_sigaction,
};
pub use app_timers::{app_getitimer, app_setitimer};
pub use events::{EventObstacle, IdleEvent};
pub use exec::{PendingExec, after_failed_exec, before_exec};
pub use lines::{append_line, identity, write_line};
pub use objects::{
    file_of, first_symbol, is_in_program, is_own_code, next_symbol, own_file, while_unloading,
};
pub use process::{
    at_fork_in_child, is_privileged, is_single_threaded, process, signal_number, with_signals_blocked,
};
pub use sessions::{
    FileOptions, RECORDERS_FILE, SessionState, StoppedSession, enable_toggle, finish_before_exit, flush,
    is_special, is_without_recorder, live_ticks, prepare, set_diagnostic_sink, spool_refusal, start, stop,
    with_state,
};
pub use stacks::{stack_from_here, stack_of_context};
pub use threads::{app_enters_sandbox, claim_new_thread, register_thread};
