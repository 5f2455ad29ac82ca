//! The timers of a session's clock, and the handler of their signal.

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

/// The requested clock, or `cpu` without permission for perf events; reported unless it was `auto`.
pub(super) fn usable_clock(options: &StartOptions<'_>, signal: i32) -> Clock {
    let Err(failure) = thread_timers::try_clock(options.clock, signal) else { return options.clock };
    if options.clock != Clock::Auto {
        let other = Diagnostic::OtherClock { requested: options.clock, used: Clock::Cpu, failure };
        diagnostics::report(options.destination.path(), other);
    }
    Clock::Cpu
}

/// The requested signal. If the application uses it, reports this and returns the clock's own.
pub(super) fn usable_signal(options: &StartOptions<'_>) -> i32 {
    let own = options.clock.timer().signal();
    let Some(requested) = options.signal.filter(|signal| *signal != own) else { return own };
    let availability = ensure_handler_possible(requested).and_then(|_| {
        let other =
            Failure::System { action: "use another signal than in the last session", errno: errno::EBUSY };
        app_disposition::choose_signal(requested).then_some(()).ok_or(other)
    });
    match availability {
        Ok(()) => requested,
        Err(failure) => {
            diagnostics::report(
                options.destination.path(),
                Diagnostic::OtherSignal { requested, used: own, failure },
            );
            own
        }
    }
}

/// Arms the timer, unless a thread is in a call of `exec`: a tick would kill the new program.
pub(super) fn arm(clock: Clock, signal: i32, period_micros: u32) -> Result<(), Failure> {
    if exit_hooks::is_exec_pending() {
        return Ok(());
    }
    tick_source::start(clock, signal, period_micros)?;
    if exit_hooks::is_exec_pending() {
        // The thread that calls `exec` disarms the timer, too, and reports failures.
        let _ = tick_source::stop(clock.timer());
    }
    Ok(())
}

static IS_SIGNAL_IGNORED: AtomicBool = AtomicBool::new(false);

/// Stops the ticks before `exec`; all signals are blocked. If the timer cannot be disarmed, ignores
/// the signal: a tick would kill the new program. Signal-safe: system calls and atomics.
pub(super) fn stop_for_exec(timer: IntervalTimer, path: &[u8]) {
    if let Err(errno) = tick_source::stop(timer) {
        signal::ignore(timer.signal());
        IS_SIGNAL_IGNORED.store(true, Ordering::SeqCst);
        let failure = Failure::System { action: "disarm the profiling timer", errno };
        diagnostics::report(path, Diagnostic::StillArmed(failure));
    }
}

pub(super) fn handle_after_failed_exec(signal: i32) {
    if IS_SIGNAL_IGNORED.swap(false, Ordering::SeqCst) {
        let _ = handler::install(signal);
    }
}

/// As [`stop_for_exec`], without the lock: needs little stack, does not wait, reports nothing.
pub(super) fn silence_for_exec(timer: IntervalTimer) {
    if tick_source::silence(timer).is_err() {
        signal::ignore(timer.signal());
        IS_SIGNAL_IGNORED.store(true, Ordering::SeqCst);
    }
}

pub(super) fn is_own_handler(action: &Disposition) -> bool {
    action.handler == on_signal as *const () as usize
}

/// `on_signal`, or a sanitizer's handler that calls it; 0 at first. Relaxed: guarded by the lock.
static KERNEL_HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Fails if the application has a handler for the signal.
pub(super) fn ensure_handler_possible(signal: i32) -> Result<Disposition, Failure> {
    let present = signal::disposition(signal)
        .map_err(|errno| Failure::System { action: "ask for the profiling signal's handler", errno })?;
    // `sigaction` may return what another copy of this library keeps for the application.
    let handler = signal::kernel_handler(signal);
    let installed = Disposition { handler, ..present };
    let calls_on_signal = is_own_handler(&present) && handler == KERNEL_HANDLER.load(Ordering::Relaxed);
    if installed.is_handler() && !is_own_handler(&installed) && !calls_on_signal {
        return Err(Failure::HandlerTaken { signal, handler });
    }
    Ok(present)
}

/// Installs the handler for good: the default action of a late tick would kill the process.
pub(super) fn install_handler(signal: i32) -> Result<(), Failure> {
    let present = ensure_handler_possible(signal)?;
    if is_own_handler(&present) {
        return Ok(());
    }
    let app = AppDisposition::of(signal);
    if let Some(app) = app {
        app.replace(present);
    }
    if !signal::is_large_enough(&signal::alternate_stack()) {
        handler::avoid_alternate_stacks();
    }
    handler::install(signal).map_err(|errno| {
        if let Some(app) = app {
            app.restore();
        }
        Failure::System { action: "install the profiling signal's handler", errno }
    })?;
    KERNEL_HANDLER.store(signal::kernel_handler(signal), Ordering::Relaxed);
    Ok(())
}
