//! What a session takes of the process: a clock's timers, and the handler of their signal.

use super::{
    StartOptions,
    diagnostics::{self, Diagnostic},
    exit_hooks,
};
use crate::{
    config::Clock,
    error::Failure,
    sample::{
        app_disposition::{self, AppDisposition},
        handler::{self, on_signal},
        thread_timers, tick_source,
    },
    sync::{AtomicBool, AtomicUsize, Ordering},
    sys::{
        errno,
        signal::{self, Disposition},
        timer::IntervalTimer,
    },
};

/// The requested clock, or `cpu` if perf events are not permitted; a message says so if the user asked for them.
pub(super) fn usable_clock(options: &StartOptions<'_>, signal: i32) -> Clock {
    let Err(failure) = thread_timers::try_clock(options.clock, signal) else { return options.clock };
    if options.clock != Clock::Auto {
        let other = Diagnostic::OtherClock { asked: options.clock, used: Clock::Cpu, failure };
        diagnostics::report(options.sink.path(), other);
    }
    Clock::Cpu
}

/// The signal that is asked for, or the clock's own where that one is the program's; which is told.
pub(super) fn usable_signal(options: &StartOptions<'_>) -> i32 {
    let own = options.clock.timer().signal();
    let Some(asked) = options.signal.filter(|signal| *signal != own) else { return own };
    let is_to_be_had = ensure_handler_possible(asked).and_then(|_| {
        let other =
            Failure::System { action: "use another signal than in the last session", errno: errno::EBUSY };
        app_disposition::choose_signal(asked).then_some(()).ok_or(other)
    });
    match is_to_be_had {
        Ok(()) => asked,
        Err(failure) => {
            diagnostics::report(options.sink.path(), Diagnostic::OtherSignal { asked, used: own, failure });
            own
        }
    }
}

/// Arms the timer, unless a thread is about to replace the program: the new one would be ended by it.
pub(super) fn arm(clock: Clock, signal: i32, period_micros: u32) -> Result<(), Failure> {
    if exit_hooks::is_exec_pending() {
        return Ok(());
    }
    tick_source::start(clock, signal, period_micros)?;
    // It may have begun meanwhile.
    if exit_hooks::is_exec_pending() {
        // Whoever replaces it tells what goes wrong.
        let _ = tick_source::stop(clock.timer());
    }
    Ok(())
}

/// Set while the signal is ignored for the next program's sake.
static IS_SIGNAL_IGNORED: AtomicBool = AtomicBool::new(false);

/// Ends the ticks for who is about to replace the program and has all signals blocked. Where the kernel refuses to disarm the
/// timer, the signal is ignored, which the next program inherits: a tick would end it. Signal-safe.
pub(super) fn stop_for_exec(timer: IntervalTimer, path: &[u8]) {
    if let Err(errno) = tick_source::stop(timer) {
        signal::ignore(timer.signal());
        IS_SIGNAL_IGNORED.store(true, Ordering::SeqCst);
        let failure = Failure::System { action: "disarm the profiling timer", errno };
        diagnostics::report(path, Diagnostic::StillArmed(failure));
    }
}

/// Handles the signal again, where [`stop_for_exec`] has had it ignored and the program was not replaced.
pub(super) fn handle_after_failed_exec(signal: i32) {
    if IS_SIGNAL_IGNORED.swap(false, Ordering::SeqCst) {
        let _ = handler::install(signal);
    }
}

/// As [`stop_for_exec`], for who has neither the lock nor much of a stack: waits for nobody, and tells nothing. Signal-safe.
pub(super) fn silence_for_exec(timer: IntervalTimer) {
    if tick_source::silence(timer).is_err() {
        signal::ignore(timer.signal());
        IS_SIGNAL_IGNORED.store(true, Ordering::SeqCst);
    }
}

/// True for an action whose handler is ours.
pub(super) fn is_own_handler(action: &Disposition) -> bool {
    action.handler == on_signal as *const () as usize
}

/// The kernel's handler after [`install_handler`]: `on_signal`, or a sanitizer's handler, which calls `on_signal`. 0 before
/// the first session. `Relaxed`, because it is read and written under the control lock.
static KERNEL_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Fails if the application has a handler for the signal.
pub(super) fn ensure_handler_possible(signal: i32) -> Result<Disposition, Failure> {
    let present = signal::disposition(signal)
        .map_err(|errno| Failure::System { action: "ask for the profiling signal's handler", errno })?;
    // What `sigaction` tells may be what another copy of this library keeps aside for the program.
    let handler = signal::kernel_handler(signal);
    let installed = Disposition { handler, ..present };
    let calls_on_signal = is_own_handler(&present) && handler == KERNEL_HANDLER.load(Ordering::Relaxed);
    if installed.is_handler() && !is_own_handler(&installed) && !calls_on_signal {
        return Err(Failure::HandlerTaken { signal, handler });
    }
    Ok(present)
}

/// Installs our handler, once and for all: after the session it is harmless, while the default action would end
/// the program at the next late tick.
pub(super) fn install_handler(signal: i32) -> Result<(), Failure> {
    let present = ensure_handler_possible(signal)?;
    if is_own_handler(&present) {
        return Ok(());
    }
    let host = AppDisposition::of(signal);
    if let Some(host) = host {
        host.replace(present);
    }
    if !signal::is_large_enough(&signal::alternate_stack()) {
        handler::avoid_alternate_stacks();
    }
    handler::install(signal).map_err(|errno| {
        if let Some(host) = host {
            host.restore();
        }
        Failure::System { action: "install the profiling signal's handler", errno }
    })?;
    KERNEL_HANDLER.store(signal::kernel_handler(signal), Ordering::Relaxed);
    Ok(())
}
