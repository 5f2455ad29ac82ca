//! What the shared library and the command need of this crate, and nothing else should use: no promise of stability.

mod events;
mod exec;
mod host_signals;
mod host_timers;
mod lines;
mod objects;
mod process;
mod sessions;
mod stacks;
mod threads;

pub use crate::config::{
    Clock, Environment, MARK, REFUSED, SpoolChoice, StatisticsChoice, VARIABLES, Variable, is_marked,
};
pub use crate::control::{Listener, Notice, SpoolUse};
pub use crate::error::Failure;
pub use crate::line::Line;
pub use crate::sys::{
    signal::{AlternateStack, CAction, SigactionFunction, SignalInfo, SignalSet},
    timer::CItimerval,
};
pub use events::{EventObstacle, IdleEvent};
pub use exec::{Replacing, after_failed_exec, before_exec};
pub use host_signals::{
    host_alternate_stack, host_reads_signals, host_sigaction, is_tick, may_meet_ticks, owns_signal,
    set_real_sigaction,
};
pub use host_timers::{host_getitimer, host_setitimer};
pub use lines::{append_line, identity, write_line};
pub use objects::{
    file_of, first_symbol, is_in_program, is_own_code, next_symbol, own_file, while_unloading,
};
pub use process::{in_each_child, is_privileged, is_single_threaded, process, signal_number, undisturbed};
pub use sessions::{
    FileOptions, RECORDERS_FILE, State, Stopped, complete, enable_toggle, flush, is_special,
    is_without_recorder, listen, live_ticks, prepare, spool_refusal, start, stop, with_state,
};
pub use stacks::{stack_from_here, stack_of_context};
pub use threads::{claim_new_thread, host_enters_sandbox, register_thread};
