//! The handler of the profiling signal: a tick, up to the sample table. Signal-safe (see `super`).
//!
//! # Safety
//! Uses the kernel's pointers. The application guarantees the safety of its handler and its filter.
#![allow(unsafe_code)]

use super::{
    app_disposition::{self, AppDisposition, Forward},
    app_timer,
    caller::{self, Caller},
    counters::Counter,
    engine::Engine,
    fork_guard,
    recording::{self, Recording},
    remainder::{self, Ticked},
    scratch::HeldSlot,
    stamps::{Marks, Stamps},
    table::Full,
    thread_timers::{self, OwnTimers},
    tick_source::{self, TimerOwner},
    timer_table::{FirstTick, TickThread},
    unwind::{self, PcForm, WalkEnd, last_walk::LastWalk},
    weight,
};
use crate::{
    sync::{AtomicBool, AtomicI32, AtomicU64, Ordering},
    sys::{
        arch::{Registers, is_user_address},
        errno,
        signal::{self, Context, Disposition, HandlerStack, Origin, SignalInfo},
        timer::IntervalTimer,
    },
};

/// Weight of the ticks since the process's start that found no free scratch slot.
pub(crate) static LOST_WITHOUT_SLOT: AtomicU64 = AtomicU64::new(0);

/// Recorded ticks since the process's start, wrapping: for `ProfilerGetCurrentState`, and to find
/// that ticks are only swallowed (`tick_source.rs`).
pub(crate) static LIVE_TICKS: AtomicI32 = AtomicI32::new(0);

/// Set when an alternate stack was found that is too small for the handler.
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

/// Makes the handler run on the interrupted stack: a thread's alternate stack is too small.
pub(crate) fn avoid_alternate_stacks() {
    if AVOID_ALTERNATE_STACKS.swap(true, Ordering::AcqRel) {
        return;
    }
    for signal in app_disposition::signals() {
        if AppDisposition::of(signal).is_some_and(AppDisposition::is_replaced) {
            let _ = install(signal);
        }
    }
}

/// Handles a profiling signal, on the thread that it interrupts.
///
/// A forced unwind out of the application's handler passes through this frame, which has nothing to
/// drop. A callee with a landing pad would abort the program.
pub(crate) extern "C" fn on_signal(number: i32, info: *mut SignalInfo, context: *mut Context) {
    let errno = errno::get();
    let mut next = Next::Nothing;
    classify(number, info, context, &mut next);
    match next {
        Next::Nothing => {}
        // SAFETY: the application set this handler for the signal; the kernel passed the pointers.
        Next::Handler(action) => unsafe { signal::run_app_handler(action, number, info, context) },
        // SAFETY: the application reset its handler to the default, or armed its timer without one.
        Next::Default => unsafe { signal::run_default_action(number) },
    }
    errno::set(errno);
}

/// The application's action that follows a signal.
enum Next {
    Nothing,
    Handler(Disposition),
    Default,
}

/// Records a tick, and sets `next` to what the application has to get. Not inlined, and never
/// unwound: see [`on_signal`].
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "both sides are ours")]
extern "C" fn classify(number: i32, info: *mut SignalInfo, context: *mut Context, next: &mut Next) {
    let mut stamps = Stamps::begin();
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO.
    let origin = unsafe { Origin::of(info) };
    // 0 in a forked copy, which does not have the spool's mapping.
    let running_signal = fork_guard::running_signal();
    let is_own_tick = match origin {
        // Also after the end of its session: the application must not get it.
        _ if thread_timers::is_own_tick(number, origin) => true,
        Origin::IntervalTimer => match tick_source::timer_owner(number, running_signal) {
            TimerOwner::Profiler => true,
            TimerOwner::Application => {
                *next = next_for_app_timer(number);
                return;
            }
            TimerOwner::Unknown if tick_source::was_own_tick(number) => return,
            TimerOwner::Unknown => false,
        },
        Origin::PosixTimer { .. } | Origin::File(_) | Origin::Elsewhere => false,
    };
    if !is_own_tick {
        if let Some(for_app) = next_for_app(number, origin == Origin::IntervalTimer) {
            *next = for_app;
            return;
        }
    }
    if running_signal != number {
        return;
    }
    let Some(engine) = Engine::get() else { return };
    handle_tick(engine, is_own_tick.then_some(origin), context, &mut stamps);
    if is_own_tick && number == IntervalTimer::Cpu.signal() && app_timer::has_missed_expiration() {
        // SAFETY: `info` is valid and unshared until this handler returns.
        unsafe { info.write(signal::interval_timer_info(number)) };
        *next = next_for_app_timer(number);
    }
}

