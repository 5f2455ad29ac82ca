//! The host's own disposition of a profiling signal, while our handler stands in its place.
//!
//! The shared library interposes `sigaction` and `signal`: what the host sets for our signal is kept here, told
//! back to it, and served when a signal arrives that is not a tick of ours.
//!
//! Who writes: host threads, in any context (`sigaction` is async-signal-safe), one at a time, with all signals
//! blocked. Who reads: the handler, which never waits. There are two copies; a writer fills the one that is not in
//! use and then counts the version up, whose lowest bit names the copy in use. A reader that sees the version
//! unchanged behind its reads has a copy that nobody was writing.

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

/// What the host set for one signal.
pub(crate) struct AppDisposition {
    /// The process whose handler is ours, or 0. A child that shares our memory (`vfork`) is another.
    owner: AtomicU32,
    version: AtomicUsize,
    copies: [Copy; 2],
    writing: AtomicBool,
}

static CPU_TIMER_SIGNAL: AppDisposition = AppDisposition::new();
static REAL_TIMER_SIGNAL: AppDisposition = AppDisposition::new();
/// Of [`CHOSEN`].
static CHOSEN_SIGNAL: AppDisposition = AppDisposition::new();
/// The signal that ticks have had in the place of a timer's own, or 0; once there is one it stays.
static CHOSEN: AtomicI32 = AtomicI32::new(0);

/// The signals that ticks can have: those of the timers, and the other one, or 0. Signal-safe.
pub(crate) fn signals() -> [i32; 3] {
    [IntervalTimer::Cpu.signal(), IntervalTimer::Real.signal(), CHOSEN.load(Ordering::Acquire)]
}

/// Makes a place for ticks that are `signal`; false where another one has it. Signal-safe.
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
    /// Whether the host ever set a handler of its own for the signal.
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

/// What a signal that is no tick of ours should come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    /// The host has a handler, to be called.
    Handler(Disposition),
    /// The host had a handler and went back to the default action, which ends the process.
    Default,
    /// The host never cared: the signal is a tick for us.
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

    /// The place for one of [`signals`]; None for any other. Signal-safe.
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

    /// Our handler is about to be installed, in place of `before`.
    pub(crate) fn replace(&self, before: Disposition) {
        self.write(before, |_| false);
        self.owner.store(process::id(), Ordering::Release);
    }

    /// Our handler could not be installed: what the host sets is in the kernel's hands as before.
    pub(crate) fn restore(&self) {
        self.owner.store(0, Ordering::Release);
    }

    /// True when this process's handler is ours. Signal-safe.
    pub(crate) fn is_replaced(&self) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        owner != 0 && owner == process::id()
    }

    /// Gives the host's disposition, and sets it to `new` if there is one. Signal-safe: blocks all signals while it
    /// writes, and a second writer waits for as long as the first takes to store four words.
    pub(crate) fn exchange(&self, new: Option<Disposition>) -> Disposition {
        match new {
            Some(new) => self.write(new, |had_handler| had_handler || new.is_handler()),
            None => self.read().0,
        }
    }

    /// How to serve a signal that is no tick of ours. Signal-safe.
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

    /// True once the host has set a handler of its own. Signal-safe.
    pub(crate) fn has_had_handler(&self) -> bool {
        self.read().1
    }

    /// True while the host ignores the signal. Signal-safe.
    pub(crate) fn is_ignored(&self) -> bool {
        self.read().0.handler == Disposition::IGNORED
    }

    fn write(&self, action: Disposition, had_handler: impl FnOnce(bool) -> bool) -> Disposition {
        let _blocked = signal::AllBlocked::new();
        self.lock();
        let (before, had_before) = self.read();
        let next = self.version.load(Ordering::Relaxed).wrapping_add(1);
        if let Some(copy) = self.copies.get(next & 1) {
            // The copy was last in use two versions ago; a reader that still reads it will see the version changed,
            // because these stores come behind the version's last change (release fence, acquire fence in `read`).
            fence(Ordering::Release);
            copy.store(action, had_handler(had_before));
        }
        // Release: publishes the copy.
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
            // Acquire fence: the second look at the version stays behind the reads.
            fence(Ordering::Acquire);
            // Another round only when a writer finished meanwhile.
            if self.version.load(Ordering::Relaxed) == version {
                return value;
            }
        }
    }
}

/// Lets the kernel ignore those of our signals that the host ignores, since the next program inherits that, and a handler
/// would become the default action; true if there are any. In a child of `vfork` the change is its own. Signal-safe.
#[inline(never)] // The stack may be small: it is for one thing after another.
pub(crate) fn ignore_across_exec() -> bool {
    let mut has_changed = false;
    for number in signals() {
        let is_ignored = |host: &AppDisposition| host.owner.load(Ordering::Acquire) != 0 && host.is_ignored();
        // The child may have chosen something else for itself.
        let is_handled = || signal::disposition(number).is_ok_and(|present| present.is_handler());
        if AppDisposition::of(number).is_some_and(is_ignored) && is_handled() {
            signal::ignore(number);
            has_changed = true;
        }
    }
    has_changed
}

/// Puts our handler back, since the program was not replaced. Signal-safe.
#[inline(never)] // The stack may be small: it is for one thing after another.
pub(crate) fn handle_after_failed_exec() {
    for number in signals() {
        let is_ours = |host: &AppDisposition| host.owner.load(Ordering::Acquire) != 0 && host.is_ignored();
        if AppDisposition::of(number).is_some_and(is_ours) {
            let _ = handler::install(number);
        }
    }
}

/// In a forked child, whose handler is ours as the parent's is: a writer of another thread does not exist here.
pub(crate) fn reset_after_fork() {
    for host in [&CPU_TIMER_SIGNAL, &REAL_TIMER_SIGNAL, &CHOSEN_SIGNAL] {
        host.writing.store(false, Ordering::Release);
        if host.owner.load(Ordering::Acquire) != 0 {
            host.owner.store(process::id(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_whole_settings() {
        const LAST: usize = if cfg!(miri) { 20 } else { 19_999 };
        let host = AppDisposition::new();
        std::thread::scope(|scope| {
            let host = &host;
            let writer = scope.spawn(move || {
                for i in 2..=LAST {
                    host.exchange(Some(Disposition { handler: i, flags: i as i32, mask: i as u64 }));
                }
            });
            while !writer.is_finished() {
                let action = host.exchange(None);
                assert!(
                    action.handler < 2
                        || action.flags as usize == action.handler && action.mask as usize == action.handler
                );
            }
        });
        assert_eq!(host.exchange(Some(Disposition::DEFAULT)).handler, LAST);
        assert_eq!(host.forward(), Forward::Default, "the host had a handler and gave it up");
    }
}
