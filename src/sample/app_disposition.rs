//! The application's disposition of a profiling signal, while the profiler's handler is installed.
//! The shared library interposes `sigaction` and `signal`: the disposition is stored and returned
//! here, and applied to signals that are not ticks. Signal-safe: atomics and system calls.
//!
//! Writers (`sigaction` is async-signal-safe) hold a lock and block all signals. The handler reads,
//! and never waits: a writer fills the copy that is not in use, and then increments the version,
//! the lowest bit of which selects the copy. A read is valid if the version is unchanged after it.

use super::handler;
use crate::{
    sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sys::{
        process,
        signal::{self, Disposition},
        thread::Backoff,
        timer::IntervalTimer,
    },
};
use core::sync::atomic::fence;

pub(crate) struct AppDisposition {
    /// The process that has the profiler's handler, or 0. A child of `vfork` is another process.
    owner: AtomicU32,
    version: AtomicUsize,
    copies: [Copy; 2],
    writing: AtomicBool,
}

static CPU_TIMER_SIGNAL: AppDisposition = AppDisposition::new();
static REAL_TIMER_SIGNAL: AppDisposition = AppDisposition::new();
static CHOSEN_SIGNAL: AppDisposition = AppDisposition::new();
/// The signal of ticks instead of a timer's own, or 0. It is set once.
static CHOSEN: AtomicI32 = AtomicI32::new(0);

/// The signals that ticks can have; 0 for none.
pub(crate) fn signals() -> [i32; 3] {
    [IntervalTimer::Cpu.signal(), IntervalTimer::Real.signal(), CHOSEN.load(Ordering::Acquire)]
}

/// Sets the signal of ticks; false if there is another one.
pub(crate) fn choose_signal(signal: i32) -> bool {
    match CHOSEN.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(present) => present == signal,
    }
}

struct Copy {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
    /// Whether the application has ever set a handler.
    had_handler: AtomicBool,
}

impl Copy {
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(Disposition::DEFAULT.handler),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
            had_handler: AtomicBool::new(false),
        }
    }

    fn load(&self) -> (Disposition, bool) {
        let action = Disposition {
            handler: self.handler.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            mask: self.mask.load(Ordering::Relaxed),
        };
        (action, self.had_handler.load(Ordering::Relaxed))
    }

    fn store(&self, action: Disposition, had_handler: bool) {
        self.handler.store(action.handler, Ordering::Relaxed);
        self.flags.store(action.flags, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.had_handler.store(had_handler, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    Handler(Disposition),
    /// The application reset its handler to the default action, which kills the process.
    Default,
    /// The application has no handler, and did not reset one: the signal is a tick.
    Tick,
}

impl AppDisposition {
    const fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            version: AtomicUsize::new(0),
            copies: [const { Copy::new() }; 2],
            writing: AtomicBool::new(false),
        }
    }

    /// None if it is not one of [`signals`].
    pub(crate) fn of(number: i32) -> Option<&'static Self> {
        if number == IntervalTimer::Cpu.signal() {
            Some(&CPU_TIMER_SIGNAL)
        } else if number == IntervalTimer::Real.signal() {
            Some(&REAL_TIMER_SIGNAL)
        } else if number != 0 && number == CHOSEN.load(Ordering::Acquire) {
            Some(&CHOSEN_SIGNAL)
        } else {
            None
        }
    }

    /// Called before the profiler's handler is installed.
    pub(crate) fn replace(&self, before: Disposition) {
        self.write(before, |_| false);
        self.owner.store(process::id(), Ordering::Release);
    }

    /// Called if the handler could not be installed.
    pub(crate) fn restore(&self) {
        self.owner.store(0, Ordering::Release);
    }

    /// True if this process has the profiler's handler.
    pub(crate) fn is_replaced(&self) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        owner != 0 && owner == process::id()
    }

    /// Returns the disposition, and sets it to `new`. A second writer waits for four stores.
    pub(crate) fn exchange(&self, new: Option<Disposition>) -> Disposition {
        match new {
            Some(new) => self.write(new, |had_handler| had_handler || new.is_handler()),
            None => self.read().0,
        }
    }

    pub(crate) fn forward(&self) -> Forward {
        let (action, had_handler) = self.read();
        if action.is_handler() {
            Forward::Handler(action)
        } else if had_handler && action.handler == Disposition::DEFAULT.handler {
            Forward::Default
        } else {
            Forward::Tick
        }
    }

    pub(crate) fn has_had_handler(&self) -> bool {
        self.read().1
    }

    pub(crate) fn is_ignored(&self) -> bool {
        self.read().0.handler == Disposition::IGNORED
    }

    fn write(&self, action: Disposition, had_handler: impl FnOnce(bool) -> bool) -> Disposition {
        let _blocked = signal::AllBlocked::new();
        self.lock();
        let (before, had_before) = self.read();
        let next = self.version.load(Ordering::Relaxed).wrapping_add(1);
        if let Some(copy) = self.copies.get(next & 1) {
            // A reader of this copy, last used two versions ago, sees another version: these stores
            // come after its last change (release fence, acquire fence in `read`).
            fence(Ordering::Release);
            copy.store(action, had_handler(had_before));
        }
        // Release: pairs with the acquire in `read`, for the copy.
        self.version.store(next, Ordering::Release);
        self.writing.store(false, Ordering::Release);
        before
    }

    fn lock(&self) {
        let mut backoff = Backoff::unbounded();
        while self.writing.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            backoff.wait();
        }
    }

    fn read(&self) -> (Disposition, bool) {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let Some(copy) = self.copies.get(version & 1) else { continue };
            let value = copy.load();
            // Acquire: the second load of the version stays after the reads.
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return value;
            }
        }
    }
}

