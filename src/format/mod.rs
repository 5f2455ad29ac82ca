//! The CPU profile file format: slots, records, and the text list of mapped objects.
//!
//! This module has no `unsafe` code, makes no system calls, has no global state and builds on any
//! target. The writing side ([`ProfileWriter`], [`write_records`], [`Mapping::write_line`]) can run
//! in a signal handler or while the process exits: it allocates nothing, takes no lock and returns
//! errors as values. The reading side ([`CpuProfile::parse`], [`Records`]) allocates in proportion
//! to its input. Section names such as "Binary Header" are those of gperftools' document
//! `cpuprofile-fileformat`.
//!
//! ```text
//! slot   0   1   2   3        4     5       6        7 ..      |            |
//!      +---+---+---+--------+---+-------+----------+---------+ - +---+---+---+----------------+
//!      | 0 | 3 | 0 | period | 0 | count | num_pcs  | pcs     |   | 0 | 1 | 0 | lines of text  |
//!      +---+---+---+--------+---+-------+----------+---------+ - +---+---+---+----------------+
//!        header (period in µs)    record, leaf PC first ...        trailer     mapped objects
//! ```

#[cfg(feature = "runtime")]
pub(crate) mod double_buffer;
mod maps;
mod reader;
mod second_frame;
#[cfg(feature = "runtime")]
pub(crate) mod spool;
mod word;
mod writer;

pub use maps::{Device, Mapping, Permissions};
pub use reader::{CpuProfile, ProfileText, ReadError, Record, RecordRef, Records};
pub use second_frame::{SecondFramePlan, SecondFrameTally, SecondFrameVote, write_records};
pub use word::{ByteOrder, SlotLayout, SlotWidth};
pub use writer::{CountingSink, ProfileWriter, WriteError};
