//! The mark by which a handler knows that it runs in the session's own process.
//!
//! A child of `fork` is put right by our hooks. `_Fork`, a raw `clone` and a raw `fork` run no hooks: their child has
//! our handler, a copy of our private memory, and shares what we have mapped shared. It has no timer, but it may be
//! sent the signal, or arm a timer of its own, and a tick of it must not be counted among the parent's.
//!
//! So what a handler looks at first, the signal of the running session, stands in a page that the kernel gives to each
//! child zeroed (`MADV_WIPEONFORK`, Linux 4.14): the child finds no session, without asking for anything.
//!
//! | word | meaning |
//! | --- | --- |
//! | 0 | no session runs in this process |
//! | signal number | a session does, and its timer sends this |
//! | the same, negative | a session does, where the kernel wipes no page; it is this process's if the ids agree |
//!
//! Children that share our memory instead of copying it (`vfork`, or `clone` with `CLONE_VM`) find the mark set. They are
//! to our handler what a thread is: the table that they count in is the parent's own, by the same atomic operations.
//!
//! # Safety
//! Refers to words in a mapping that is never unmapped.
#![allow(unsafe_code)]

use crate::{
    sync::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering},
    sys::{memory::Mapping, process},
};
use core::{mem, ptr};

/// What stands in the page.
struct GuardWords {
    signal: AtomicI32,
    /// Set in a process that has published a session, or withdrawn one.
    is_known: AtomicBool,
}

impl GuardWords {
    const fn new() -> Self {
        Self { signal: AtomicI32::new(0), is_known: AtomicBool::new(false) }
    }
}

/// See the module.
struct RunningSignal {
    /// Never null: words that live as long as the process.
    words: AtomicPtr<GuardWords>,
    is_wiped: AtomicBool,
    /// The process that set a negative word.
    owner: AtomicU32,
}

static RUNNING_SIGNAL: RunningSignal = RunningSignal::in_ordinary_memory(&ORDINARY);
static ORDINARY: GuardWords = GuardWords::new();

/// Finds a place that is wiped in children, once. For ordinary context, or a toggle, with the control lock held and
/// no session published.
pub(crate) fn prepare() {
    if !RUNNING_SIGNAL.is_wiped.load(Ordering::Relaxed) {
        RUNNING_SIGNAL.move_to_wiped_page();
    }
}

/// Tells handlers that a session with this signal runs in this process; 0: that none does. As [`prepare`].
pub(crate) fn set_running_signal(signal: i32) {
    RUNNING_SIGNAL.set_running_signal(signal);
}

/// The signal of this process's running session, or 0. Signal-safe: two loads; where the kernel wipes no page, also
/// `getpid` by system call.
#[inline]
pub(crate) fn running_signal() -> i32 {
    RUNNING_SIGNAL.signal()
}

/// True in a child that has a copy of a process which published sessions, until it publishes or withdraws one itself,
/// as our fork hook does. Whatever its process id is: in another namespace it may be the parent's. Signal-safe, as
/// [`running_signal`].
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
        if let Ok(page) = Mapping::zeroed_in_children(size_of::<GuardWords>()) {
            // Zeros, as the words that it replaces are. Release: they are there before anybody is led to them.
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
        // Acquire: partner of the release in `set`; the owner of a negative word is known before.
        let word = self.words().signal.load(Ordering::Acquire);
        if word >= 0 { word } else { self.signal_by_owner(-word) }
    }

    #[cold]
    fn signal_by_owner(&self, signal: i32) -> i32 {
        if self.owner.load(Ordering::Relaxed) == process::id_by_system_call() { signal } else { 0 }
    }

    #[inline]
    fn words(&self) -> &'static GuardWords {
        // Acquire: partner of the release in `move_to_wiped_page`.
        let words = self.words.load(Ordering::Acquire);
        // SAFETY: a static, or in a page that is never unmapped, for which zeros are words.
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
        // A child of the child, whose parent has a session.
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
    fn a_copy_finds_no_session_by_its_id_where_no_page_is_wiped() {
        static WORDS: GuardWords = GuardWords::new();
        expect_no_session_in_copies(&RunningSignal::in_ordinary_memory(&WORDS));
        assert_eq!(WORDS.signal.load(Ordering::Relaxed), 0);
    }
}
