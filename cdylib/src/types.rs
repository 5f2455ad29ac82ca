//! The structures of `<gperftools/profiler.h>`, with their layout proven.

use core::{
    ffi::{c_char, c_int, c_void},
    mem::offset_of,
};

/// `struct ProfilerOptions`.
#[repr(C)]
pub(crate) struct ProfilerOptions {
    pub(crate) filter_in_thread: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub(crate) filter_in_thread_arg: *mut c_void,
}

/// Bytes of `ProfilerState.profile_name`.
pub(crate) const NAME_BYTES: usize = 1024;

/// `struct ProfilerState`.
#[repr(C)]
pub(crate) struct ProfilerState {
    pub(crate) enabled: c_int,
    pub(crate) start_time: libc::time_t,
    /// The name, NUL-terminated. Right behind the NUL stands, not aligned, the address of an `int` that counts
    /// ticks as they are recorded; gperftools' own test has read it there since 2.16.
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
