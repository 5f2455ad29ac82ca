//! The structures of `<gperftools/profiler.h>`, with checks of their layout.

use core::{
    ffi::{c_char, c_int, c_void},
    mem::offset_of,
};

#[repr(C)]
pub(crate) struct ProfilerOptions {
    pub(crate) filter_in_thread: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub(crate) filter_in_thread_arg: *mut c_void,
}

pub(crate) const NAME_BYTES: usize = 1024;

#[repr(C)]
pub(crate) struct ProfilerState {
    pub(crate) enabled: c_int,
    pub(crate) start_time: libc::time_t,
    /// NUL-terminated. The unaligned address of an `int` that counts recorded ticks follows;
    /// gperftools' own test reads it since 2.16.
    pub(crate) profile_name: [c_char; NAME_BYTES],
    pub(crate) samples_gathered: c_int,
}

const _: () = {
    assert!(size_of::<ProfilerOptions>() == 2 * size_of::<usize>());
    assert!(offset_of!(ProfilerOptions, filter_in_thread_arg) == size_of::<usize>());
    assert!(offset_of!(ProfilerState, start_time) == size_of::<libc::time_t>());
    assert!(offset_of!(ProfilerState, profile_name) == 2 * size_of::<libc::time_t>());
    assert!(offset_of!(ProfilerState, samples_gathered) == 2 * size_of::<libc::time_t>() + NAME_BYTES);
};
