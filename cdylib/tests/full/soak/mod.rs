//! The tortured application, its watcher, and the checks of the results.

mod evidence;
mod rig;
mod verdict;
mod watch;

pub(crate) use rig::{Rig, Variant};
pub(crate) use verdict::check;
pub(crate) use watch::watch;
