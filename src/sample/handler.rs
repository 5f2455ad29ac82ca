//! The handler of the profiling signal: one tick, from the interrupted context to the table.
//!
//! # Safety
//! Reads the two structures that the kernel gives to a signal handler, and calls the host's own handler and filter,
//! which the host vouches for.
#![allow(unsafe_code)]

use super::{
    counters::Counter,
    engine::Engine,
    host_action::{HostAction, Service},
    host_timer, process_mark,
    recording::{self, Recording},
    scratch::Held,
    stamps::{Marks, Stamps},
    table::Full,
    thread_timers::{self, OwnTimers},
    threads::Met,
    tick_source::{self, Whose},
    unwind::{self, End, PcForm, trail::Trail},
    weight,
};
use crate::{
    sync::{AtomicBool, AtomicI32, AtomicU64, Ordering},
    sys::{
        arch::{Registers, is_user_address},
        clock,
        errno::ErrnoGuard,
        signal::{self, Action, Context, HandlerStack, Origin, SignalInfo},
        thread,
        timer::IntervalTimer,
    },
};

/// Weight of the ticks that found all scratch slots taken, since the process began.
pub(crate) static LOST_WITHOUT_SLOT: AtomicU64 = AtomicU64::new(0);

/// Ticks recorded since the process began, wrapping: a figure for users to watch, read through its address
/// (`ProfilerGetCurrentState`).
pub(crate) static LIVE_TICKS: AtomicI32 = AtomicI32::new(0);

/// Set once an alternate stack has been seen that is too small for the handler.
static AVOID_ALTERNATE_STACKS: AtomicBool = AtomicBool::new(false);

/// Installs the handler for `signal`.
///
/// # Errors
/// The error number of `sigaction(2)`.
pub(crate) fn install(signal: i32) -> Result<(), i32> {
    let stack = if AVOID_ALTERNATE_STACKS.load(Ordering::Acquire) {
        HandlerStack::Interrupted
    } else {
        HandlerStack::Alternate
    };
    signal::install(signal, on_signal, stack)
}

/// Lets the handler run on the interrupted stack from now on: a thread has an alternate stack that is too small.
/// Signal-safe.
pub(crate) fn avoid_alternate_stacks() {
    if AVOID_ALTERNATE_STACKS.swap(true, Ordering::AcqRel) {
        return;
    }
    for timer in [IntervalTimer::Cpu, IntervalTimer::Real] {
        let signal = timer.signal();
        if HostAction::of(signal).is_some_and(HostAction::is_taken_over) {
            let _ = install(signal);
        }
    }
}

/// Runs for each profiling signal of the process, on whichever thread it interrupts.
pub(crate) extern "C" fn on_signal(number: i32, info: *mut SignalInfo, context: *mut Context) {
    let mut stamps = Stamps::begin();
    let _errno = ErrnoGuard::new();
    // SAFETY: the kernel passes a valid structure to a handler installed with SA_SIGINFO.
    let origin = unsafe { Origin::of(info) };
    // 0 in a copy of the session's process, whose table may be shared with it.
    let running_signal = process_mark::running_signal();
    let is_own_tick = match origin {
        // One that comes late, when its session is over, is nobody's.
        _ if thread_timers::is_own_tick(origin) => true,
        Origin::IntervalTimer => match tick_source::whose(number, running_signal) {
            Whose::Ours => true,
            Whose::Hosts => return serve_host_timer(number, info, context),
            Whose::Unclear => false,
        },
        Origin::PosixTimer { .. } | Origin::File(_) | Origin::Elsewhere => false,
    };
    if !is_own_tick && serve_host(number, info, context, origin == Origin::IntervalTimer) {
        return;
    }
    if running_signal != number {
        return;
    }
    let Some(engine) = Engine::get() else { return };
    // A timer's tick consumes time even when it is not recorded.
    let weighed =
        if is_own_tick { weigh(engine, origin) } else { Some(Weighed { weight: 1, newcomer: None }) };
    if let Some(weighed) = weighed {
        sample(engine, weighed, is_own_tick, context, &mut stamps);
    }
    if is_own_tick && number == IntervalTimer::Cpu.signal() && host_timer::is_owed() {
        serve_owed(number, info, context);
    }
}

