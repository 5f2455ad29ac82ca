//! The host's own disposition of the profiling signal, while our handler stands in its place.
//!
//! The shared library interposes `sigaction` and `signal`: what the host sets for our signal is kept here, told
//! back to it, and served when a signal arrives that is not a tick of ours.
//!
//! Who writes: host threads, in any context (`sigaction` is async-signal-safe), one at a time, with all signals
//! blocked. Who reads: the handler, which never waits. There are two copies; a writer fills the one that is not in
//! use and then counts the version up, whose lowest bit names the copy in use. A reader that sees the version
//! unchanged behind its reads has a copy that nobody was writing.

use crate::{
    sync::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering},
    sys::signal::{self, Action},
};
use core::sync::atomic::fence;

/// The signal whose handler is ours, or 0.
static OWNED: AtomicI32 = AtomicI32::new(0);
static VERSION: AtomicUsize = AtomicUsize::new(0);
static COPIES: [Copy; 2] = [const { Copy::new() }; 2];
static WRITING: AtomicBool = AtomicBool::new(false);

struct Copy {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
    /// Whether the host ever set a handler of its own for the signal.
    had_handler: AtomicBool,
}

impl Copy {
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(libc_default()),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
            had_handler: AtomicBool::new(false),
        }
    }

    fn load(&self) -> (Action, bool) {
        let action = Action {
            handler: self.handler.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            mask: self.mask.load(Ordering::Relaxed),
        };
        (action, self.had_handler.load(Ordering::Relaxed))
    }

    fn store(&self, action: Action, had_handler: bool) {
        self.handler.store(action.handler, Ordering::Relaxed);
        self.flags.store(action.flags, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.had_handler.store(had_handler, Ordering::Relaxed);
    }
}

const fn libc_default() -> usize {
    Action::DEFAULT.handler
}

/// Our handler has been installed for `signal`, in place of `before`.
pub(crate) fn take_over(signal: i32, before: Action) {
    write(before, false);
    OWNED.store(signal, Ordering::Release);
}

/// The signal whose disposition is kept here, or 0. Signal-safe.
pub(crate) fn owned_signal() -> i32 {
    OWNED.load(Ordering::Acquire)
}

/// Gives the host's disposition, and sets it to `new` if there is one. Signal-safe: blocks all signals while it
/// writes, and a second writer spins for as long as the first takes to store four words.
pub(crate) fn exchange(new: Option<Action>) -> Action {
    let Some(new) = new else { return read().0 };
    let _blocked = signal::AllBlocked::new();
    lock();
    let (before, had_handler) = read();
    write_locked(new, had_handler || new.is_handler());
    WRITING.store(false, Ordering::Release);
    before
}

/// What a signal that is no tick of ours should come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The host has a handler, to be called.
    Handler(Action),
    /// The host had a handler and went back to the default action, which ends the process.
    Default,
    /// The host never cared: the signal is a tick for us.
    Tick,
}

/// How to serve a signal that is no tick of ours. Signal-safe.
pub(crate) fn service() -> Service {
    let (action, had_handler) = read();
    if action.is_handler() {
        Service::Handler(action)
    } else if had_handler && action.handler == Action::DEFAULT.handler {
        Service::Default
    } else {
        Service::Tick
    }
}

/// In a forked child: a writer of another thread does not exist here.
pub(crate) fn reset_after_fork() {
    WRITING.store(false, Ordering::Release);
}

fn write(action: Action, had_handler: bool) {
    let _blocked = signal::AllBlocked::new();
    lock();
    write_locked(action, had_handler);
    WRITING.store(false, Ordering::Release);
}

fn lock() {
    while WRITING.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
}

fn write_locked(action: Action, had_handler: bool) {
    let next = VERSION.load(Ordering::Relaxed).wrapping_add(1);
    if let Some(copy) = COPIES.get(next & 1) {
        // The copy was last in use two versions ago; a reader that still reads it will see the version changed,
        // because these stores come behind the version's last change (release fence, acquire fence in `read`).
        fence(Ordering::Release);
        copy.store(action, had_handler);
    }
    // Release: publishes the copy.
    VERSION.store(next, Ordering::Release);
}

fn read() -> (Action, bool) {
    loop {
        let version = VERSION.load(Ordering::Acquire);
        let Some(copy) = COPIES.get(version & 1) else { continue };
        let value = copy.load();
        // Acquire fence: the second look at the version stays behind the reads.
        fence(Ordering::Acquire);
        // Another round only when a writer finished meanwhile.
        if VERSION.load(Ordering::Relaxed) == version {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_whole_settings() {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for i in 2..20_000usize {
                    exchange(Some(Action { handler: i, flags: i as i32, mask: i as u64 }));
                }
            });
            while !writer.is_finished() {
                let action = exchange(None);
                assert!(
                    action.handler < 2
                        || action.flags as usize == action.handler && action.mask as usize == action.handler
                );
            }
        });
        assert_eq!(exchange(Some(Action::DEFAULT)).handler, 19_999);
        assert_eq!(service(), Service::Default, "the host had a handler and gave it up");
    }
}
