//! What a fork does to us.
//!
//! The forking thread holds the control lock across the fork, with every signal blocked, so the child finds a
//! session that nobody was changing. In the child only that thread exists: handlers and lock waiters of all others
//! are gone, and their marks are wiped. A session that the environment started goes on in a file of the child's
//! own; any other is off in the child. The parent's file is untouched: nothing has been written to it yet.
//!
//! `vfork`, `_Fork` and raw `clone` run none of this. Their children have no timer (`fork(2)`), and an exit path
//! that finds another process id than the session's leaves the session alone.
//!
//! # Safety
//! Keeps the lock's guard in a static from one hook to the next, on one thread; resets the lock in the child.
#![allow(unsafe_code)]

use super::{CONTROL, Locked, frame_files, toggle};
use crate::{
    sample::{engine::Engine, host_action, recording, unwind::objects},
    sync::{AtomicBool, Ordering},
    sys::process,
};
use core::{cell::UnsafeCell, ptr};
use parking_lot::{RawMutex, lock_api::RawMutex as _};

/// The lock while a fork is going on; guarded by the lock itself.
struct Held(UnsafeCell<Option<Locked>>);

// SAFETY: only the thread that holds the lock touches it.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Installs the hooks, once. A system that has no memory for them leaves children of a fork unprofiled.
pub(super) fn install_hooks() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if !INSTALLED.swap(true, Ordering::SeqCst) {
        let _ = process::at_fork(Some(before), Some(after_in_parent), Some(after_in_child));
    }
}

unsafe extern "C" fn before() {
    let locked = Locked::new();
    // SAFETY: the lock is ours.
    unsafe { *HELD.0.get() = Some(locked) };
}

unsafe extern "C" fn after_in_parent() {
    // SAFETY: this thread has the lock since `before`.
    let held = unsafe { &mut *HELD.0.get() };
    drop(held.take());
}

unsafe extern "C" fn after_in_child() {
    // SAFETY: as above; it is the only thread here.
    let held = unsafe { &mut *HELD.0.get() };
    let Some(mut locked) = held.take() else { return };
    if let Some(engine) = Engine::get() {
        engine.scratch().release_all();
    }
    objects::reset_after_fork();
    frame_files::reset_after_fork();
    host_action::reset_after_fork();
    recording::withdraw();
    if let Some(session) = locked.session.take() {
        locked.session = session.restart_in_child(process::id()).unwrap_or(None);
    }
    toggle::reset_after_fork();
    // Nobody queues for the lock (see `Locked::new`), so a fresh one is all it takes.
    if let Some(guard) = locked.control.take() {
        guard.note_process();
        core::mem::forget(guard);
        // SAFETY: the guard is gone; no other thread exists.
        let raw = unsafe { CONTROL.raw() };
        // SAFETY: as above; a lock consists of atomics, which may be written through a shared place.
        unsafe { ptr::from_ref(raw).cast_mut().write(RawMutex::INIT) };
    }
}
