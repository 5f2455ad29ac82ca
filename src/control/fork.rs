//! Hooks before and after fork(2).
//!
//! The forking thread holds the control lock, so the child copies a consistent session. It blocks
//! all signals: before Linux 4.19 each tick restarted the kernel's copy of a large process,
//! endlessly at high frequencies. In the child, the marks of other threads' handlers and lock
//! waiters are cleared. A session of the environment continues in the child's own file; any other
//! stops. `vfork`, `_Fork` and raw `clone` run no hooks. Their children have no timer (fork(2));
//! exit hooks and ticks find another process than the session's (`sample/fork_guard.rs`).
//!
//! Hooks of the application run around or between these, by the order of registration:
//! ```text
//! registered   before      |  in parent and child
//! after ours   first       |                last     signals as before, without the lock
//! ours               then  |  fork  then
//! before ours        last  |  first                  signals blocked; the lock is lent to them
//! ```
//! These are registered when the shared library is loaded, after those of libraries that are
//! initialised earlier, or at the crate's first start. A hook may call the profiler, and then
//! borrows its thread's lock, or fork.
//!
//! # Safety
//! Keeps the lock's guard in a static between hooks of one thread; resets the lock in the child.
#![allow(unsafe_code)]

use super::{CONTROL, Control, Locked, frame_files, is_other_process, toggle};
use crate::{
    sample::{app_disposition, engine::Engine, recording, sampled_dsos, tick_source, unwind::objects},
    sync::{AtomicBool, AtomicUsize, Ordering},
    sys::{listing, process, thread},
};
use core::{cell::UnsafeCell, ptr};
use parking_lot::{MutexGuard, RawMutex, lock_api::RawMutex as _};

struct HeldLock(UnsafeCell<Option<Locked>>);

// SAFETY: only the thread that holds the lock accesses it.
unsafe impl Sync for HeldLock {}

static HELD: HeldLock = HeldLock(UnsafeCell::new(None));

/// The thread that stored the lock in [`HELD`], or 0.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// That thread's nested forks; guarded by the lock.
static INNER_FORKS: AtomicUsize = AtomicUsize::new(0);

/// Installs the hooks once. If that fails, forked children are not profiled.
pub(super) fn install_hooks() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if !INSTALLED.swap(true, Ordering::SeqCst) {
        let _ = process::at_fork(Some(before), Some(after_in_parent), Some(after_in_child));
    }
}

/// Returns the lock if this thread is in a fork: a hook of the application calls the profiler.
pub(super) fn borrow_lock() -> Option<MutexGuard<'static, Control>> {
    // Relaxed: only this thread can have stored its own ID.
    if FORKING.load(Ordering::Relaxed) != thread::pthread_self() {
        return None;
    }
    // SAFETY: this thread has the lock; its hooks, the only users, run one after another.
    let held = unsafe { &mut *HELD.0.get() };
    held.as_mut()?.control.take()
}

pub(super) fn return_lock(control: MutexGuard<'static, Control>) {
    // SAFETY: this thread has the lock.
    if let Some(held) = unsafe { &mut *HELD.0.get() } {
        held.control = Some(control);
    }
}

unsafe extern "C" fn before() {
    let mut locked = Locked::new();
    if locked.is_lent {
        INNER_FORKS.fetch_add(1, Ordering::Relaxed);
        return;
    }
    listing::pause_for_fork();
    // The child may be unable to read the queue, see `sampled_dsos::reset_after_fork`.
    locked.drain_sampled_dsos();
    // SAFETY: this thread has the lock.
    unsafe { *HELD.0.get() = Some(locked) };
    FORKING.store(thread::pthread_self(), Ordering::Relaxed);
}

unsafe extern "C" fn after_in_parent() {
    drop(end_of_fork());
}

unsafe extern "C" fn after_in_child() {
    // SAFETY: this thread, the child's only one, has had the lock since `before`.
    let held = unsafe { &mut *HELD.0.get() };
    if let Some(locked) = held {
        reinit_in_child(locked);
    }
    let Some(mut locked) = end_of_fork() else { return };
    // Rewritten, not unlocked: the child has none of the threads that parking_lot's global queue
    // may list. No thread queues for this lock (see `Locked::new`), so a new one is equal.
    if let Some(guard) = locked.control.take() {
        core::mem::forget(guard);
        // SAFETY: the guard is forgotten; no other thread exists.
        let raw = unsafe { CONTROL.raw() };
        // SAFETY: as above. A lock is atomics, which may be written through a shared reference.
        unsafe { ptr::from_ref(raw).cast_mut().write(RawMutex::INIT) };
    }
}

/// Takes the lock back; None if the thread is still in an outer fork.
fn end_of_fork() -> Option<Locked> {
    if INNER_FORKS.load(Ordering::Relaxed) > 0 {
        INNER_FORKS.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    FORKING.store(0, Ordering::Relaxed);
    listing::resume_after_fork();
    // SAFETY: this thread has had the lock since `before`.
    let held = unsafe { &mut *HELD.0.get() };
    held.take()
}

fn reinit_in_child(locked: &mut Locked) {
    let handlers_were_inside = Engine::get().is_some_and(|engine| {
        engine.clock_readers().reset_after_fork();
        engine.scratch().reset_after_fork()
    });
    sampled_dsos::reset_after_fork(handlers_were_inside);
    objects::reset_after_fork();
    frame_files::reset_after_fork();
    listing::reset_after_fork();
    app_disposition::reset_after_fork();
    tick_source::reset_after_fork();
    toggle::reset_after_fork();
    // A hook of the application may already have started a session here.
    if is_other_process() {
        recording::withdraw();
        if let Some(session) = locked.session.take() {
            locked.session = session.restart_in_child(process::id()).unwrap_or(None);
        }
    }
    locked.note_process();
}
