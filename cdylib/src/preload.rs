//! Hooks of the library's loading and of the program's exit.
//!
//! # Safety
//! Reads the environment as `getenv(3)` does, and changes it while no other code uses it.
#![allow(unsafe_code)]

use crate::{abi, exit, guarded, interpose, message, other_profilers};
use core::ffi::{CStr, c_char};
use sigprof::interface::{self, Environment, FileOptions, MARK, REFUSED, SpoolChoice, is_marked};
use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    sync::OnceLock,
};

/// Called after the initialisers of the needed libraries.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Called at `exit` or the return of `main`, after the program's `atexit` functions.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = abi::stop;

/// The environment's settings, read once, at load or first use. Empty under AT_SECURE.
pub(crate) fn settings() -> &'static Environment {
    static SETTINGS: OnceLock<Environment> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let pairs = if interface::is_privileged() { Vec::new() } else { environment() };
        Environment::from_pairs(pairs.iter().map(|&(name, value)| (name, value)), interface::signal_number)
    })
}

extern "C" fn at_load() {
    guarded((), || {
        interpose::resolve();
        exit::watch_quick_exit();
        // Also without a profile: the program may request a stack in a signal handler.
        let prepared = interface::prepare(interpose::interposes_dlclose());
        let is_late = interpose::is_opened_late();
        if !is_late && !other_profilers::is_in_program() {
            exit::watch_early_exit();
        }
        let settings = settings();
        message::open();
        interface::set_diagnostic_sink(message::diagnostic);
        let Some(base) = settings.base_path() else { return };
        // The parent process stays the same over `exec`.
        if settings.child_of.is_some_and(|parent| parent != std::os::unix::process::parent_id()) {
            return;
        }
        if let Some(first) = other_profilers::earlier_profiler() {
            return message::defers_to(&first);
        }
        if !settings.quiet {
            message::keep();
        }
        if let Err(failure) = prepared {
            return message::failed(&base, failure);
        }
        let is_refused = start(settings, &base);
        // Other threads may be reading the environment.
        if !is_late || interface::is_single_threaded() {
            mark(is_refused);
        }
    });
}

/// Starts what the settings request. True if that failed with a message, here or in a program
/// before.
fn start(settings: &Environment, base: &[u8]) -> bool {
    for warning in &settings.warnings {
        message::warn(warning);
    }
    // A device or pipe has only the first program's profile.
    if settings.adds_pid() && interface::is_special(base) {
        return false;
    }
    let Some(path) = settings.path_of_process(std::process::id()) else { return false };
    let of_children = absolute(base);
    let options = FileOptions {
        path: &path,
        is_numbered: true,
        child_path: settings.follow_fork.then_some(&of_children),
        clock: settings.clock,
        timer_signal: settings.timer_signal,
        frequency: settings.frequency,
        max_depth: settings.max_depth,
        by_thread: settings.by_thread,
        filter: None,
        spool: &settings.spool,
        keeps_spool: settings.keeps_spool,
        starts_at_random: settings.starts_at_random,
        max_memory: settings.max_memory,
    };
    if let Some((signal, name)) = &settings.toggle_signal {
        let ended = |stopped: interface::StoppedSession<'_>| message::end_of_profile(&stopped);
        if let Err(failure) = interface::enable_toggle(*signal, &options, ended, message::failed) {
            message::no_toggle(name, failure);
        }
        return false;
    }
    // SAFETY: there is no filter.
    if let Err(failure) = unsafe { interface::start(&options) } {
        let is_without_recorder = settings.keeps_spool && interface::is_without_recorder(failure);
        if is_without_recorder || message::is_of_recording(failure) {
            return false;
        }
        if !settings.is_refusal_reported {
            message::refused(&path, failure);
        }
        return true;
    }
    // The recorder then collects a file.
    if settings.keeps_spool {
        return false;
    }
    // Only a spool that the user requested is worth a message.
    if let SpoolChoice::Directory(directory) = &settings.spool {
        if let Some((action, reason)) = interface::spool_refusal() {
            message::no_spool(directory, action, reason);
        }
    }
    false
}

/// A child may be forked in another directory.
fn absolute(path: &[u8]) -> Vec<u8> {
    std::path::absolute(OsStr::from_bytes(path))
        .map_or_else(|_| path.to_vec(), |path| path.into_os_string().into_vec())
}

/// Makes programs that this one starts add their process IDs to the name (`CPUPROFILE_USE_PID`), as
/// gperftools since 2.18. They report a refusal once. Removes an older parent's mark: the path with
/// it is not UTF-8, which some programs reject.
fn mark(is_refused: bool) {
    let value = if is_refused { format!("1{REFUSED}\0") } else { "1\0".into() };
    // SAFETY: both are C strings, and only initialisers run, or the only thread opens the library.
    unsafe { libc::setenv(c"CPUPROFILE_USE_PID".as_ptr(), value.as_ptr().cast(), 1) };
    for entry in entries() {
        // SAFETY: `entry` is a C string.
        let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if bytes.strip_prefix(b"CPUPROFILE=").is_some_and(is_marked) {
            // SAFETY: the first byte of the value is within the string.
            let first = unsafe { entry.add("CPUPROFILE=".len()) }.cast::<u8>();
            // SAFETY: the environment is writable, and no other code uses it now.
            unsafe { *first &= !MARK };
        }
    }
}

/// The environment as names and values, which live as long as the process.
fn environment() -> Vec<(&'static [u8], &'static [u8])> {
    entries()
        .filter_map(|entry| {
            // SAFETY: `entry` is a C string.
            let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
            let equals = bytes.iter().position(|&byte| byte == b'=')?;
            Some((bytes.get(..equals)?, bytes.get(equals + 1..)?))
        })
        .collect()
}

fn entries() -> impl Iterator<Item = *mut c_char> {
    // SAFETY: reads libc's variable, as `getenv` does.
    let mut next = unsafe { libc::environ };
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: the array is null-terminated, and `next` is not after its end.
        let entry = unsafe { *next };
        if entry.is_null() {
            return None;
        }
        // SAFETY: as above.
        next = unsafe { next.add(1) };
        Some(entry)
    })
}
