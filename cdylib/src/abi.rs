//! The ten functions of `<gperftools/profiler.h>`, which documents them.
//!
//! # Safety
//! Accesses memory of C callers through pointers that each function's contract makes valid or null.
#![allow(unsafe_code)]

use crate::{
    guarded, message,
    preload::settings,
    types::{NAME_BYTES, ProfilerOptions, ProfilerState},
};
use core::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
};
use sigprof::interface::{self, Failure, FileOptions};

/// # Safety
/// * `name` is null or a C string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ProfilerStart(name: *const c_char) -> c_int {
    // SAFETY: `name` is null or a C string, guaranteed by the caller; the options may be null.
    unsafe { ProfilerStartWithOptions(name, ptr::null()) }
}

/// # Safety
/// * `name` is null or a C string, `options` null or valid.
/// * A filter is async-signal-safe and valid until the stop.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ProfilerStartWithOptions(
    name: *const c_char,
    options: *const ProfilerOptions,
) -> c_int {
    guarded(0, || {
        if name.is_null() {
            return 0;
        }
        // SAFETY: `name` is a C string, guaranteed by the caller.
        let path = unsafe { CStr::from_ptr(name) }.to_bytes();
        // SAFETY: `options` is null or valid, guaranteed by the caller.
        let options = unsafe { options.as_ref() };
        let filter =
            options.and_then(|options| Some((options.filter_in_thread?, options.filter_in_thread_arg)));
        let settings = settings();
        let options = FileOptions {
            path,
            is_numbered: false,
            child_path: None,
            clock: settings.clock,
            timer_signal: settings.timer_signal,
            frequency: settings.frequency,
            max_depth: settings.max_depth,
            by_thread: settings.by_thread,
            filter,
            spool: &settings.spool,
            // The program chose the file's name.
            keeps_spool: false,
            starts_at_random: false,
            max_memory: settings.max_memory,
        };
        // SAFETY: the filter is async-signal-safe and valid, guaranteed by the caller.
        let started = unsafe { interface::start(&options) };
        match started {
            Ok(()) => 1,
            // Not an error: the environment may have started the profiler.
            Err(Failure::AlreadyRunning) => 0,
            Err(failure) => {
                message::refused(path, failure);
                0
            }
        }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ProfilerStop() {
    stop();
}

/// [`ProfilerStop`], under a unique name.
#[inline(never)]
pub(crate) extern "C" fn stop() {
    guarded((), || interface::stop(|stopped| message::end_of_profile(&stopped)));
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ProfilerFlush() {
    guarded((), || match interface::flush() {
        Ok(()) | Err(Failure::NotRunning) => {}
        Err(failure) => interface::with_state(|state| {
            message::not_flushed(state.map_or(&[], |state| state.path), failure);
        }),
    });
}

/// Does nothing, as in gperftools.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ProfilerEnable() {}

/// Does nothing, as in gperftools.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ProfilerDisable() {}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ProfilingIsEnabledForAllThreads() -> c_int {
    guarded(0, || c_int::from(interface::with_state(|state| state.is_some())))
}

/// Optional: threads are found without it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn ProfilerRegisterThread() {
    guarded((), interface::register_thread);
}

/// # Safety
/// * `state` is null or writable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ProfilerGetCurrentState(state: *mut ProfilerState) {
    guarded((), || {
        if state.is_null() {
            return;
        }
        let value = interface::with_state(|running| {
            let mut value = ProfilerState {
                enabled: 0,
                start_time: 0,
                profile_name: [0; NAME_BYTES],
                samples_gathered: 0,
            };
            let mut name: &[u8] = &[];
            if let Some(running) = running {
                value.enabled = 1;
                value.start_time = running.start_time as libc::time_t;
                value.samples_gathered = c_int::try_from(running.samples).unwrap_or(c_int::MAX);
                name = running.path;
            }
            let counter = (interface::live_ticks() as usize).to_ne_bytes();
            // The name is cut to leave room for its NUL and the address.
            let length = name.len().min(NAME_BYTES - 1 - counter.len());
            let bytes = name.iter().take(length).chain([&0]).chain(&counter);
            for (place, byte) in value.profile_name.iter_mut().zip(bytes) {
                *place = *byte as c_char;
            }
            value
        });
        // SAFETY: `state` is writable, guaranteed by the caller.
        unsafe { state.write(value) };
    });
}

/// # Safety
/// * `result` has room for `max_depth` pointers; `context` is null or a valid `ucontext_t`.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) unsafe extern "C" fn ProfilerGetStackTrace(
    result: *mut *mut c_void,
    max_depth: c_int,
    skip_count: c_int,
    context: *const c_void,
) -> c_int {
    let Ok(room) = usize::try_from(max_depth) else { return 0 };
    if result.is_null() || room == 0 {
        return 0;
    }
    // SAFETY: `result` has this room, guaranteed by the caller; `usize` has a pointer's layout.
    let result = unsafe { slice::from_raw_parts_mut(result.cast::<usize>(), room) };
    let depth = if context.is_null() {
        interface::stack_from_here(usize::try_from(skip_count).unwrap_or(0), result)
    } else {
        // SAFETY: `context` is a valid `ucontext_t`, guaranteed by the caller.
        unsafe { interface::stack_of_context(context, result) }
    };
    c_int::try_from(depth).unwrap_or(c_int::MAX)
}
