//! Mutual exclusion of listing the loader's objects and fork(2). A listing thread holds a lock of
//! the loader, which a child forked then inherits locked: its first `dlopen` would wait forever.
//!
//! | | listing thread | forking thread |
//! | --- | --- | --- |
//! | 1 | listing += 1 | forker = this thread |
//! | 2 | reads forker; if another thread: listing -= 1, waits, repeats | reads listing, until 0 |
//!
//! Both write before they read, sequentially consistent: at least one sees the other. Each waits
//! for at most two seconds: the application's hooks may make one wait for the other, and it may
//! fork while it lists objects.

use super::{
    signal::AllBlocked,
    thread::{self, Backoff},
};
use crate::sync::{AtomicUsize, Ordering};

static LISTING: AtomicUsize = AtomicUsize::new(0);

/// The forking thread, or 0; there is one at a time.
static FORKER: AtomicUsize = AtomicUsize::new(0);

/// A guard for listing the loader's objects. It blocks signals, so that no handler can fork.
pub(crate) struct Listing {
    #[expect(dead_code, reason = "held for its drop")]
    blocked: AllBlocked,
}

impl Listing {
    /// Waits for a running fork. For ordinary context.
    pub(crate) fn begin() -> Self {
        let blocked = AllBlocked::new();
        let mut backoff = Backoff::bounded();
        let mut has_time = true;
        loop {
            LISTING.fetch_add(1, Ordering::SeqCst);
            let forker = FORKER.load(Ordering::SeqCst);
            // The application's fork hooks may list objects.
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

/// Blocks listing until [`resume_after_fork`], and waits for listing threads.
pub(crate) fn pause_for_fork() {
    FORKER.store(thread::pthread_self(), Ordering::SeqCst);
    let mut backoff = Backoff::bounded();
    while LISTING.load(Ordering::SeqCst) > 0 && backoff.wait() {}
}

pub(crate) fn resume_after_fork() {
    FORKER.store(0, Ordering::SeqCst);
}

/// Forgets listing threads, which do not exist in a forked child.
pub(crate) fn reset_after_fork() {
    LISTING.store(0, Ordering::SeqCst);
}
