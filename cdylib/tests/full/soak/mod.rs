//! An application under torture, who watches it, and what must have come of it.

mod evidence;
mod rig;
mod verdict;
mod watch;

pub(crate) use rig::{Rig, Variant};
pub(crate) use verdict::check;
pub(crate) use watch::watch;
