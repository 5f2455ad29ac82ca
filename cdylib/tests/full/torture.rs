//! Torture: a program with two dozen threads does everything at once that harms profilers, while one of them sends the
//! profiling signal to all others thousands of times a second (`programs/torture/`). It checks all its own results, and is
//! watched from outside: each thread must get on (`soak/`).
//!
//! Each run takes some seconds here; `ci/soak.sh` makes it minutes.

use crate::soak::{Rig, Variant, check, watch};

#[track_caller]
fn torture(variant: &Variant) {
    let rig = Rig::new(variant.profiler);
    let outcome = watch(&rig, rig.start(variant));
    check(&rig, variant, &outcome);
}

/// Nobody profiles: the program's own checks hold.
#[test]
fn alone() {
    torture(&Variant::alone("alone"));
}

/// The program is profiled from its start to its end, by CPU time.
#[test]
fn preloaded() {
    torture(&Variant::preloaded("preloaded"));
}

/// The same at 4000 ticks a second.
#[test]
fn often() {
    torture(&Variant::preloaded("often").with("CPUPROFILE_FREQUENCY", "4000"));
}

/// By elapsed time, with the signal that goes with that.
#[test]
fn realtime() {
    torture(&Variant::preloaded("realtime").with("CPUPROFILE_REALTIME", "1").ordered("realtime"));
}

/// The address space is limited to little more than the program needs.
#[test]
fn limited() {
    torture(&Variant::preloaded("limited").limited_to(ADDRESS_SPACE_KIB));
}

/// All memory is locked, also what is mapped later.
#[test]
fn locked() {
    torture(&Variant::preloaded("locked").ordered("locked"));
}

/// Without a spool.
#[test]
fn without_spool() {
    torture(&Variant::preloaded("without_spool").with("CPUPROFILE_SPOOL", "off"));
}

/// The program has a handler of its own for the profiling signal, ignores it at times, and has others at others.
#[test]
fn with_handler() {
    torture(&Variant::preloaded("with_handler").with_handler());
}

/// A signal switches profiling on and off all the time.
#[test]
fn switched() {
    torture(&Variant::switched("switched"));
}

/// The program starts and stops the profiler all the time, and flushes.
#[test]
fn linked() {
    torture(&Variant::linked("linked"));
}

/// The address space of the program that may have little, in KiB: it needs about half of it for itself.
const ADDRESS_SPACE_KIB: u32 = 400_000;
