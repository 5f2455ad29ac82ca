//! ANY CONTEXT: the process is about to end without a further word (`_exit`), or to replace its program (`exec`).
//!
//! Both are legal in signal handlers, so nothing here allocates. They come on any stack, even one that has room for
//! little more than the signal; so the work is done on a stack of ours. They may come while another thread has the lock
//! for long, writing to a device that does not answer; so they wait for it for two seconds and then go on without: the
//! host is on its way out. The lock's owner has all signals blocked, so it is never the thread that they interrupted;
//! only a fork hook of the host's that runs beside ours can be.
//!
//! The timer survives `exec`, and our handler does not. So it is disarmed before, and nobody arms it again while any
//! thread may still be on its way into another program: each counts itself in before it disarms, and whoever arms looks
//! at the count behind that.
//!
//! | thread | does in turn |
//! | --- | --- |
//! | one that replaces the program | counts up, disarms, takes back a pending tick, calls `exec`; if that fails, counts down, arms |
//! | one that arms | arms, looks at the count, disarms if it is not zero |

use super::{Control, Locked, SESSION_PROCESS, Session, summary::Ended, ticks::silence_for_exec};
use crate::{
    sample::{fork_guard, tick_source, weight},
    sync::{AtomicU32, AtomicU64, Ordering},
    sys::{
        errno::ErrnoGuard,
        memory::{Mapping, run_on_stack},
        process,
        signal::{self, AllBlocked},
        thread::Backoff,
    },
};
use once_cell::race::OnceBox;
use std::panic::{AssertUnwindSafe, catch_unwind};

const STACK_BYTES: usize = 256 << 10;

/// The stack that all of this runs on, and who does.
struct ExitStack {
    memory: Mapping,
    /// The process one of whose threads is on it, or 0. In a forked child another's claim is void.
    user: AtomicU32,
}

static STACK: OnceBox<ExitStack> = OnceBox::new();

/// Threads between [`suspend`] and [`resume`]: their number, and in the upper half their process, as above.
static PENDING_EXECS: AtomicU64 = AtomicU64::new(0);

/// Maps the stack. Not for signal context.
///
/// # Errors
/// The error number of `mmap(2)`.
pub(super) fn prepare() -> Result<(), i32> {
    let stack = || {
        Ok::<_, i32>(Box::new(ExitStack { memory: Mapping::writable(STACK_BYTES)?, user: AtomicU32::new(0) }))
    };
    STACK.get_or_try_init(stack).map(|_| ())
}

/// Stops this process's session, if it has one, and shows it to `report`. Without effect where the lock is not to be
/// had. The calling thread, which is about to end the process, is not cancelled any more. Signal-safe.
pub(crate) fn finish_before_exit(report: impl FnOnce(&Ended)) {
    if is_this_process() {
        // Meanwhile it may have been asked to: the program would go on.
        signal::disable_cancellation();
        with_control(|control| {
            if let Ok((ended, ())) = control.stop_locked(|_, _| ()) {
                report(&ended);
            }
        });
    }
}

/// Ends the ticks of this process's session for a while, and writes its file if it has samples; true if there was one.
/// Nothing is written for a call that `will_fail`; the spool has all, should it succeed after all. No tick is pending for this thread or the process afterwards. Signal-safe.
pub(crate) fn pause_for_exec(will_fail: bool) -> bool {
    // Without a session there is nothing to wait for: children of a fork come here on their way to another program.
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

/// Ends the ticks where somebody is writing, and does not come to an end: the new program must not be harmed. Not inlined: on
/// the way to any other end this stack is not needed.
#[cold]
#[inline(never)]
fn stop_without_control() {
    let _blocked = AllBlocked::new();
    silence_for_exec(weight::timer());
    // Whosever they are: to tell would take more stack than there may be here. Of real-time ones the kernel spares the new program
    // those of timers.
    let signal = tick_source::signal_of(weight::timer());
    if !signal::is_real_time(signal) {
        signal::discard_all_pending(signal);
    }
}

/// Lets the session's ticks come again, unless another thread still replaces the program. For whoever was told `true`
/// by [`suspend`]. Keeps `errno`. Signal-safe.
pub(crate) fn resume_after_failed_exec() {
    let _errno = ErrnoGuard::new();
    if count(|threads| threads.saturating_sub(1)) == 0 && is_this_process() {
        with_control(|control| control.session.as_ref().map(Session::resume));
    }
}

/// True while a thread of this process may be on its way into another program: the timer must stay silent.
pub(super) fn is_exec_pending() -> bool {
    threads_in(PENDING_EXECS.load(Ordering::SeqCst)) > 0
}

/// Changes the number of this process's threads that replace the program, and gives the new one.
fn count(change: impl Fn(u32) -> u32) -> u32 {
    let mut seen = PENDING_EXECS.load(Ordering::SeqCst);
    loop {
        let threads = change(threads_in(seen));
        let next = u64::from(process::id()) << 32 | u64::from(threads);
        // Sequentially consistent, as the look behind an arming: one of the two sees the other.
        match PENDING_EXECS.compare_exchange_weak(seen, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return threads,
            Err(other) => seen = other,
        }
    }
}

/// The lower half of `word`, if the upper one is this process.
fn threads_in(word: u64) -> u32 {
    if word >> 32 == u64::from(process::id()) { word as u32 } else { 0 }
}

/// True in the session's own process.
fn is_this_process() -> bool {
    SESSION_PROCESS.load(Ordering::SeqCst) == process::id() && !fork_guard::is_forked_copy()
}

/// Calls `f` with the lock, on the prepared stack; None where these are not to be had in time. Not inlined: what is done then
/// has this stack for itself.
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
        // A panic, which would be a defect of ours, must neither unwind off this stack nor end the host.
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

/// The stack, in this thread's hands.
struct StackClaim(&'static ExitStack);

impl ExitStack {
    fn claim(&'static self, backoff: &mut Backoff) -> Option<StackClaim> {
        let process = process::id();
        loop {
            let user = self.user.load(Ordering::Relaxed);
            // Acquire: pairs with the release in `drop`, so what the last user left on the stack is not mixed with ours.
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