/// Records a tick; `own` is its origin if a timer of the profiler sent it. Not inlined: the
/// application's handler, which may follow, does not need this stack.
#[inline(never)]
fn handle_tick(engine: &'static Engine, own: Option<Origin>, context: *mut Context, stamps: &mut Stamps) {
    // SAFETY: `context` is the kernel's, valid until the handler returns.
    let registers = unsafe { signal::interrupted_registers(context) };
    // SAFETY: as above.
    let written = unsafe { signal::last_written(context) };
    let caller = Caller::read(engine, registers.sp());
    let Some(mut claim) = engine.scratch().claim(registers.sp()) else {
        let weigh = |origin| weigh_without_slot(engine, origin, caller);
        let weight = own.map_or(Some(1), |origin| {
            engine.clock_readers().read(registers.sp(), caller::are_clock_reads_forbidden, || weigh(origin))
        });
        let weight = weight.unwrap_or(0);
        LOST_WITHOUT_SLOT.fetch_add(weight as u64, Ordering::Relaxed);
        return;
    };
    let (held, chain, last_walk) = claim.parts();
    let weight = match own {
        Some(origin) => {
            // After the claim: a thread that deletes timers waits for handlers' slots.
            let mut weighing = (engine, origin, caller, None);
            held.slot().run_on_stack(&mut weighing, |(engine, origin, caller, weight)| {
                *weight = weigh(engine, *origin, *caller);
            });
            weighing.3
        }
        None => Some(1),
    };
    let Some(weight) = weight else { return };
    // After the claim: a thread that forbids reading names waits for the slot.
    let thread = caller.filter(|_| !caller::are_clock_reads_forbidden()).map(|caller| caller.thread);
    let (marks, is_timer_tick) = (stamps.marks(), own.is_some());
    filter_tick(Tick {
        engine,
        held,
        chain,
        last_walk,
        thread,
        registers,
        written,
        weight,
        is_timer_tick,
        marks,
    });
}

struct Tick<'t> {
    engine: &'static Engine,
    held: HeldSlot<'t>,
    chain: &'t mut [usize],
    last_walk: &'t mut LastWalk,
    thread: Option<u32>,
    registers: Registers,
    /// The last byte that the kernel wrote for this signal.
    written: usize,
    /// In periods.
    weight: usize,
    is_timer_tick: bool,
    marks: Marks<'t>,
}

/// Returns a tick's weight in periods; None if the thread's timer samples it. Adopts new threads.
fn weigh(engine: &Engine, origin: Origin, caller: Option<Caller>) -> Option<usize> {
    let threads = engine.timers();
    if let Some(index) = thread_timers::thread_tick(engine, origin, caller) {
        let tick_thread = caller.and_then(|caller| caller.tick_thread(engine));
        let is_first = tick_thread.is_some_and(|tick_thread| !threads.has_ticked(tick_thread));
        let weight = weigh_thread(engine, index, caller);
        if thread_timers::is_wall_session_running() {
            thread_timers::scan_threads(engine);
            return Some(weight);
        }
        let rest = remainder::weigh(engine, Ticked::Thread, is_first && weight > 0);
        return Some(weight.saturating_add(rest));
    }
    // Without per-thread timers the process's ticks represent all time. A child that shares the
    // memory has none; its clock is younger than the parent's, so most of its ticks weigh nothing.
    if threads.generation() == 0 || !threads.is_this_process(&OwnTimers) {
        return Some(weight::consume());
    }
    let Some(tick_thread) = caller.and_then(|caller| caller.tick_thread(engine)) else { return Some(0) };
    if thread_timers::is_wall() {
        return weigh_main_thread(engine, tick_thread);
    }
    let is_covered = threads.ensure_covered(&OwnTimers, tick_thread);
    // Before its first tick, a thread may represent others that exited without one. If the kernel
    // directs all ticks to one thread, that thread represents the others.
    let is_representative =
        !is_covered || !threads.has_ticked(tick_thread) || thread_timers::signals_one_thread(origin);
    let weight = remainder::weigh(engine, Ticked::Process, is_representative);
    if !is_representative {
        return None;
    }
    if !is_covered {
        threads.adopt(&OwnTimers, tick_thread, FirstTick::AtRandom);
    }
    (!is_covered || weight > 0).then_some(weight)
}

/// Weighs a process tick in clock `wall`: it represents the main thread if that has no timer.
fn weigh_main_thread(engine: &Engine, tick_thread: TickThread) -> Option<usize> {
    thread_timers::scan_threads(engine);
    if engine.timers().has(tick_thread) { None } else { Some(weight::consume()) }
}

