//! The user's filter of ticks.
//!
//! # Safety
//! Calls the user's function, which must be async-signal-safe.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

/// A callback that decides in the signal handler whether a tick is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    /// `filter_in_thread` of the C interface, and its argument.
    C(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void),
    /// The function of the crate's builder.
    Rust(fn() -> bool),
}

// SAFETY: only the user's function uses the argument; it must be callable from any thread.
unsafe impl Send for Filter {}
// SAFETY: as above.
unsafe impl Sync for Filter {}

impl Filter {
    /// Calls the callback.
    ///
    /// # Safety
    /// * The callback is async-signal-safe, its argument valid: guaranteed at session start.
    pub(crate) unsafe fn accepts(self) -> bool {
        match self {
            // SAFETY: the function and its argument are valid, by this method's contract.
            Self::C(function, argument) => unsafe { function(argument) != 0 },
            Self::Rust(function) => function(),
        }
    }
}
