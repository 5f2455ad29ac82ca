//! Tests of the shared library's behaviour. They are one program, because linking each file takes
//! longer than running it. A test that changes process-wide state does so in a child process.
//!
//! Two files beside this folder are built separately: `complete_stacks`, for other machines, and
//! `kill_points`, with optimisations.

#[path = "../support/mod.rs"]
mod support;

mod app_edges;
mod app_runtimes;
mod app_signals;
mod app_timers;
mod bad_output;
mod c_abi;
#[cfg(target_arch = "x86_64")]
mod calls;
mod cycles;
mod ends;
mod ends_of_programs;
mod environment;
mod event_clock;
mod exec;
mod exports;
#[cfg(target_arch = "x86_64")]
mod fault_injection;
#[cfg(target_arch = "x86_64")]
mod faults;
mod fork;
mod fork_daemons;
mod fork_storms;
#[cfg(target_arch = "x86_64")]
mod frame_tables;
mod linking;
mod loaders;
mod loaders_copies;
mod loaders_neighbours;
mod loaders_programs;
mod memory;
mod memory_limits;
#[cfg(target_arch = "x86_64")]
mod odd_code;
mod odd_stacks;
mod output_links;
mod output_names;
mod output_pipes;
mod output_places;
mod output_targets;
// Some have code of this architecture only.
#[cfg(target_arch = "x86_64")]
mod programs;
#[cfg(target_arch = "x86_64")]
mod reachable_calls;
mod real_programs;
mod sandbox;
mod signal_context;
mod signals;
mod spool;
mod spool_full;
mod spool_recovery;
mod static_programs;
mod suite_finds;
mod threads;
mod timer_signal;
mod torture_finds;
mod unloading;
mod wall;
