//! A program with two dozen threads does everything at the same time that harms profilers, while
//! one of them sends the profiling signal to all others thousands of times a second
//! (`programs/torture/`). It checks its own results, and each thread is watched from outside
//! (`soak/`).
//!
//! Each run takes some seconds here, and minutes with `ci/soak.sh`.

use crate::soak::{Rig, Variant, check, watch};

#[track_caller]
fn torture(variant: &Variant) {
    let rig = Rig::new(variant.profiler);
    let outcome = watch(&rig, rig.start(variant));
    check(&rig, variant, &outcome);
}

/// Without a profiler: the program's own checks hold.
#[test]
fn alone() {
    torture(&Variant::alone("alone"));
}

/// The program is profiled from start to exit, by CPU time.
#[test]
fn preloaded() {
    torture(&Variant::preloaded("preloaded"));
}

/// At 4000 Hz.
#[test]
fn often() {
    torture(&Variant::preloaded("often").with("CPUPROFILE_FREQUENCY", "4000"));
}

/// By elapsed time, with SIGALRM.
#[test]
fn realtime() {
    torture(&Variant::preloaded("realtime").with("CPUPROFILE_REALTIME", "1").ordered("realtime"));
}

/// The address space limit is little more than the program needs.
#[test]
fn limited() {
    torture(&Variant::preloaded("limited").limited_to(ADDRESS_SPACE_KIB));
}

/// All memory is locked, also later mappings.
#[test]
fn locked() {
    torture(&Variant::preloaded("locked").ordered("locked"));
}

#[test]
fn without_spool() {
    torture(&Variant::preloaded("without_spool").with("CPUPROFILE_SPOOL", "off"));
}

/// The program handles the profiling signal, ignores it at times, and changes its handler.
#[test]
fn with_handler() {
    torture(&Variant::preloaded("with_handler").with_handler());
}

/// A signal toggles profiling continuously.
#[test]
fn switched() {
    torture(&Variant::switched("switched"));
}

/// The program starts, stops and flushes the profiler continuously.
#[test]
fn linked() {
    torture(&Variant::linked("linked"));
}

/// The address space limit, in KiB: the program needs about half of it.
const ADDRESS_SPACE_KIB: u32 = 400_000;
