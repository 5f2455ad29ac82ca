//! Runs of an application with failing system calls of the profiler, and checks of the results.

mod cases;
mod check;
mod run;

pub(crate) use cases::{ABRUPT, CALLS, Case, REPLACED, SESSION, TOGGLE};
pub(crate) use check::check;
pub(crate) use run::{Answer, Bench, Fault, TIMEOUT_SECONDS};
