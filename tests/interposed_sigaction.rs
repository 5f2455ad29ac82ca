//! An application that interposes `sigaction`, as ThreadSanitizer does: the kernel gets another
//! handler, which calls the caller's handler.
//!
//! # Safety
//! The interposed `sigaction` calls the C library's. The other handler only calls that of the same
//! signal.
#![cfg(feature = "runtime")]
#![allow(unsafe_code)]

mod support;

use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use sigprof::Error;
use support::{
    in_own_process,
    signals::{quiet_builder, raise_ticks, set_profiling_timer},
};

/// The handler of SIGPROF that the last caller of `sigaction` passed, or 0.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
type Sigaction =
    unsafe extern "C" fn(libc::c_int, *const libc::sigaction, *mut libc::sigaction) -> libc::c_int;

extern "C" fn call_given(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let given = GIVEN.load(Ordering::SeqCst);
    // SAFETY: no test installs a handler of another type for SIGPROF.
    let given = unsafe { mem::transmute::<usize, Handler>(given) };
    given(signal, info, context);
}

extern "C" fn do_nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

fn next_sigaction() -> Sigaction {
    // SAFETY: the name is NUL-terminated.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr()) };
    assert!(!next.is_null());
    // SAFETY: the C library's function has this type.
    unsafe { mem::transmute::<*mut libc::c_void, Sigaction>(next) }
}

/// Interposes the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: libc::c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> libc::c_int {
    // SAFETY: a null pointer or a valid structure, guaranteed by the caller.
    let mut replaced = unsafe { new.as_ref() }.copied();
    let before = GIVEN.load(Ordering::SeqCst);
    if let Some(new) = replaced.as_mut().filter(|_| signal == libc::SIGPROF) {
        GIVEN.store(new.sa_sigaction, Ordering::SeqCst);
        new.sa_sigaction = call_given as *const () as usize;
    }
    let new = replaced.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the caller's arguments, or a copy of the structure.
    let status = unsafe { next_sigaction()(signal, new, old) };
    // SAFETY: a null pointer or a valid structure, guaranteed by the caller.
    if let Some(old) = unsafe { old.as_mut() }.filter(|_| signal == libc::SIGPROF && before != 0) {
        old.sa_sigaction = before;
    }
    status
}

#[test]
fn a_second_session_starts_and_records() {
    in_own_process("a_second_session_starts_and_records", || {
        for ticks in 1..4 {
            let profiler = quiet_builder().start_in_memory().unwrap();
            set_profiling_timer(0);
            raise_ticks(ticks);
            assert_eq!(profiler.stop().unwrap().summary().samples, ticks);
        }
    });
}

/// The C library's `sigaction` installs the handler, so the interposed one does not see it.
#[test]
fn start_fails_if_another_handler_bypassed_sigaction() {
    in_own_process("start_fails_if_another_handler_bypassed_sigaction", || {
        quiet_builder().start_in_memory().unwrap().stop().unwrap();
        // SAFETY: zero is a valid value of each field.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = do_nothing as *const () as usize;
        // SAFETY: the handler does nothing.
        unsafe { next_sigaction()(libc::SIGPROF, &action, ptr::null_mut()) };
        let refused = quiet_builder().start_in_memory().unwrap_err();
        assert!(matches!(refused, Error::HandlerTaken { .. }), "{refused}");
    });
}