/// Weighs a tick on the interrupted stack. A survey may need more stack: the next tick makes it.
fn weigh_without_slot(engine: &Engine, origin: Origin, caller: Option<Caller>) -> usize {
    if let Some(index) = thread_timers::thread_tick(engine, origin, caller) {
        return weigh_thread(engine, index, caller);
    }
    if engine.timers().generation() == 0 { weight::consume() } else { 0 }
}

fn weigh_thread(engine: &Engine, index: usize, caller: Option<Caller>) -> usize {
    // None for a late tick, or if clocks must not be read (see `caller::forbid_clock_reads`).
    let Some(tick_thread) = caller.and_then(|caller| caller.tick_thread(engine)) else { return 0 };
    let weight = engine.timers().tick(&OwnTimers, index, tick_thread, weight::charge);
    usize::try_from(weight).unwrap_or(usize::MAX)
}

fn filter_tick(tick: Tick<'_>) {
    let slot = tick.held.slot();
    // After the claim: the recording stays valid until the slot is released.
    let Some(recording) = recording::running(tick.held) else { return };
    if tick.weight == 0 {
        return slot.count(Counter::Early);
    }
    let pc = tick.registers.pc();
    if !is_user_address(pc) {
        let weight = tick.weight as u64;
        recording.memory().note_lost(weight);
        return slot.count_many(Counter::NoPc, weight);
    }
    if recording.excludes(pc) {
        return slot.count(Counter::Excluded);
    }
    if let Some(filter) = recording.filter {
        // On the interrupted stack, which the filter (the user's code) may inspect.
        // SAFETY: the caller that started the session guarantees the function and its argument.
        if !unsafe { filter.accepts() } {
            return slot.count(Counter::Filtered);
        }
        // A slow filter may return when its session is over and another one runs.
        if !recording::is_running(recording) {
            return;
        }
    }
    slot.run_on_stack(&mut (tick, recording), walk_and_store);
}

fn walk_and_store((tick, recording): &mut (Tick<'_>, &Recording)) {
    let slot = tick.held.slot();
    let room = tick.chain.get_mut(..recording.max_depth).unwrap_or_default();
    tick.marks.claimed(slot);
    let (depth, end) = unwind::walk(
        tick.engine,
        slot,
        tick.registers,
        tick.written,
        PcForm::ForReaders,
        room,
        tick.last_walk,
    );
    tick.marks.walked(slot, depth);
    let thread_index = recording.thread_index_of(tick.thread);
    let length = recording.append_thread_tag(tick.chain, depth, thread_index);
    slot.count(match end {
        WalkEnd::Complete => Counter::Complete,
        WalkEnd::Depth => Counter::Depth,
        WalkEnd::Unreadable => Counter::Unreadable,
        WalkEnd::NoRule => Counter::NoRule,
        WalkEnd::Loop => Counter::Loop,
        WalkEnd::Unloading => Counter::Unloading,
    });
    let weight = tick.weight as u64;
    match recording.table.add(tick.chain.get(..length).unwrap_or_default(), tick.weight) {
        Ok(()) => {
            recording.threads.count(thread_index, weight);
            slot.count_many(Counter::Samples, weight);
            slot.count(if tick.is_timer_tick { Counter::TimerTicks } else { Counter::ForeignTicks });
            LIVE_TICKS.fetch_add(1, Ordering::Relaxed);
        }
        Err(Full) => {
            slot.count_many(Counter::TableFull, weight);
            recording.memory().note_lost(weight);
        }
    }
    recording.spiller.step(&recording.table, &tick.engine.scratch().others(tick.held));
    tick.marks.added();
}

/// Returns what a signal of the application's timer would do without the profiler.
fn next_for_app_timer(number: i32) -> Next {
    if number == IntervalTimer::Cpu.signal() {
        if app_timer::is_too_early() {
            return Next::Nothing;
        }
        app_timer::mark_delivered();
    }
    if AppDisposition::of(number).is_some_and(AppDisposition::is_ignored) {
        return Next::Nothing;
    }
    next_for_app(number, false).unwrap_or(Next::Default)
}

/// Returns the application's action for a signal that is not a profiler's tick.
fn next_for_app(number: i32, from_timer: bool) -> Option<Next> {
    let app = AppDisposition::of(number)?;
    match app.forward() {
        Forward::Handler(action) => {
            if action.is_one_shot() {
                app.exchange(Some(Disposition { handler: Disposition::DEFAULT.handler, ..action }));
            }
            Some(Next::Handler(action))
        }
        // A timer's signal may be a late tick, which must not kill the program.
        Forward::Default if !from_timer => Some(Next::Default),
        Forward::Default | Forward::Tick => None,
    }
}