/// Makes the kernel ignore signals that the application ignores: an exec keeps that, but resets
/// handlers. True if there are any. In a child of `vfork`, only the child changes.
#[inline(never)] // The stack may be small: callees use it in turn.
pub(crate) fn ignore_across_exec() -> bool {
    let mut has_changed = false;
    for number in signals() {
        let is_ignored = |app: &AppDisposition| app.owner.load(Ordering::Acquire) != 0 && app.is_ignored();
        // The child may have set another disposition.
        let is_handled = || signal::disposition(number).is_ok_and(|present| present.is_handler());
        if AppDisposition::of(number).is_some_and(is_ignored) && is_handled() {
            signal::ignore(number);
            has_changed = true;
        }
    }
    has_changed
}

/// Restores the handler after a failed exec.
#[inline(never)] // The stack may be small: callees use it in turn.
pub(crate) fn handle_after_failed_exec() {
    for number in signals() {
        let is_ours = |app: &AppDisposition| app.owner.load(Ordering::Acquire) != 0 && app.is_ignored();
        if AppDisposition::of(number).is_some_and(is_ours) {
            let _ = handler::install(number);
        }
    }
}

/// In a forked child, which has the handler, and no other thread that writes.
pub(crate) fn reset_after_fork() {
    for app in [&CPU_TIMER_SIGNAL, &REAL_TIMER_SIGNAL, &CHOSEN_SIGNAL] {
        app.writing.store(false, Ordering::Release);
        if app.owner.load(Ordering::Acquire) != 0 {
            app.owner.store(process::id(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_complete_dispositions() {
        const LAST: usize = if cfg!(miri) { 20 } else { 19_999 };
        let app = AppDisposition::new();
        std::thread::scope(|scope| {
            let app = &app;
            let writer = scope.spawn(move || {
                for i in 2..=LAST {
                    app.exchange(Some(Disposition { handler: i, flags: i as i32, mask: i as u64 }));
                }
            });
            while !writer.is_finished() {
                let action = app.exchange(None);
                assert!(
                    action.handler < 2
                        || action.flags as usize == action.handler && action.mask as usize == action.handler
                );
            }
        });
        assert_eq!(app.exchange(Some(Disposition::DEFAULT)).handler, LAST);
        assert_eq!(app.forward(), Forward::Default, "the application had a handler and removed it");
    }
}
