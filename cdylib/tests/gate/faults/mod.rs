//! Runs of an application in which system calls of the profiler's fail, and what they must leave.

mod cases;
mod check;
mod run;

pub(crate) use cases::{ABRUPT, CALLS, Case, REPLACED, SESSION, TOGGLE};
pub(crate) use check::check;
pub(crate) use run::{Answer, Bench, Fault, PATIENCE_SECONDS};
