//! Atomics of core, or of loom when its models run (`RUSTFLAGS="--cfg loom"`, see `ci/loom.sh`).
//!
//! Statics need core's atomics, which are plain words. The parts that loom models use [`modelled`]:
//! the sample table, the rule cache, the gate against unloading, the snapshot of objects, scratch
//! slots, handlers that call the kernel, the per-thread timers, the thread table, lazy commit and
//! toggle requests.

pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// Atomics of the lock-free parts, which loom runs through all interleavings.
pub(crate) mod modelled {
    #[cfg(not(loom))]
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    #[cfg(loom)]
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
}
