//! Diagnostics of problems that no call can return, in forked children, before `exec`, and in parts
//! of a profile. The shared library prints them; the crate prints nothing.

use crate::{config::Clock, error::Failure};
use once_cell::race::OnceBox;

/// A problem of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic<'n> {
    /// There is no profile, or it lacks samples.
    NoProfile {
        /// The cause.
        failure: Failure,
        /// The spool that the samples can be recovered from.
        spool: Option<&'n [u8]>,
    },
    /// The list of mapped objects is incomplete: frames lack names.
    NoList(Failure),
    /// The clock is not the requested one.
    OtherClock {
        /// The requested clock.
        requested: Clock,
        /// The clock that is used.
        used: Clock,
        /// The cause.
        failure: Failure,
    },
    /// The profiling signal is not the requested one.
    OtherSignal {
        /// The requested signal's number.
        requested: i32,
        /// The number of the signal that is used.
        used: i32,
        /// The cause.
        failure: Failure,
    },
    /// Clock `wall` samples only the main thread, because of a sandbox or the program's handler.
    MainThreadAlone,
    /// Number of lost periods.
    Lost(u64),
    /// Sampling has stopped.
    NoTicks(Failure),
    /// The program used the profiling timer by a direct system call.
    TimerTaken,
    /// The timer could not be disarmed before `exec`. The new program therefore ignores its signal.
    StillArmed(Failure),
}

/// Receives the profile's path and a diagnostic. Must be async-signal-safe.
pub type DiagnosticSink = fn(&[u8], Diagnostic<'_>);

static SINK: OnceBox<DiagnosticSink> = OnceBox::new();

/// Sets the sink once. Not for signal context.
pub(crate) fn set_diagnostic_sink(sink: DiagnosticSink) {
    SINK.get_or_init(|| Box::new(sink));
}

/// Signal-safe: the sink is.
pub(crate) fn report(path: &[u8], notice: Diagnostic<'_>) {
    if let Some(sink) = SINK.get() {
        sink(path, notice);
    }
}
