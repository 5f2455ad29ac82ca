//! The objects of the process: what they define, whose an address is, and how they are unloaded.

use crate::{
    control,
    sample::{engine::Engine, sampled_dsos, unwind::objects},
    sys::{loader, own_object},
};
use core::{
    cell::Cell,
    ffi::{CStr, c_void},
};

/// The next definition of a function behind the calling object; null if there is none.
pub fn next_symbol(name: &CStr) -> *mut c_void {
    loader::next_symbol(name)
}

/// The first definition of a function in the program; null if there is none. Not for signal context.
pub fn first_symbol(name: &CStr) -> *mut c_void {
    loader::symbol(name)
}

/// True for an address in the program itself. Signal-safe once [`prepare`](super::prepare) has run.
pub fn is_in_program(address: *const c_void) -> bool {
    loader::is_in_program(address as usize)
}

/// True for an address in the object that holds this code. Not for signal context.
pub fn is_own_code(address: *const c_void) -> bool {
    own_object::contains(address as usize)
}

/// The file of the object that holds this code. Not for signal context.
pub fn own_file() -> Option<Vec<u8>> {
    own_object::file()
}

/// The file of the object that `address` lies in. Not for signal context.
pub fn file_of(address: usize) -> Option<Vec<u8>> {
    loader::file_of(address)
}

/// Runs `unload`, which may unload objects, while no handler reads them, and forgets what was known of them. None,
/// without running it, where a handler does not leave them: they then stay loaded.
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
