//! Shared parts of the crate's tests: own processes, work to profile, names, and profile files.
#![allow(dead_code, unused_imports, reason = "each test crate uses its own part of this module")]

mod checker;
mod file;
mod library;
mod names;
mod own_process;
pub(crate) mod signals;
pub(crate) mod skip;
mod work;

pub(crate) use file::{mappings_of, object_at, read_profile};
pub(crate) use library::{Library, compile_library, is_programs_entry, symbol_at};
pub(crate) use names::{count_under, has_in_order, is_called, names_of, names_of_chain};
pub(crate) use own_process::{in_own_process, in_own_process_after};
pub(crate) use work::{calls_spin, process_cpu, repeat_until, spin, spin_for_a_while, thread_cpu};
