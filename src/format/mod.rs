//! The CPU profile file as bytes: slots, records, the text list of mapped objects.
//!
//! Everything in this folder is pure: bytes in, bytes out. There is no `unsafe` code, no call into the
//! operating system and no global state, so each file here builds and is tested on any target.
//!
//! The writing side ([`ProfileWriter`], [`write_records`], [`Mapping::write_line`]) may run while the process
//! ends or inside a signal handler. It allocates nothing, takes no lock, and reports trouble as a value. The
//! reading side ([`CpuProfile::parse`], [`Records`]) allocates, at most in proportion to its input.
//!
//! Sections cited in this folder ("Binary Header", "Binary Profile Records" and so on) are those of the
//! document `cpuprofile-fileformat` that gperftools publishes.
//!
//! ```text
//! slot     0   1   2   3        4     5       6        7 ..        |            |
//!        +---+---+---+--------+---+-------+----------+-----------+ - +---+---+---+------------------+
//!        | 0 | 3 | 0 | period | 0 | count | num_pcs  | pcs       |   | 0 | 1 | 0 | lines of text    |
//!        +---+---+---+--------+---+-------+----------+-----------+ - +---+---+---+------------------+
//!          header (period in µs)    record, leaf PC first ...          trailer     mapped objects
//! ```

#[cfg(feature = "runtime")]
pub(crate) mod halves;
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
