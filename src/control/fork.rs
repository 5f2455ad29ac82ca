//! What a fork does to us.
//!
//! The forking thread holds the control lock across the fork, so the child finds a session that nobody was changing;
//! and it has every signal blocked: before Linux 4.19 a tick that came while the kernel copied a large process made it
//! begin again, for ever at a high rate. In the child only that thread exists: handlers and lock waiters of all others
//! are gone, and their marks are wiped. A session that the environment started goes on in a file of the child's
//! own; any other is off in the child. The parent's file is untouched: the child has no descriptor of it.
//!
//! Hooks of others run in a ring around ours, or between ours:
//!
//! ```text
//! registered    before      |  in parent and child
//! behind ours   first       |                last     with signals as they were, without the lock
//! ours              then    |  fork  then
//! before ours         last  |  first                  with signals blocked; the lock is lent to them
//! ```
//!
//! Ours are registered when the library is loaded; libraries that the program is linked with may come before that. If
//! a hook of theirs calls us, it has the lock that its own thread holds. It may fork itself, too.
//!
//! `vfork`, `_Fork` and raw `clone` run none of this. Their children have no timer (`fork(2)`), and an exit path
//! that finds another process id than the session's leaves the session alone; so does a tick that is sent to them
//! (`sample/fork_guard.rs`).
//!
//! # Safety
//! Keeps the lock's guard in a static from one hook to the next, on one thread; resets the lock in the child.
#![allow(unsafe_code)]

use super::{CONTROL, Control, Locked, frame_files, is_other_process, toggle};
use crate::{
    sample::{app_disposition, engine::Engine, recording, sampled_dsos, tick_source, unwind::objects},
    sync::{AtomicBool, AtomicUsize, Ordering},
    sys::{listing, process, thread},
};
use core::{cell::UnsafeCell, ptr};
use parking_lot::{MutexGuard, RawMutex, lock_api::RawMutex as _};

/// The lock while a fork is going on; guarded by the lock itself.
struct HeldLock(UnsafeCell<Option<Locked>>);

// SAFETY: only the thread that holds the lock touches it.
unsafe impl Sync for HeldLock {}

static HELD: HeldLock = HeldLock(UnsafeCell::new(None));

/// The thread that has put the lock into [`HELD`], or 0. A thread that finds itself here has the lock.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// How many forks that thread is in beside the outermost one; guarded by the lock.
static INNER_FORKS: AtomicUsize = AtomicUsize::new(0);

/// Installs the hooks, once. A system that has no memory for them leaves children of a fork unprofiled.
pub(super) fn install_hooks() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if !INSTALLED.swap(true, Ordering::SeqCst) {
        let _ = process::at_fork(Some(before), Some(after_in_parent), Some(after_in_child));
    }
}

/// The lock, for a thread that is in a fork: one of the host's hooks calls us.
pub(super) fn borrow_lock() -> Option<MutexGuard<'static, Control>> {
    // Relaxed: only this thread itself can have written what is looked for.
    if FORKING.load(Ordering::Relaxed) != thread::pthread_self() {
        return None;
    }
    // SAFETY: this thread has the lock, and uses it in one place at a time: hooks run one after another.
    let held = unsafe { &mut *HELD.0.get() };
    held.as_mut()?.control.take()
}

/// The end of a loan.
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
    // What waits could be out of reach in the child, see `sampled_dsos::reset_after_fork`.
    locked.drain_sampled_dsos();
    // SAFETY: the lock is ours.
    unsafe { *HELD.0.get() = Some(locked) };
    FORKING.store(thread::pthread_self(), Ordering::Relaxed);
}

unsafe extern "C" fn after_in_parent() {
    drop(end_of_fork());
}

unsafe extern "C" fn after_in_child() {
    // SAFETY: this thread has the lock since `before`; it is the only one here.
    let held = unsafe { &mut *HELD.0.get() };
    if let Some(locked) = held {
        reinit_in_child(locked);
    }
    let Some(mut locked) = end_of_fork() else { return };
    // Nobody queues for the lock (see `Locked::new`), so a fresh one is all it takes.
    if let Some(guard) = locked.control.take() {
        core::mem::forget(guard);
        // SAFETY: the guard is gone; no other thread exists.
        let raw = unsafe { CONTROL.raw() };
        // SAFETY: as above; a lock consists of atomics, which may be written through a shared place.
        unsafe { ptr::from_ref(raw).cast_mut().write(RawMutex::INIT) };
    }
}

/// What was kept since `before`; None where the thread is still in another fork.
fn end_of_fork() -> Option<Locked> {
    if INNER_FORKS.load(Ordering::Relaxed) > 0 {
        INNER_FORKS.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    FORKING.store(0, Ordering::Relaxed);
    listing::resume_after_fork();
    // SAFETY: this thread has the lock since `before`.
    let held = unsafe { &mut *HELD.0.get() };
    held.take()
}

/// Makes a copy of the parent a process of its own.
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
    // One of the host's hooks may have started a session here already.
    if is_other_process() {
        recording::withdraw();
        if let Some(session) = locked.session.take() {
            locked.session = session.restart_in_child(process::id()).unwrap_or(None);
        }
    }
    locked.note_process();
}
