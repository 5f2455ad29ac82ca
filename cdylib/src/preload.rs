//! What happens when the library is loaded and when the program ends.
//!
//! # Safety
//! Reads the environment's strings, as `getenv(3)` does, marks them where nobody else uses them, and places two functions
//! where the loader calls them.
#![allow(unsafe_code)]

use crate::{abi, exit, guarded, interpose, message, other_profilers};
use core::ffi::{CStr, c_char};
use sigprof::interface::{self, Environment, FileOptions, MARK, REFUSED, SpoolChoice, is_marked};
use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    sync::OnceLock,
};

/// Called by the loader when the library is initialised, behind the libraries it needs.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Called when the program ends by `exit` or a return from `main`, behind its own `atexit` functions.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = abi::stop;

/// What the environment asks for; read once, at load or at the first use before it. Under AT_SECURE nothing is
/// read.
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
        // Whoever only links the library may ask for a stack in a signal handler, where nothing can be prepared.
        let prepared = interface::prepare(interpose::interposes_dlclose());
        let is_late = interpose::is_opened_late();
        if !is_late && !other_profilers::is_in_program() {
            exit::watch_early_exit();
        }
        let settings = settings();
        message::open();
        interface::set_diagnostic_sink(message::diagnostic);
        let Some(base) = settings.base_path() else { return };
        // The program that the process runs is another one by every `exec`, and its parent stays.
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
        // In a program that has threads they may be reading the environment, which would be moved.
        if !is_late || interface::is_single_threaded() {
            mark(is_refused);
        }
    });
}

/// Starts what the settings ask for. True if that is refused for a reason that is printed, now or by the program that started
/// this one.
fn start(settings: &Environment, base: &[u8]) -> bool {
    for warning in &settings.warnings {
        message::warn(warning);
    }
    // The device or pipe is the profile of the program that was started with it; nothing can be made beside it.
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
        // The recorder that asked for the profile is gone: nobody wants to know.
        let is_without_recorder = settings.keeps_spool && interface::is_without_recorder(failure);
        if is_without_recorder || message::is_of_recording(failure) {
            return false;
        }
        if !settings.is_refusal_reported {
            message::refused(&path, failure);
        }
        return true;
    }
    // What a recorder finds no spool of it finds in a file.
    if settings.keeps_spool {
        return false;
    }
    // Where nobody asked for a spool, going without is no news.
    if let SpoolChoice::Directory(directory) = &settings.spool {
        if let Some((action, reason)) = interface::spool_refusal() {
            message::no_spool(directory, action, reason);
        }
    }
    false
}

/// The path from the root: a child may be forked in another directory.
fn absolute(path: &[u8]) -> Vec<u8> {
    std::path::absolute(OsStr::from_bytes(path))
        .map_or_else(|_| path.to_vec(), |path| path.into_os_string().into_vec())
}

/// Asks the programs that this one starts to add their process ids to the name, by `CPUPROFILE_USE_PID`, as
/// gperftools does since 2.18. The mark of an older parent is taken off: it makes the path no text, and programs that
/// read their whole environment stumble over it. They report a refusal once.
fn mark(is_refused: bool) {
    let value = if is_refused { format!("1{REFUSED}\0") } else { "1\0".into() };
    // SAFETY: both strings are NUL-terminated, and only initialisers run, or the one thread that opens us.
    unsafe { libc::setenv(c"CPUPROFILE_USE_PID".as_ptr(), value.as_ptr().cast(), 1) };
    for entry in entries() {
        // SAFETY: the string is NUL-terminated.
        let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if bytes.strip_prefix(b"CPUPROFILE=").is_some_and(is_marked) {
            // SAFETY: the value's first byte, behind the name and the equals sign.
            let first = unsafe { entry.add("CPUPROFILE=".len()) }.cast::<u8>();
            // SAFETY: the environment is writable, and nobody else uses it now.
            unsafe { *first &= !MARK };
        }
    }
}

/// The environment as names and values; they live as long as the process.
fn environment() -> Vec<(&'static [u8], &'static [u8])> {
    entries()
        .filter_map(|entry| {
            // SAFETY: the string is NUL-terminated.
            let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
            let equals = bytes.iter().position(|&byte| byte == b'=')?;
            Some((bytes.get(..equals)?, bytes.get(equals + 1..)?))
        })
        .collect()
}

fn entries() -> impl Iterator<Item = *mut c_char> {
    // SAFETY: a plain read of libc's variable, as `getenv` does.
    let mut next = unsafe { libc::environ };
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: the array is terminated by a null pointer, behind which `next` never moves.
        let entry = unsafe { *next };
        if entry.is_null() {
            return None;
        }
        // SAFETY: as above.
        next = unsafe { next.add(1) };
        Some(entry)
    })
}