/// Takes what the tick stands for into the running session. Not inlined: a host's handler, which may be called behind it,
/// does not need its stack.
#[inline(never)]
fn sample(
    engine: &'static Engine,
    weighed: Weighed,
    is_own: bool,
    context: *mut Context,
    stamps: &mut Stamps,
) {
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { signal::interrupted_registers(context) };
    // SAFETY: as above, and we have not returned.
    let written = unsafe { signal::last_written(context) };
    match engine.scratch().claim(registers.sp()) {
        Some(mut claim) => {
            let (held, chain, trail) = claim.parts();
            let marks = stamps.marks();
            tick(Tick { engine, held, chain, trail, registers, written, weighed, is_own, marks });
        }
        None => {
            LOST_WITHOUT_SLOT.fetch_add(weighed.weight as u64, Ordering::Relaxed);
        }
    }
}

/// Serves the signal of the host's own timer that the kernel has dropped. Not inlined: no other tick needs its stack.
#[cold]
#[inline(never)]
fn serve_owed(number: i32, info: *mut SignalInfo, context: *mut Context) {
    // SAFETY: the kernel's structure is ours until we return.
    unsafe { info.write(signal::interval_timer_info(number)) };
    serve_host_timer(number, info, context);
}

/// What one tick works with.
struct Tick<'t> {
    engine: &'static Engine,
    held: Held<'t>,
    chain: &'t mut [usize],
    trail: &'t mut Trail,
    registers: Registers,
    /// The last byte that the kernel wrote for this signal.
    written: usize,
    weighed: Weighed,
    /// Of our timer, not from elsewhere.
    is_own: bool,
    marks: Marks<'t>,
}

/// What a tick stands for.
struct Weighed {
    /// Periods.
    weight: usize,
    /// The thread is to have a timer of its own.
    newcomer: Option<Met>,
}

/// Weighs a tick of ours; None for one that its thread's own timer makes needless. Not inlined, so that its clocks' structures are gone from the stack when the walk begins.
#[inline(never)]
fn weigh(engine: &Engine, origin: Origin) -> Option<Weighed> {
    let threads = engine.threads();
    if let Some((index, timer)) = thread_timers::thread_tick(engine, origin) {
        let weight = threads.tick(&OwnTimers, index, timer, clock::thread_cpu());
        weight::charge(weight);
        return Some(Weighed { weight: usize::try_from(weight).unwrap_or(usize::MAX), newcomer: None });
    }
    let generation = threads.generation();
    if generation == 0 {
        return Some(Weighed { weight: weight::consume(), newcomer: None });
    }
    let met = Met { thread: thread::id(), generation, now: clock::thread_cpu() };
    threads.reap(&OwnTimers);
    let is_covered = threads.covers(&OwnTimers, met);
    // Where the tick may be another thread's, which it can never meet, it stands for that one.
    if is_covered && !thread_timers::meets_one_thread(origin) {
        return None;
    }
    let weight = weight::consume_without(threads.untold(&OwnTimers));
    Some(Weighed { weight, newcomer: (!is_covered).then_some(met) })
}

