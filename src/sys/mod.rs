//! The operating system's interface: checked calls that return their out-parameters. An item is
//! signal-safe if its doc, or the head of its module, says so.

pub(crate) mod arch;
pub(crate) mod checked_file;
pub(crate) mod clock;
mod decimal;
pub(crate) mod directory;
mod entries;
pub(crate) mod entry;
pub(crate) mod errno;
pub(crate) mod file;
pub(crate) mod links;
pub(crate) mod listing;
pub(crate) mod loader;
pub(crate) mod memory;
pub(crate) mod own_object;
pub(crate) mod perf;
pub(crate) mod posix_timer;
pub(crate) mod private_directory;
pub(crate) mod process;
pub(crate) mod process_age;
pub(crate) mod signal;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod timer;
