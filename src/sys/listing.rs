//! The loader's list of objects, and forks.
//!
//! Whoever lists the objects holds a lock of the loader's meanwhile, and glibc leaves that locked in the child of a fork
//! that comes at this moment: the child would wait for ever in its first `dlopen`, for a thread that it does not have. So
//! a fork waits for those who list, and who wants to list waits for a fork.
//!
//! | | who lists | who forks |
//! | --- | --- | --- |
//! | 1 | listing += 1 | forker = this thread |
//! | 2 | reads forker; if it is another thread, listing -= 1, waits, begins again | reads listing, until it is 0 |
//!
//! Both write before they read, sequentially consistent, so at least one sees the other. Neither waits for more than two
//! seconds: a hook of the host's may make one wait for the other, and a host may fork while the loader lists objects
//! for it, with that lock taken.

use super::{
    signal::AllBlocked,
    thread::{self, Backoff},
};
use crate::sync::{AtomicUsize, Ordering};

/// Threads that list.
static LISTING: AtomicUsize = AtomicUsize::new(0);

/// The thread that forks, or 0; there is one at a time.
static FORKER: AtomicUsize = AtomicUsize::new(0);

/// Lasts while the calling thread lists the loader's objects. No handler that forks can interrupt it.
pub(crate) struct Listing {
    #[expect(dead_code, reason = "held for its drop")]
    blocked: AllBlocked,
}

impl Listing {
    /// Waits for a fork that is going on. For ordinary context.
    pub(crate) fn begin() -> Self {
        let blocked = AllBlocked::new();
        let mut backoff = Backoff::bounded();
        let mut has_time = true;
        loop {
            LISTING.fetch_add(1, Ordering::SeqCst);
            let forker = FORKER.load(Ordering::SeqCst);
            // A hook of the host's may list on the thread that forks.
            if forker == 0 || forker == thread::pthread_self() || !has_time {
                return Self { blocked };
            }
            LISTING.fetch_sub(1, Ordering::SeqCst);
            has_time = backoff.wait();
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        LISTING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lets nobody list until [`resume_after_fork`], and waits for those who do. For a fork's first hook.
pub(crate) fn pause_for_fork() {
    FORKER.store(thread::pthread_self(), Ordering::SeqCst);
    let mut backoff = Backoff::bounded();
    while LISTING.load(Ordering::SeqCst) > 0 && backoff.wait() {}
}

/// The end of [`pause_for_fork`].
pub(crate) fn resume_after_fork() {
    FORKER.store(0, Ordering::SeqCst);
}

/// In a forked child: who listed does not exist here.
pub(crate) fn reset_after_fork() {
    LISTING.store(0, Ordering::SeqCst);
}
