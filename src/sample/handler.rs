//! The handler of the profiling signal: one tick, from the interrupted context to the table.
//!
//! # Safety
//! Reads the two structures that the kernel gives to a signal handler, and calls the host's own handler and filter,
//! which the host vouches for.
#![allow(unsafe_code)]

use super::{
    counters::Counter,
    engine::Engine,
    host_action::{self, Service},
    recording::{self, Recording},
    scratch::Held,
    unwind::{self, End, PcForm},
    weight,
};
use crate::{
    sync::{AtomicI32, AtomicU64, Ordering},
    sys::{
        arch::{Registers, is_user_address},
        errno::ErrnoGuard,
        signal::{self, Action, Context, SignalInfo},
    },
};

/// Weight of the ticks that found all scratch slots taken, since the process began.
pub(crate) static LOST_WITHOUT_SLOT: AtomicU64 = AtomicU64::new(0);

/// Ticks recorded since the process began, wrapping: a figure for users to watch, read through its address
/// (`ProfilerGetCurrentState`).
pub(crate) static LIVE_TICKS: AtomicI32 = AtomicI32::new(0);

/// Runs for each profiling signal of the process, on whichever thread it interrupts.
pub(crate) extern "C" fn on_signal(number: i32, info: *mut SignalInfo, context: *mut Context) {
    let _errno = ErrnoGuard::new();
    // SAFETY: the kernel passes a valid structure to a handler installed with SA_SIGINFO.
    let from_timer = unsafe { signal::is_from_interval_timer(info) };
    if !from_timer {
        match host_action::service() {
            Service::Tick => {}
            Service::Handler(action) => return serve_host(action, number, info, context),
            // SAFETY: the host had a handler and then asked for the default action.
            Service::Default => return unsafe { signal::run_default_action(number) },
        }
    }
    if !recording::is_running() {
        return;
    }
    // A timer's tick consumes time even when it is not recorded.
    let weight = if from_timer { weight::consume() } else { 1 };
    let Some(engine) = Engine::get() else { return };
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { signal::interrupted_registers(context) };
    match engine.scratch().claim(registers.sp()) {
        Some(mut claim) => {
            let (held, chain) = claim.parts();
            tick(engine, held, chain, registers, &Tick { weight, from_timer });
        }
        None => {
            LOST_WITHOUT_SLOT.fetch_add(weight as u64, Ordering::Relaxed);
        }
    }
}

struct Tick {
    weight: usize,
    from_timer: bool,
}

fn tick(engine: &Engine, held: Held<'_>, chain: &mut [usize], registers: Registers, tick: &Tick) {
    let slot = held.slot();
    // Behind the claim: a recording found now stays until the slot is released.
    let Some(recording) = recording::running(held) else { return };
    if tick.weight == 0 {
        slot.count(Counter::Early);
        return;
    }
    let pc = registers.pc();
    if !is_user_address(pc) {
        slot.count(Counter::NoPc);
        return;
    }
    if recording.excludes(pc) {
        slot.count(Counter::Excluded);
        return;
    }
    if let Some(filter) = recording.filter {
        // SAFETY: who started the session vouches for the function and its argument.
        if !unsafe { filter.accepts() } {
            slot.count(Counter::Filtered);
            return;
        }
    }
    record(engine, held, chain, recording, registers, tick);
}

fn record(
    engine: &Engine,
    held: Held<'_>,
    chain: &mut [usize],
    recording: &Recording,
    registers: Registers,
    tick: &Tick,
) {
    let slot = held.slot();
    let room = chain.get_mut(..recording.max_depth).unwrap_or_default();
    let (depth, end) = unwind::walk(engine, slot, registers, true, PcForm::ForReaders, room);
    slot.count(match end {
        End::Whole => Counter::Whole,
        End::Depth => Counter::Depth,
        End::Unreadable => Counter::Unreadable,
        End::NoRule => Counter::NoRule,
        End::Loop => Counter::Loop,
        End::Unloading => Counter::Unloading,
    });
    let weight = tick.weight as u64;
    match recording.table.add(room.get(..depth).unwrap_or_default(), tick.weight) {
        Ok(()) => {
            slot.count_many(Counter::Samples, weight);
            slot.count(if tick.from_timer { Counter::TimerTicks } else { Counter::ForeignTicks });
            LIVE_TICKS.fetch_add(1, Ordering::Relaxed);
        }
        Err(_) => slot.count_many(Counter::TableFull, weight),
    }
}

/// Calls the host's own handler. Nothing of ours is held, so it may leave by `siglongjmp`.
fn serve_host(action: Action, number: i32, info: *mut SignalInfo, context: *mut Context) {
    if action.resets() {
        host_action::exchange(Some(Action::DEFAULT));
    }
    // SAFETY: the action is a handler that the host set for this signal, the pointers are the kernel's.
    unsafe { signal::run_host_handler(action, number, info, context) };
}
