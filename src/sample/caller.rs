//! What a handler asks the kernel about its thread, before it claims a scratch slot.
//!
//! To read a thread's CPU clock, the kernel updates how much of its time slice the thread has used. If the slice is over, another
//! thread runs at the end of the system call. With several threads per processor and some ticks per slice, most slices end
//! there. A handler that had a slot already would hold it until its thread runs again.
//!
//! A seccomp filter may kill the process for these calls. So handlers count themselves, and the application enters its sandbox
//! after the handlers that ask have left:
//!
//! | handler | thread that enters a sandbox |
//! | --- | --- |
//! | counts itself | forbids the calls |
//! | asks, unless it is forbidden | waits until each count has been zero |
//! | leaves the count | enters |

use super::{engine::Engine, thread_timers, timer_table::TickThread};
use crate::{
    sync::{
        AtomicBool, Ordering,
        modelled::{AtomicU32, fence},
    },
    sys::thread,
};

/// Counts of handlers that ask, each in a cache line of its own. A handler's stack chooses which.
const COUNTS: usize = if cfg!(loom) { 1 } else { 16 };

/// The process may have forbidden itself the calls.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// A handler's thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Its id, as the kernel has it.
    pub(super) thread: u32,
    /// [`TimerTable::generation`](super::timer_table::TimerTable::generation) when the clock was read; 0 if threads have no timers.
    pub(super) generation: u32,
    /// Its clock, as [`thread_timers::now`], for that session.
    pub(super) now: u64,
}

impl Caller {
    /// The calling thread; None if the process may be killed for asking. Signal-safe: `gettid`, `clock_gettime`, and atomics.
    pub(super) fn read(engine: &Engine, stack: usize) -> Option<Self> {
        engine.clock_readers().read(stack, are_forbidden, || {
            let generation = engine.threads().generation();
            let now = if generation == 0 { 0 } else { thread_timers::now() };
            Self { thread: thread::id(), generation, now }
        })
    }

    /// The thread for the table of threads. None if the session of the clock is over, or has no such table.
    pub(super) fn met(self, engine: &Engine) -> Option<TickThread> {
        let Self { thread, generation, now } = self;
        (generation != 0 && generation == engine.threads().generation()).then_some(TickThread {
            thread,
            generation,
            now,
        })
    }
}

/// The kernel is not asked any more, once [`ClockReaders::wait_until_done`]. For good.
pub(crate) fn forbid() {
    IS_FORBIDDEN.store(true, Ordering::SeqCst);
    // See the module: partner of the one in `ask`.
    fence(Ordering::SeqCst);
}

/// True if [`forbid`] was called.
pub(crate) fn are_forbidden() -> bool {
    IS_FORBIDDEN.load(Ordering::SeqCst)
}

#[repr(align(64))]
struct Count(AtomicU32);

/// The handlers that ask now.
pub(crate) struct ClockReaders([Count; COUNTS]);

impl ClockReaders {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| Count(AtomicU32::new(0))))
    }

    /// Calls `ask`, unless it `is_forbidden`, and returns what it returns. Not needed in a handler that holds a slot.
    pub(super) fn read<T>(
        &self,
        stack: usize,
        is_forbidden: impl Fn() -> bool,
        ask: impl FnOnce() -> T,
    ) -> Option<T> {
        // So that those who wait come to an end.
        if is_forbidden() {
            return None;
        }
        let Count(count) = self.0.get((stack >> 16 ^ stack >> 23) % COUNTS)?;
        count.fetch_add(1, Ordering::Relaxed);
        // See the module: partner of the one in `forbid`.
        fence(Ordering::SeqCst);
        let answer = (!is_forbidden()).then(ask);
        // Release: whoever finds the count at zero comes after the calls.
        count.fetch_sub(1, Ordering::Release);
        answer
    }

    /// Calls `wait` until the handlers that asked before [`forbid`] have left, or it returns false.
    pub(crate) fn wait_until_done(&self, mut wait: impl FnMut() -> bool) -> bool {
        self.0.iter().all(|Count(count)| {
            while count.load(Ordering::Acquire) != 0 {
                if !wait() {
                    return false;
                }
            }
            true
        })
    }

    /// In a forked child, which has no other threads.
    pub(crate) fn reset_after_fork(&self) {
        for Count(count) in &self.0 {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Fails without one of the two fences, or without the second look.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::{Arc, atomic::AtomicBool};

    #[test]
    fn loom_no_handler_asks_in_a_sandbox() {
        loom::model(|| {
            let state = Arc::new((ClockReaders::new(), AtomicBool::new(false), AtomicBool::new(false)));
            let handler = {
                let state = Arc::clone(&state);
                loom::thread::spawn(move || {
                    let (clock_readers, forbidden, sandbox) = &*state;
                    let ask = || assert!(!sandbox.load(Ordering::Relaxed), "asked in a sandbox");
                    clock_readers.read(0, || forbidden.load(Ordering::Relaxed), ask);
                })
            };
            let (clock_readers, forbidden, sandbox) = &*state;
            forbidden.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            assert!(clock_readers.wait_until_done(|| {
                loom::thread::yield_now();
                true
            }));
            sandbox.store(true, Ordering::Relaxed);
            handler.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_handler_that_is_asking_is_waited_for() {
        let clock_readers = ClockReaders::new();
        let has_left = |clock_readers: &ClockReaders| {
            let mut rounds = 0;
            clock_readers.wait_until_done(|| {
                rounds += 1;
                rounds < 3
            })
        };
        for stack in (0..64).map(|i| i << 16) {
            assert!(has_left(&clock_readers));
            assert_eq!(clock_readers.read(stack, || false, || has_left(&clock_readers)), Some(false));
            assert_eq!(clock_readers.read(stack, || true, || ()), None);
        }
        // A thread of the parent that was asking does not exist in a child.
        clock_readers.0[0].0.store(3, Ordering::Relaxed);
        assert!(!has_left(&clock_readers));
        clock_readers.reset_after_fork();
        assert!(has_left(&clock_readers));
    }
}