fn tick(tick: Tick<'_>) {
    let slot = tick.held.slot();
    // Behind the claim: a recording found now stays until the slot is released.
    let Some(recording) = recording::running(tick.held) else { return };
    if let Some(mut newcomer) = tick.weighed.newcomer {
        slot.run_on_stack(&mut (tick.engine.threads(), &mut newcomer), |(threads, met)| {
            threads.adopt(&OwnTimers, **met);
        });
    }
    if tick.weighed.weight == 0 {
        return slot.count(Counter::Early);
    }
    let pc = tick.registers.pc();
    if !is_user_address(pc) {
        recording.memory().note_lost(1);
        return slot.count(Counter::NoPc);
    }
    if recording.excludes(pc) {
        return slot.count(Counter::Excluded);
    }
    if let Some(filter) = recording.filter {
        // On the interrupted stack, not on the slot's: it is the user's code, and may look at where it runs.
        // SAFETY: who started the session vouches for the function and its argument.
        if !unsafe { filter.accepts() } {
            return slot.count(Counter::Filtered);
        }
        // A filter that took its time may come back when its session is over, and another one counts.
        if !recording::is_running(recording) {
            return;
        }
    }
    slot.run_on_stack(&mut (tick, recording), record);
}

/// Walks and counts, on the slot's stack.
fn record((tick, recording): &mut (Tick<'_>, &Recording)) {
    let slot = tick.held.slot();
    let room = tick.chain.get_mut(..recording.max_depth).unwrap_or_default();
    tick.marks.claimed(slot);
    let (depth, end) =
        unwind::walk(tick.engine, slot, tick.registers, tick.written, PcForm::ForReaders, room, tick.trail);
    tick.marks.walked(slot, depth);
    slot.count(match end {
        End::Whole => Counter::Whole,
        End::Depth => Counter::Depth,
        End::Unreadable => Counter::Unreadable,
        End::NoRule => Counter::NoRule,
        End::Loop => Counter::Loop,
        End::Unloading => Counter::Unloading,
    });
    let weight = tick.weighed.weight as u64;
    match recording.table.add(room.get(..depth).unwrap_or_default(), tick.weighed.weight) {
        Ok(()) => {
            slot.count_many(Counter::Samples, weight);
            slot.count(if tick.is_own { Counter::TimerTicks } else { Counter::ForeignTicks });
            LIVE_TICKS.fetch_add(1, Ordering::Relaxed);
        }
        Err(Full) => {
            slot.count_many(Counter::TableFull, weight);
            recording.memory().note_lost(weight);
        }
    }
    recording.drain.step(&recording.table, &tick.engine.scratch().beside(tick.held));
    tick.marks.added();
}

/// Gives a signal of the host's own interval timer to the host, as if we were not there. Nothing of ours is held meanwhile.
fn serve_host_timer(number: i32, info: *mut SignalInfo, context: *mut Context) {
    if number == IntervalTimer::Cpu.signal() {
        if host_timer::is_too_early() {
            return;
        }
        host_timer::note_served();
    }
    let is_ignored = HostAction::of(number).is_some_and(HostAction::is_ignored);
    if !is_ignored && !serve_host(number, info, context, false) {
        // SAFETY: the host armed the timer, and has no handler for its signal.
        unsafe { signal::run_default_action(number) };
    }
}

/// Gives a signal that is no tick of ours to the host, if it has a handler for it; true if it has. Nothing of ours
/// is held meanwhile, so the handler may leave by `siglongjmp`.
fn serve_host(number: i32, info: *mut SignalInfo, context: *mut Context, from_timer: bool) -> bool {
    let Some(host) = HostAction::of(number) else { return false };
    match host.service() {
        Service::Handler(action) => {
            if action.resets() {
                // Flags and mask stay, as with the kernel.
                host.exchange(Some(Action { handler: Action::DEFAULT.handler, ..action }));
            }
            // SAFETY: the action is a handler that the host set for this signal, the pointers are the kernel's.
            unsafe { signal::run_host_handler(action, number, info, context) };
            true
        }
        // A timer's signal may be a late tick of our own, which must not end the program.
        Service::Default if !from_timer => {
            // SAFETY: the host had a handler and then asked for the default action.
            unsafe { signal::run_default_action(number) };
            true
        }
        Service::Default | Service::Tick => false,
    }
}
