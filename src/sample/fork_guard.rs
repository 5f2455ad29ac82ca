//! The guard against ticks of forked copies. The fork hook repairs a child of fork(2). `_Fork`, a
//! raw `clone` and a raw `fork` run no hooks: the child has the handler and a copy of private
//! memory, but not the spool's mapping. It may receive the signal or arm a timer: these ticks must
//! not count.
//!
//! So a handler first reads the running session's signal from a page that the kernel zeroes in each
//! child (`MADV_WIPEONFORK`, Linux 4.14). There the child finds no session, without a system call.
//!
//! | word | meaning |
//! | --- | --- |
//! | 0 | no session runs in this process |
//! | signal number | a session runs; its timer sends this signal |
//! | negated number | the same without a wiped page; valid only in the process that stored it |
//!
//! Children that share the memory (`vfork`, or `clone` with `CLONE_VM`) find the word set. The
//! handler treats them as threads: they count in the parent's table, by the same atomic operations.
//!
//! # Safety
//! Refers to words in a mapping that is never unmapped.
#![allow(unsafe_code)]

use crate::{
    sync::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering},
    sys::{memory::OwnedMapping, process},
};
use core::{mem, ptr};

struct GuardWords {
    signal: AtomicI32,
    /// Set in a process that has published or withdrawn a session.
    is_known: AtomicBool,
}

impl GuardWords {
    const fn new() -> Self {
        Self { signal: AtomicI32::new(0), is_known: AtomicBool::new(false) }
    }
}

struct RunningSignal {
    /// Never null: the words live as long as the process.
    words: AtomicPtr<GuardWords>,
    is_wiped: AtomicBool,
    /// The process that stored a negative word.
    owner: AtomicU32,
}

static RUNNING_SIGNAL: RunningSignal = RunningSignal::in_ordinary_memory(&ORDINARY);
static ORDINARY: GuardWords = GuardWords::new();

/// Moves the words to a page that is wiped in children, once. For ordinary context, or a toggle
/// request, with the control lock held and no session published.
pub(crate) fn prepare() {
    if !RUNNING_SIGNAL.is_wiped.load(Ordering::Relaxed) {
        RUNNING_SIGNAL.move_to_wiped_page();
    }
}

/// Publishes the session's signal; 0 withdraws it. For the callers of [`prepare`].
pub(crate) fn set_running_signal(signal: i32) {
    RUNNING_SIGNAL.set_running_signal(signal);
}

/// Returns 0 without a session. Signal-safe: two loads; with a negative word also `getpid`.
#[inline]
pub(crate) fn running_signal() -> i32 {
    RUNNING_SIGNAL.signal()
}

/// True in a forked copy of a process that published sessions, until the copy publishes or
/// withdraws one; also before the first publication, but never without a wiped page. Process IDs
/// may be equal in another namespace. Signal-safe: atomic loads.
pub(crate) fn is_forked_copy() -> bool {
    RUNNING_SIGNAL.is_wiped.load(Ordering::Relaxed)
        && !RUNNING_SIGNAL.words().is_known.load(Ordering::Relaxed)
}

impl RunningSignal {
    const fn in_ordinary_memory(words: &'static GuardWords) -> Self {
        Self {
            words: AtomicPtr::new(ptr::from_ref(words).cast_mut()),
            is_wiped: AtomicBool::new(false),
            owner: AtomicU32::new(0),
        }
    }

    fn move_to_wiped_page(&self) {
        if let Ok(page) = OwnedMapping::zeroed_in_children(size_of::<GuardWords>()) {
            // Zeros, as the words that it replaces. Release: pairs with the acquire in `words`.
            self.words.store(page.start().cast().as_ptr(), Ordering::Release);
            self.is_wiped.store(true, Ordering::Release);
            mem::forget(page);
        }
    }

    fn set_running_signal(&self, signal: i32) {
        let words = self.words();
        words.is_known.store(true, Ordering::Relaxed);
        if self.is_wiped.load(Ordering::Relaxed) {
            words.signal.store(signal, Ordering::Release);
        } else {
            self.owner.store(process::id_by_system_call(), Ordering::Relaxed);
            words.signal.store(-signal, Ordering::Release);
        }
    }

    #[inline]
    fn signal(&self) -> i32 {
        // Acquire: pairs with the release in `set_running_signal`, for `owner`.
        let word = self.words().signal.load(Ordering::Acquire);
        if word >= 0 { word } else { self.signal_by_owner(-word) }
    }

    #[cold]
    fn signal_by_owner(&self, signal: i32) -> i32 {
        if self.owner.load(Ordering::Relaxed) == process::id_by_system_call() { signal } else { 0 }
    }

    #[inline]
    fn words(&self) -> &'static GuardWords {
        // Acquire: pairs with the release in `move_to_wiped_page`.
        let words = self.words.load(Ordering::Acquire);
        // SAFETY: points to a static, or into a page that is never unmapped; zeros are valid words.
        unsafe { &*words }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys::process::in_raw_fork;

    const SIGNAL: i32 = 27;

    fn expect_no_session_in_copies(guard: &RunningSignal) {
        guard.set_running_signal(SIGNAL);
        assert_eq!(guard.signal(), SIGNAL);
        assert_eq!(in_raw_fork(|| guard.signal()), 0, "the child takes the parent's session for its own");
        let grandchild = || in_raw_fork(|| guard.signal());
        let child = || {
            guard.set_running_signal(SIGNAL);
            if guard.signal() == SIGNAL { grandchild() } else { 1 }
        };
        assert_eq!(in_raw_fork(child), 0);
        assert_eq!(guard.signal(), SIGNAL);
        guard.set_running_signal(0);
        assert_eq!(guard.signal(), 0);
    }

    #[test]
    fn a_copy_finds_no_session_in_a_wiped_page() {
        static WORDS: GuardWords = GuardWords::new();
        let guard = RunningSignal::in_ordinary_memory(&WORDS);
        guard.move_to_wiped_page();
        assert!(guard.is_wiped.load(Ordering::Relaxed), "this kernel is older than 4.14, or an emulation");
        expect_no_session_in_copies(&guard);
        assert_eq!(WORDS.signal.load(Ordering::Relaxed), 0, "the page is what is used");
    }

    #[test]
    fn finds_no_session_in_a_copy_by_its_process_id() {
        static WORDS: GuardWords = GuardWords::new();
        expect_no_session_in_copies(&RunningSignal::in_ordinary_memory(&WORDS));
        assert_eq!(WORDS.signal.load(Ordering::Relaxed), 0);
    }
}
