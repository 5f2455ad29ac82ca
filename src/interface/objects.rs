//! Shared objects: symbols, addresses and unloading. Not signal-safe, except [`is_in_program`].

use crate::{
    control,
    sample::{engine::Engine, sampled_dsos, unwind::objects},
    sys::{loader, own_object},
};
use core::{
    cell::Cell,
    ffi::{CStr, c_void},
};

/// The next definition of a function after this object; null if there is none.
pub fn next_symbol(name: &CStr) -> *mut c_void {
    loader::next_symbol(name)
}

/// The first definition of a function; null if there is none.
pub fn first_symbol(name: &CStr) -> *mut c_void {
    loader::symbol(name)
}

/// Whether the program itself contains the address. Signal-safe after [`prepare`](super::prepare).
pub fn is_in_program(address: *const c_void) -> bool {
    loader::is_in_program(address as usize)
}

pub fn is_own_code(address: *const c_void) -> bool {
    own_object::contains(address as usize)
}

pub fn own_file() -> Option<Vec<u8>> {
    own_object::file()
}

/// The file of the object that contains the address.
pub fn file_of(address: usize) -> Option<Vec<u8>> {
    loader::file_of(address)
}

/// Runs `unload`, which may unload objects, while no handler reads them, and forgets what is cached
/// about them. Returns None, without running it, if a handler does not return.
pub fn while_unloading<R>(unload: impl FnOnce() -> R) -> Option<R> {
    let Some(engine) = Engine::get() else { return Some(unload()) };
    let has_forgotten = Cell::new(false);
    let forget = || {
        engine.rules().retain(&objects::is_permanent);
        control::collect_sampled_dsos();
        sampled_dsos::forget_seen();
        has_forgotten.set(true);
    };
    let result = objects::while_unloading(forget, unload)?;
    if has_forgotten.get() {
        control::renew_frame_index();
    }
    Some(result)
}
