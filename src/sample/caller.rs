//! Reads of the calling thread's ID and clock, before a handler claims a scratch slot. To read a
//! CPU clock, the kernel updates the thread's time slice, and switches threads if it is over. With
//! several threads per processor, most slices end there, and a slot would be held.
//!
//! A seccomp filter may kill the process for these calls. So handlers count themselves:
//!
//! | handler | thread that enters a sandbox |
//! | --- | --- |
//! | increments a count | forbids the calls |
//! | makes the calls, unless they are forbidden | waits until each count was zero |
//! | decrements the count | enters the sandbox |

use super::{engine::Engine, thread_timers, timer_table::TickThread};
use crate::{
    sync::{
        AtomicBool, Ordering,
        modelled::{AtomicU32, fence},
    },
    sys::thread,
};

/// Counts of handlers, each in its own cache line. The interrupted stack pointer selects one.
const COUNTS: usize = if cfg!(loom) { 1 } else { 16 };

static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) thread: u32,
    /// `TimerTable::generation`, or 0 without per-thread timers.
    pub(super) generation: u32,
    /// [`thread_timers::now`] in that session.
    pub(super) now: u64,
}

impl Caller {
    /// Reads the calling thread; None if that is forbidden. Signal-safe: `gettid`, `clock_gettime`.
    pub(super) fn read(engine: &Engine, stack: usize) -> Option<Self> {
        engine.clock_readers().read(stack, are_clock_reads_forbidden, || {
            let generation = engine.timers().generation();
            let now = if generation == 0 { 0 } else { thread_timers::now() };
            Self { thread: thread::id(), generation, now }
        })
    }

    /// Returns None if the clock's session is over, or has no per-thread timers.
    pub(super) fn tick_thread(self, engine: &Engine) -> Option<TickThread> {
        let Self { thread, generation, now } = self;
        (generation != 0 && generation == engine.timers().generation()).then_some(TickThread {
            thread,
            generation,
            now,
        })
    }
}

/// Forbids the calls for good. [`ClockReaders::wait_until_done`] waits for running ones.
pub(crate) fn forbid_clock_reads() {
    IS_FORBIDDEN.store(true, Ordering::SeqCst);
    // Pairs with the fence in `read` (see the module).
    fence(Ordering::SeqCst);
}

pub(crate) fn are_clock_reads_forbidden() -> bool {
    IS_FORBIDDEN.load(Ordering::SeqCst)
}

#[repr(align(64))]
struct Count(AtomicU32);

pub(crate) struct ClockReaders([Count; COUNTS]);

impl ClockReaders {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| Count(AtomicU32::new(0))))
    }

    /// Returns the result of `ask`; None if it `is_forbidden`. A slot's holder does not need this.
    pub(super) fn read<T>(
        &self,
        stack: usize,
        is_forbidden: impl Fn() -> bool,
        ask: impl FnOnce() -> T,
    ) -> Option<T> {
        // Makes `wait_until_done` end.
        if is_forbidden() {
            return None;
        }
        let Count(count) = self.0.get((stack >> 16 ^ stack >> 23) % COUNTS)?;
        count.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `forbid_clock_reads`.
        fence(Ordering::SeqCst);
        let answer = (!is_forbidden()).then(ask);
        // Release: pairs with the acquire in `wait_until_done`. A zero count comes after the calls.
        count.fetch_sub(1, Ordering::Release);
        answer
    }

    /// Calls `wait` until handlers from before [`forbid`] have left, or until it returns false.
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

/// Fails without either fence, or without the second check.
#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::{Arc, atomic::AtomicBool};

    #[test]
    fn loom_makes_no_calls_in_a_sandbox() {
        loom::model(|| {
            let state = Arc::new((ClockReaders::new(), AtomicBool::new(false), AtomicBool::new(false)));
            let handler = {
                let state = Arc::clone(&state);
                loom::thread::spawn(move || {
                    let (clock_readers, forbidden, sandbox) = &*state;
                    let ask = || assert!(!sandbox.load(Ordering::Relaxed), "read in a sandbox");
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
    fn waits_for_a_handler_that_makes_the_calls() {
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
        clock_readers.0[0].0.store(3, Ordering::Relaxed);
        assert!(!has_left(&clock_readers));
        clock_readers.reset_after_fork();
        assert!(has_left(&clock_readers));
    }
}
