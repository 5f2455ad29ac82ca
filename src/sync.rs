//! Atomics: those of core, and the ones that loom replaces when its models run (`RUSTFLAGS="--cfg loom"`, see
//! `ci/loom.sh`).
//!
//! Statics need atomics that are plain words, which loom's are not. So the parts that are modelled (the table of
//! call chains, the rule cache, the gate against unloading, the snapshot of objects, the claim of scratch slots, handlers that ask the
//! kernel, the threads' timers, the threads' threads) take theirs from [`modelled`], all others from here.

pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// The atomics of lock-free parts that loom runs through all interleavings.
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
