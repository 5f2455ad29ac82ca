//! What goes wrong where no call of the user's could return it: in a forked child, on the way to another program, and in a
//! part of a profile.
//!
//! The shared library prints it; users of the crate are not told, since the crate prints nothing.

use crate::{config::Clock, error::Failure};
use once_cell::race::OnceBox;

/// What went wrong with a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diagnostic<'n> {
    /// There is none, or none of all that was gathered.
    NoProfile {
        /// Why.
        failure: Failure,
        /// The file that the samples can be recovered from.
        spool: Option<&'n [u8]>,
    },
    /// Its list of mapped objects is not whole: readers will not know the names of what ran.
    NoList(Failure),
    /// Its clock is another one than was asked for.
    OtherClock {
        /// What was asked for.
        asked: Clock,
        /// What is used in its place.
        used: Clock,
        /// Why.
        failure: Failure,
    },
    /// Its ticks are another signal than was asked for.
    OtherSignal {
        /// Number of the one that was asked for.
        asked: i32,
        /// Number of the one that is used in its place.
        used: i32,
        /// Why.
        failure: Failure,
    },
    /// It is of the first thread alone, though its clock is that of elapsed time: the program forbids itself system calls, or
    /// handles the signal of the ticks itself.
    FirstThreadAlone,
    /// It lacks so many periods.
    Lost(u64),
    /// No samples are taken any more.
    NoTicks(Failure),
    /// The program has used the profiling timer by a system call of its own.
    TimerTaken,
    /// The timer could not be disarmed before another program takes the process over, which therefore ignores the
    /// timer's signal.
    StillArmed(Failure),
}

/// Takes a notice and the path of the profile; async-signal-safe.
pub type DiagnosticSink = fn(&[u8], Diagnostic<'_>);

static SINK: OnceBox<DiagnosticSink> = OnceBox::new();

/// Has all notices from now on told to `sink`; the first one stays. Not for signal context.
pub(crate) fn set_diagnostic_sink(sink: DiagnosticSink) {
    SINK.get_or_init(|| Box::new(sink));
}

/// Tells whoever listens. Signal-safe.
pub(crate) fn report(path: &[u8], notice: Diagnostic<'_>) {
    if let Some(sink) = SINK.get() {
        sink(path, notice);
    }
}
