//! Call stacks that the program requests. Signal-safe after [`prepare`](super::prepare), as a tick.
//!
//! # Safety
//! Reads the program's context.
#![allow(unsafe_code)]

use crate::{
    sample::{
        engine::Engine,
        scratch::HeldSlot,
        unwind::{self, PcForm, last_walk::LastWalk},
    },
    sys::{
        arch::Registers,
        signal::{self, AllBlocked},
    },
};
use core::ffi::c_void;

/// Fills `result` with the PCs of `context`, innermost first, and returns their number.
///
/// # Safety
/// * `context` is a valid `ucontext_t`.
pub unsafe fn stack_of_context(context: *const c_void, result: &mut [usize]) -> usize {
    // SAFETY: `context` is valid, guaranteed by the caller.
    let registers = unsafe { signal::interrupted_registers(context) };
    with_chain(registers, |pcs| result.iter_mut().zip(pcs).map(|(place, pc)| *place = *pc).count())
}

/// Fills `result` with the PCs of the callers of the function that this is inlined into, without
/// the innermost `skip`. Returns their number.
#[inline(always)]
pub fn stack_from_here(skip: usize, result: &mut [usize]) -> usize {
    walk_skipping(Registers::here(), skip, result)
}

/// Skips the innermost frame and `skip` others.
#[inline(never)]
fn walk_skipping(registers: Registers, skip: usize, result: &mut [usize]) -> usize {
    with_chain(registers, |pcs| {
        let pcs = pcs.iter().skip(skip.saturating_add(1));
        result.iter_mut().zip(pcs).map(|(place, pc)| *place = *pc).count()
    })
}

/// Calls `f` with at most [`MAX_DEPTH`](crate::MAX_DEPTH) PCs; returns 0 without a free slot.
/// Signals are blocked: a handler that leaves by `longjmp` would keep the slot.
fn with_chain(registers: Registers, f: impl FnOnce(&[usize]) -> usize) -> usize {
    struct Walk<'w> {
        engine: &'static Engine,
        held: HeldSlot<'w>,
        registers: Registers,
        chain: &'w mut [usize],
        last_walk: &'w mut LastWalk,
        depth: usize,
    }
    fn run(walk: &mut Walk<'_>) {
        let slot = walk.held.slot();
        walk.depth =
            unwind::walk(walk.engine, slot, walk.registers, 0, PcForm::Exact, walk.chain, walk.last_walk).0;
    }
    let Some(engine) = Engine::get() else { return 0 };
    let _blocked = AllBlocked::new();
    // Other threads' handlers return soon. The wait is bounded: they may wait for this thread.
    const TRIES: usize = 200;
    let claim = (0..TRIES).find_map(|i| {
        if i > 0 {
            std::thread::yield_now();
        }
        engine.scratch().claim(registers.sp())
    });
    let Some(mut claim) = claim else { return 0 };
    let (held, chain, last_walk) = claim.parts();
    let mut walk = Walk { engine, held, registers, chain, last_walk, depth: 0 };
    held.slot().run_on_stack(&mut walk, run);
    let Walk { chain, depth, .. } = walk;
    f(chain.get(..depth).unwrap_or_default())
}
