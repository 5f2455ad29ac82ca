//! Hooks before `_exit` and `exec`.
//!
//! Both are legal in signal handlers and on nearly full stacks. Except [`prepare`], all is
//! therefore signal-safe: system calls and atomics on a separate stack. They wait at most 2 s for
//! the lock, because a thread that writes to a blocked device may hold it. Its owner blocks all
//! signals, so it is another thread, except in the application's fork hooks.
//!
//! The timer survives `exec`, the handler does not. So it stays disarmed during a call of `exec`:
//!
//! | thread | steps |
//! | --- | --- |
//! | calls `exec` | counts up, disarms, discards ticks, calls; on failure counts down, arms |
//! | arms | arms, reads the count, disarms if it is not zero |

use super::{Control, Locked, SESSION_PROCESS, Session, summary::Ended, ticks::silence_for_exec};
use crate::{
    sample::{fork_guard, tick_source, weight},
    sync::{AtomicU32, AtomicU64, Ordering},
    sys::{
        errno::ErrnoGuard,
        memory::{OwnedMapping, run_on_stack},
        process,
        signal::{self, AllBlocked},
        thread::Backoff,
    },
};
use once_cell::race::OnceBox;
use std::panic::{AssertUnwindSafe, catch_unwind};

const STACK_BYTES: usize = 256 << 10;

struct ExitStack {
    memory: OwnedMapping,
    /// The process of the thread that uses it, or 0. A forked child ignores its parent's.
    user: AtomicU32,
}

static STACK: OnceBox<ExitStack> = OnceBox::new();

/// Threads from [`pause_for_exec`] to [`resume_after_failed_exec`]; upper half: their process.
static PENDING_EXECS: AtomicU64 = AtomicU64::new(0);

/// Maps the stack. Not for signal context.
///
/// # Errors
/// The error number of `mmap(2)`.
pub(super) fn prepare() -> Result<(), i32> {
    let stack = || {
        Ok::<_, i32>(Box::new(ExitStack {
            memory: OwnedMapping::writable(STACK_BYTES)?,
            user: AtomicU32::new(0),
        }))
    };
    STACK.get_or_try_init(stack).map(|_| ())
}

/// Stops this process's session and passes it to `report`, if the lock is available in time. The
/// thread can no longer be cancelled.
pub(crate) fn finish_before_exit(report: impl FnOnce(&Ended)) {
    if is_this_process() {
        // A pending cancellation would replace the exit.
        signal::disable_cancellation();
        with_control(|control| {
            if let Ok((ended, ())) = control.stop_locked(|_, _| ()) {
                report(&ended);
            }
        });
    }
}

/// Pauses this process's session and writes its file if it has samples; false without a session. If
/// the call `will_fail`, writes nothing: the spool has the samples. No tick stays pending.
pub(crate) fn pause_for_exec(will_fail: bool) -> bool {
    // Nothing to wait for: many forked children call `exec`.
    if !is_this_process() {
        return false;
    }
    count(|threads| threads.saturating_add(1));
    let suspended = with_control(|control| {
        control.drain_sampled_dsos();
        let Some(session) = &mut control.session else { return false };
        session.suspend(will_fail, &control.sampled_dsos);
        true
    });
    let suspended = suspended.unwrap_or_else(|| {
        stop_without_control();
        true
    });
    if !suspended {
        count(|threads| threads.saturating_sub(1));
    }
    suspended
}

/// Stops the ticks without the lock. Not inlined: other paths need not reserve its stack.
#[cold]
#[inline(never)]
fn stop_without_control() {
    let _blocked = AllBlocked::new();
    silence_for_exec(weight::timer());
    // Of all senders: distinguishing them needs stack. `exec` discards real-time signals of timers.
    let signal = tick_source::signal_of(weight::timer());
    if !signal::is_real_time(signal) {
        signal::discard_all_pending(signal);
    }
}

/// Resumes a paused session, unless another thread is in a call of `exec`. Keeps `errno`.
pub(crate) fn resume_after_failed_exec() {
    let _errno = ErrnoGuard::new();
    if count(|threads| threads.saturating_sub(1)) == 0 && is_this_process() {
        with_control(|control| control.session.as_ref().map(Session::resume));
    }
}

pub(super) fn is_exec_pending() -> bool {
    threads_in(PENDING_EXECS.load(Ordering::SeqCst)) > 0
}

/// Changes and returns the number of this process's threads in calls of `exec`.
fn count(change: impl Fn(u32) -> u32) -> u32 {
    let mut seen = PENDING_EXECS.load(Ordering::SeqCst);
    loop {
        let threads = change(threads_in(seen));
        let next = u64::from(process::id()) << 32 | u64::from(threads);
        // SeqCst: pairs with the load after arming in `ticks::arm`: one sees the other's change.
        match PENDING_EXECS.compare_exchange_weak(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return threads,
            Err(other) => seen = other,
        }
    }
}

/// The lower half of `word` if the upper one is this process.
fn threads_in(word: u64) -> u32 {
    if word >> 32 == u64::from(process::id()) { word as u32 } else { 0 }
}

fn is_this_process() -> bool {
    SESSION_PROCESS.load(Ordering::SeqCst) == process::id() && !fork_guard::is_forked_copy()
}

/// Calls `f` with the lock on the prepared stack; None after 2 s. Not inlined: saves stack
/// elsewhere.
#[inline(never)]
fn with_control<R>(f: impl FnOnce(&mut Control) -> R) -> Option<R> {
    struct Call<F, R> {
        f: Option<F>,
        backoff: Backoff,
        result: Option<R>,
    }
    fn run<F: FnOnce(&mut Control) -> R, R>(call: &mut Call<F, R>) {
        let Some(f) = call.f.take() else { return };
        let Some(mut control) = Locked::lock_with_timeout(&mut call.backoff) else { return };
        // A panic, a defect of ours, must neither unwind off this stack nor abort the application.
        call.result = catch_unwind(AssertUnwindSafe(|| f(&mut control))).ok();
    }
    let stack = STACK.get()?;
    // Before the claim: a handler on this thread would wait for it in vain.
    let _blocked = AllBlocked::new();
    let mut backoff = Backoff::bounded();
    let claim = stack.claim(&mut backoff)?;
    let mut call = Call { f: Some(f), backoff, result: None };
    run_on_stack(&claim.0.memory, &mut call, run);
    call.result
}

struct StackClaim(&'static ExitStack);

impl ExitStack {
    fn claim(&'static self, backoff: &mut Backoff) -> Option<StackClaim> {
        let process = process::id();
        loop {
            let user = self.user.load(Ordering::Relaxed);
            // Acquire: pairs with the release in `drop`, after the last user's accesses.
            let exchange = || self.user.compare_exchange(user, process, Ordering::Acquire, Ordering::Relaxed);
            if user != process && exchange().is_ok() {
                return Some(StackClaim(self));
            }
            if !backoff.wait() {
                return None;
            }
        }
    }
}

impl Drop for StackClaim {
    fn drop(&mut self) {
        self.0.user.store(0, Ordering::Release);
    }
}
