//! Which ticks are recorded: the user's filter.
//!
//! # Safety
//! Calls the user's filter, for which the user vouches.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

/// A callback that decides, in the signal handler, whether a tick is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    /// `filter_in_thread` of the C interface, and its argument.
    C(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void),
    /// A function of the crate's builder.
    Rust(fn() -> bool),
}

// SAFETY: the argument is handed to the user's function only, which has to cope with any thread.
unsafe impl Send for Filter {}
// SAFETY: as above.
unsafe impl Sync for Filter {}

impl Filter {
    /// Asks the callback.
    ///
    /// # Safety
    /// * The callback is async-signal-safe, and its argument still valid: who started the session promised it.
    pub(crate) unsafe fn accepts(self) -> bool {
        match self {
            // SAFETY: the caller's word.
            Self::C(function, argument) => unsafe { function(argument) != 0 },
            Self::Rust(function) => function(),
        }
    }
}
