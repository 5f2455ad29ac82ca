//! Stacks that the program asks for, walked as those of ticks are.
//!
//! # Safety
//! Hands the context that the program has on to where it is read.
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

/// Fills `result` with the stack of `context`, innermost PC first, and gives the number of PCs. Signal-safe once
/// [`prepare`](super::prepare) has run.
///
/// # Safety
/// * `context` is a valid `ucontext_t`.
pub unsafe fn stack_of_context(context: *const c_void, result: &mut [usize]) -> usize {
    // SAFETY: the caller's word.
    let registers = unsafe { signal::interrupted_registers(context) };
    with_chain(registers, |pcs| result.iter_mut().zip(pcs).map(|(place, pc)| *place = *pc).count())
}

/// Fills `result` with the stack of the function that this is inlined into, beginning with its caller, after
/// skipping `skip` frames; gives the number of PCs. Signal-safe once [`prepare`](super::prepare) has run.
#[inline(always)]
pub fn stack_from_here(skip: usize, result: &mut [usize]) -> usize {
    walk_skipping(Registers::here(), skip, result)
}

/// Walks from `registers`, and leaves out the innermost frame and `skip` more.
#[inline(never)]
fn walk_skipping(registers: Registers, skip: usize, result: &mut [usize]) -> usize {
    with_chain(registers, |pcs| {
        let pcs = pcs.iter().skip(skip.saturating_add(1));
        result.iter_mut().zip(pcs).map(|(place, pc)| *place = *pc).count()
    })
}

/// Calls `f` with the chain of `registers`, at most [`MAX_DEPTH`](crate::MAX_DEPTH) PCs; gives 0 where there is no slot to walk in.
///
/// Signals are blocked meanwhile: a handler of the host's that leaves by a jump would take the slot with it.
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
    // Handlers of other threads have all of them, and leave soon. Not for ever: a caller may be the handler that they wait for.
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
